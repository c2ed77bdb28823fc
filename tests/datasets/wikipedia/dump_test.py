"""MediaWiki dumps: pages and redirects, parts that are read once, damaged files."""

import json

import pytest

from opql_jax.core.errors import InputError
from opql_jax.corpus.documents import Document, Mention, validate
from opql_jax.datasets.wikipedia import dump as wikidump
from opql_jax.datasets.wikipedia.reader import Wikipedia

from dump_writer import page_xml as page
from dump_writer import write_pages as dump


@pytest.fixture
def reader(tmp_path):
    """A reader of what lies in the test's folder."""
    return lambda path='*.xml*', work='work', **options: Wikipedia(
        str(tmp_path / path), str(tmp_path / work), **{'processes': 1, 'min_links': 0, **options}
    )


def mentions_of(document):
    return [(document.text[m.start : m.end], m.entity) for m in document.mentions]


def read(reader, tmp_path):
    """Vocabulary, documents by title, lines of the rejected file."""
    vocab, documents = reader.read(tmp_path / 'rejected.jsonl')
    for document in documents:
        validate(document, vocab.keys)
    lines = [json.loads(line) for line in (tmp_path / 'rejected.jsonl').read_text().splitlines()]
    return vocab, {document.title: document for document in documents}, lines


# Pages.


def test_articles_are_documents_about_their_title(reader, tmp_path):
    dump(
        tmp_path / 'a.xml',
        page(1, 'Ann', "'''Ann''' knows [[bob]], [[Gone]] and [[Talk:Bob]]."),
        page(7, 'Bob', '{{stub}}'),
        page(8, 'Talk:Bob', 'Hello [[Ann]].', namespace=1),
        page(9, 'Kategorie:People', 'People', namespace=14),
    )
    vocab, documents, rejected = read(reader(), tmp_path)
    text, mentions = 'Ann knows bob, Gone and Talk:Bob.', (Mention(10, 13, 'Bob'),)
    assert documents == {'Ann': Document('1', 'Ann', text, mentions, 'Ann')}
    assert vocab.keys == vocab.names == ['Bob', 'Ann'] and not rejected


def test_redirects_are_followed_through_chains_and_not_around_circles(reader, tmp_path):
    redirects = {
        'One': 'End', 'Two': 'One#Part', 'Three': 'Two', 'Ring': 'Loop', 'Loop': 'Ring',
        'Self': 'Self', 'Nowhere': 'Gone', 'Abroad': 'User:A',
    }  # fmt: skip
    pages = [page(i, title, redirect=to) for i, (title, to) in enumerate(redirects.items(), 3)]
    links = ' '.join(f'[[{title.lower()}]]' for title in redirects)
    dump(tmp_path / 'a.xml', page(1, 'End', 'x'), page(2, 'A', links), *pages)
    vocab, documents, _ = read(reader(), tmp_path)
    assert mentions_of(documents['A']) == [('one', 'End'), ('two', 'End'), ('three', 'End')]
    assert vocab.keys == ['End', 'A'] and set(documents) == {'End', 'A'}


def test_the_most_linked_pages_are_the_entities_and_other_links_are_text(reader, tmp_path):
    texts = {'Zoe': '[[Ann]] [[Bob]] [[Cid]]', 'Ann': '[[a]] [[Bob]] [[Cid]] [[Dan]]'}
    texts |= dict.fromkeys(['Bob', 'Cid', 'Dan', 'Eve'], '')
    pages = [page(number, title, text) for number, (title, text) in enumerate(texts.items())]
    dump(tmp_path / 'a.xml', *pages, page(9, 'A', redirect='Ann'))

    def entities(**options):
        vocab, documents, _ = read(reader(**options), tmp_path)
        return vocab.keys, mentions_of(documents['Ann']), documents['Ann'].title_entity

    assert entities()[0] == ['Ann', 'Bob', 'Cid', 'Dan', 'Eve', 'Zoe']
    assert entities(min_links=1)[0] == ['Ann', 'Bob', 'Cid', 'Dan']
    found = entities(min_links=2)
    assert found == (['Ann', 'Bob', 'Cid'], [('a', 'Ann'), ('Bob', 'Bob'), ('Cid', 'Cid')], 'Ann')
    assert entities(max_entities=1) == (['Ann'], [('a', 'Ann')], 'Ann')
    assert entities(min_links=3) == ([], [], None)


def test_lists_and_disambiguation_pages_can_be_left_out(reader, tmp_path):
    dump(
        tmp_path / 'a.xml',
        page(1, 'List of towns', '* [[Rome]]'),
        page(2, 'Rome (disambiguation)', '* [[Rome]]'),
        page(3, 'Mercury', '* [[Rome]]\n{{Disambiguation|geo}}'),
        page(4, 'Venus', '* [[Rome]]\n__DISAMBIG__'),
        page(5, 'Rome', '{{disambiguation needed}} [[Venus]] and [[Romulus]]'),
        page(6, 'Romulus', redirect='Mercury'),
    )
    vocab, documents, _ = read(reader(), tmp_path)
    assert vocab.keys == ['Rome'] and documents['Rome'].mentions == ()
    vocab, documents, _ = read(reader(skip_titles='', skip_templates=''), tmp_path)
    assert mentions_of(documents['Rome']) == [('Venus', 'Venus'), ('Romulus', 'Mercury')]
    assert vocab.keys == ['Rome', 'Mercury', 'Venus', 'List of towns', 'Rome (disambiguation)']


def test_pages_that_cannot_be_read_are_listed_and_too_many_are_refused(reader, tmp_path):
    pages = [page(number, f'Page {number}', 'x') for number in range(8)]
    dump(tmp_path / 'a.xml', *pages, page(8, 'Style', '.a {}', model='css'), page(9, 'Page 3', 'y'))
    _, documents, rejected = read(reader(max_reject_fraction=0.2), tmp_path)
    assert documents['Page 3'].text == 'x' and len(documents) == 8
    repeated = 'another page before it has its id or title'
    first, second = (tuple(line.values()) for line in rejected)
    assert first == ('a.xml', '8', 'Style', 'its text is css, not wikitext')
    assert second == ('a.xml', '9', 'Page 3', repeated)
    assert set(rejected[0]) == {'part', 'page', 'title', 'reason'}
    said = "2 of 10 articles are bad, .*: a.xml, page 'Style': its text is css"
    with pytest.raises(InputError, match=said):
        read(reader(max_reject_fraction=0.1), tmp_path)


# Parts.


@pytest.fixture
def parts(tmp_path):
    """Three parts, of which each links to the next one."""
    for number in range(3):
        text = f'See [[page {(number + 1) % 3}.{{}}]].'
        pages = [page(100 * number + i, f'Page {number}.{i}', text.format(i)) for i in range(5)]
        dump(tmp_path / f'wiki-{number}.xml-p{number}p9.bz2', *pages)
    return tmp_path


@pytest.fixture
def read_parts(monkeypatch):
    """Names of the parts whose pages were read in this process."""
    names, pages = [], wikidump.pages
    monkeypatch.setattr(wikidump, 'pages', lambda path: names.append(path.name) or pages(path))
    return names


def test_two_processes_give_what_one_gives(parts, reader):
    one, two = (reader('.', f'work{n}', processes=n).read(parts / f'r{n}') for n in (1, 2))
    assert list(one[1]) == list(two[1]) and len(one[1]) == 15
    assert (one[0].keys, one[0].hash()) == (two[0].keys, two[0].hash())
    files = [{p.name: p.read_bytes() for p in (parts / f'work{n}').iterdir()} for n in (1, 2)]
    assert files[0] == files[1] and len(files[0]) == 3


def test_a_killed_run_reads_only_the_parts_that_it_lacks(parts, reader, read_parts):
    first = reader('*.bz2').read(parts / 'r')
    assert [name[:6] for name in read_parts] == ['wiki-0', 'wiki-1', 'wiki-2']
    made = sorted((parts / 'work').iterdir())
    made[1].unlink()
    (parts / 'work' / f'.{made[1].name}.1.partial').write_bytes(b'half')
    read_parts.clear()
    again = reader('*.bz2').read(parts / 'r')
    assert list(again[1]) == list(first[1]) and again[0].keys == first[0].keys
    assert len(read_parts) == 1 and sorted((parts / 'work').iterdir()) == made


def test_a_part_is_read_again_when_its_bytes_or_the_options_change(parts, reader, read_parts):
    reader('*.bz2').read(parts / 'r')
    (parts / 'wiki-1.xml-p1p9.bz2').rename(parts / 'wiki-9.xml.bz2')
    read_parts.clear()
    assert len(reader('*.bz2').read(parts / 'r')[1]) == 15 and not read_parts
    dump(parts / 'wiki-9.xml.bz2', page(999, 'New', 'x'))
    assert len(reader('*.bz2').read(parts / 'r')[1]) == 11 and read_parts == ['wiki-9.xml.bz2']
    reader('*.bz2', skip_titles='New').read(parts / 'r')
    assert len(read_parts) == 4


@pytest.mark.parametrize('name', ['a.xml', 'a.xml.bz2', 'a.xml.gz'])
def test_a_truncated_part_is_named_with_the_place(reader, tmp_path, name):
    pages = [page(n, f'Page {n}', f'text {n * 7919 % 1013} ' * 20) for n in range(3000)]
    whole = dump(tmp_path / name, *(pages[first : first + 100] for first in range(0, 3000, 100)))
    whole.write_bytes(whole.read_bytes()[: whole.stat().st_size * 3 // 4])
    place = r"after the page 'Page \d+', at about byte [\d,]+ of [\d,]+ \("
    where = f'{name}: (malformed|truncated) .*{place}'
    with pytest.raises(InputError, match=where):
        reader(name).read(tmp_path / 'r')
    assert not list((tmp_path / 'work').iterdir())
