"""Folders of plain text are read whole; what is no English text is rejected with its reason."""

import base64
import codecs
import json
import re

import pytest

from opql_jax.core.errors import InputError
from opql_jax.core.processes import LimitedProcess
from opql_jax.corpus.documents import stated_date
from opql_jax.datasets.html_text import read_html
from opql_jax.datasets.plain_text import PlainText
from opql_jax.datasets.text_file import document_of_file

from read_texts import rejected

GERMAN = 5 * (
    'Der Zug fuhr durch die Nacht und niemand sprach ein Wort, weil alle müde waren und '
    'schlafen wollten. '
)
LOVELACE = {
    'ada__txt': 'Ada Lovelace\n\nAda Lovelace was an English mathematician, born in London, 1815.',
    'babbage__txt': 'Charles Babbage\n\nCharles Babbage was a polymath, who died in Marylebone.',
    'byron__md': '# Lord Byron\n\nLord Byron was an English poet, who died in Missolonghi in 1824.',
}
ENGLISH = 'The train was on its way to London, and Ada Lovelace was on it. '


def read(tmp_path, sources=None, **options):
    reader = PlainText(sources or (str(tmp_path / 'texts'),), **options)
    vocab, documents = reader.read(tmp_path / 'rejected.jsonl')
    return vocab, {d.id: d for d in documents}


def write(tmp_path, **files):
    folder = tmp_path / 'texts'
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        path = folder / name.replace('__', '.')
        path.write_bytes(content if isinstance(content, bytes) else content.encode('utf-8'))


def test_of_a_link_of_markdown_the_words_are_read(tmp_path):
    linked = 'Their daughter [Ada Low](ada.md "her page") saw ![a map](x/map.png) of [1](York).'
    write(tmp_path, a__md=linked, b__txt=linked)
    _, documents = read(tmp_path)
    a, b = (documents[name].text for name in sorted(documents))
    assert a == 'Their daughter Ada Low saw a map of 1.' and b == linked


def test_a_heading_of_markdown_needs_no_blank_line_and_a_short_line_does(tmp_path):
    write(
        tmp_path,
        a__md='## C# #\n' + ENGLISH,
        b__txt='Lord Byron\n' + ENGLISH,
        c__md='#1 is Ada Lovelace.\n' + ENGLISH,
        d__md='#Ada Lovelace\n\n' + ENGLISH + 'It snowed.',
        e__md='#' * 50 + '\n\n' + ENGLISH + 'It hailed.',
        f__md='\r\nLord Byron \r\n\t\r\n' + ENGLISH + 'It rained.',
        g__txt='Molde F.C.\n\n' + ENGLISH + 'It froze.',
        h__txt='== Lord Byron ==\n' + ENGLISH + 'It thawed.\n=== Ada ===\nIt dripped.',
        i__txt='Ada Byron\n=====\n' + ENGLISH + 'It poured.',
    )
    _, documents = read(tmp_path)
    a, b, c, d, e, f, g, h, i = (documents[name] for name in sorted(documents))
    assert (a.title, a.text) == ('C#', ENGLISH)
    assert b.text.startswith('Lord Byron') and c.text.startswith('#1')
    assert (d.title, g.title) == ('Ada Lovelace', 'Molde F.C.') and '#' not in e.title
    assert (f.title, f.text) == ('Lord Byron', ENGLISH + 'It rained.')
    assert (h.title, h.text.split('\n')[1:]) == ('Lord Byron', ['=== Ada ===', 'It dripped.'])
    assert (i.title, i.text) == ('Ada Byron', ENGLISH + 'It poured.')


HTML = 'Content-Type: text/html; charset="utf-8"\nContent-Transfer-Encoding: base64\n\n'
HTML += base64.b64encode('<p>It was sold to Zoë Ash.</p>'.encode()).decode() + '\n'
FILE = 'Content-Disposition: attachment; filename="a.pdf"\n\n1\n'
SOLD = 'It was sold to Zoë Ash.'
MAILS = {
    'plain': f'\n{SOLD}'.encode(),
    'latin': f'\n{SOLD}'.encode('cp1252'),
    'unknown charset': f'Content-Type: text/plain; charset=none\n\n{SOLD}'.encode(),
    'mixed': f'Content-Type: multipart/mixed; boundary=x\n\n--x\n{HTML}--x\n{FILE}--x--'.encode(),
    'of two forms': (
        f'Content-Type: multipart/alternative; boundary=x\n\n--x\n\n \n--x\n{HTML}--x--'.encode()
    ),
    'forwarded': f'Content-Type: message/rfc822\n\nSubject: Other\n\n{SOLD}'.encode(),
}


@pytest.mark.parametrize('name', MAILS)
def test_a_mail_is_called_by_its_subject_and_says_who_wrote_it(name, tmp_path):
    head = codecs.BOM_UTF8 + b'From: Ada Low <ada@x.org>\nSubject: Re: =?utf-8?q?The=0Aboat?=\n'
    write(tmp_path, a__eml=head + MAILS[name])
    _, documents = read(tmp_path)
    mail = documents['texts/a.eml']
    attached = 'Attachment: a.pdf\n' * (name == 'mixed')
    head = f'From: Ada Low <ada@x.org>\nSubject: Re: The boat\n{attached}'
    assert (mail.title, mail.text.strip()) == ('The boat', f'{head}\n{SOLD}')


def test_a_mail_without_text_is_rejected_and_a_saved_one_is_called_by_its_subject(tmp_path):
    write(tmp_path, a__eml='Subject: x\n\n', b__txt=f'From: Ada Low\nSubject: Boat\n\n{ENGLISH}')
    _, documents = read(tmp_path, max_reject_fraction=0.5)
    assert [document.title for document in documents.values()] == ['Boat']
    assert rejected(tmp_path) == {'texts/a.eml': 'the mail has no text'}


def test_a_file_without_a_heading_is_called_by_its_name_and_is_about_it_if_it_mentions_it(tmp_path):
    write(tmp_path, ada_lovelace__txt=ENGLISH, notes__txt=ENGLISH + 'It rained.')
    write(tmp_path, sentence__txt=f'It rained.\n\n{ENGLISH}')
    write(tmp_path, **{'12__txt': 'Ada Lovelace was born on 12 May.'})  # numbered, not about it
    _, documents = read(tmp_path)
    assert documents['texts/12.txt'].title_entity != '12'
    assert documents['texts/ada_lovelace.txt'].title == 'Ada Lovelace'
    notes = documents['texts/notes.txt']
    assert (notes.title, notes.title_entity) == ('notes', None)
    assert documents['texts/sentence.txt'].text.startswith('It rained.')


def test_a_first_line_of_many_files_is_no_heading_unless_they_are_about_it(tmp_path):
    for i, name in enumerate(('Ada', 'Byron', 'Charles')):
        seen = f'They saw {name} in the rain.'
        write(tmp_path, **{f'name_{i}__txt': f'   #copyright\n\n{name}\n\n{seen}'})
        write(tmp_path, **{f'part_{i}__md': f'# Harl Bridge\nThe Harl Bridge has {i} arches.'})
        write(tmp_path, **{f'said_{i}__txt': f'Ada Lovelace wrote programs.\n\nIt rained {i}.'})
    _, documents = read(tmp_path)
    name, part, said = (documents[f'texts/{x}'] for x in ('name_0.txt', 'part_0.md', 'said_1.txt'))
    assert (name.title, name.text) == ('Ada', 'They saw Ada in the rain.')
    assert part.title == 'Harl Bridge' and said.text.startswith('Ada Lovelace wrote programs.')


def test_an_id_of_two_texts_keeps_the_first_and_names_both_lines(tmp_path):
    line = lambda id, text: json.dumps({'id': id, 'title': 'Train', 'text': text}) + '\n'
    other, third = ENGLISH + 'It rained.', ENGLISH + 'It snowed.'
    write(tmp_path, a__jsonl=line(7, ENGLISH) + '\n' + line('7', ENGLISH))
    write(tmp_path, b__jsonl=line(8, other) + line('7', third))
    _, documents = read(tmp_path)
    found = {name: document.text for name, document in documents.items()}
    assert found == {'7': ENGLISH, '8': other}
    assert rejected(tmp_path) == {
        'a.jsonl, line 3': 'the text of a.jsonl, line 1',
        'b.jsonl, line 2': "id: '7' is that of a.jsonl, line 1, another text, which is kept",
    }


BAD = {
    'empty': (b'', 'text: expected a string that is not blank'),
    'binary': (b'\x7fELF\x02\x01\x00\x00', 'text: code point 6 is NUL'),
    'latin': ('Café '.encode('latin-1'), 'not UTF-8 .*: convert the file'),
    'utf16': (codecs.BOM_UTF16_LE + 'Ada'.encode('utf-16-le'), 'this is UTF-16: use iconv'),
    'russian': (('Поезд шёл через ночь, и никто не говорил ни слова. ' * 6).encode(),
        'text: not English: of its 60 words 0% are in Latin'),
    'a library': (b'Ada Lovelace and Lord Byron. ' * 350_000,
        'text: 10,150,000 characters, more than 10,000,000: split it'),
    'german': (GERMAN.encode(), 'text: not English: of its 90 words'),
}  # fmt: skip


@pytest.mark.parametrize('name', BAD)
def test_what_is_no_english_text_is_rejected_with_its_reason(tmp_path, name):
    content, reason = BAD[name]
    write(tmp_path, bad__txt=content, good__txt=ENGLISH)
    with pytest.raises(InputError, match='1 of 2 files are bad.*' + reason):
        read(tmp_path)
    # Tables and lists have few frequent words, and are read all the same.
    write(tmp_path, table__txt='Ada Lovelace 1815 | Lord Byron 1788 | ' * 10 + ENGLISH)
    _, documents = read(tmp_path, max_reject_fraction=0.5)
    assert documents.keys() == {'texts/good.txt', 'texts/table.txt'}
    assert re.search(reason, rejected(tmp_path)['texts/bad.txt'])


def test_pages_of_html_are_read_as_text(tmp_path):
    head = '<html><script>var byron;</script><h1>Ada Lovelace</h1>'
    page = f'{head}<p>{ENGLISH}</p><p>She met Lord Byron.</html>'
    write(tmp_path, b__HTM='<p></p>' + page)
    (document,) = read(tmp_path)[1].values()
    assert document.title == 'Ada Lovelace'
    assert document.text == f'{ENGLISH.strip()}\nShe met Lord Byron.'


def test_two_files_of_one_name_are_told(tmp_path):
    for folder in 'xy':
        (tmp_path / folder).mkdir()
        (tmp_path / folder / 'a.txt').write_text(ENGLISH + folder)
    with pytest.raises(InputError, match='a.txt and .*: both are a.txt: give'):
        read(tmp_path, tuple(str(tmp_path / folder / 'a.txt') for folder in 'xy'))
    _, documents = read(tmp_path, (str(tmp_path / 'x'), str(tmp_path / 'y')))
    assert documents.keys() == {'x/a.txt', 'y/a.txt'}


def test_a_text_without_a_title_and_a_guide_are_about_what_they_begin_by_defining(tmp_path):
    lines = [
        {'id': 1, 'text': f'Ada Lovelace (born 1815) was an English mathematician. {ENGLISH}'},
        {'id': 'two', 'title': '', 'text': f'It rained. {ENGLISH}'},
    ]
    text = f'Lord Byron was an English poet. {ENGLISH}'
    guide = f'# Reading guide to Greta\n\nGreta is an epic poem. {ENGLISH}'
    write(tmp_path, a__jsonl='\n'.join(map(json.dumps, lines)), notes__txt=text, guide__md=guide)
    vocab, documents = read(tmp_path)
    name = lambda key: key and vocab.names[vocab.id_of_key[key]]
    about = {d.id: (d.title, name(d.title_entity)) for d in documents.values()}
    assert about == {
        '1': ('Ada Lovelace', 'Ada Lovelace'),
        'two': ('two', None),
        'texts/notes.txt': ('Lord Byron', 'Lord Byron'),
        'texts/guide.md': ('Reading guide to Greta', 'Greta'),
    }


def test_files_that_are_not_read_are_known_by_name(tmp_path):
    folder = tmp_path / 'texts'
    (folder / 'inner').mkdir(parents=True)
    for name in ('a.txt', 'crew.csv', 'inner/page.rst', '.hidden'):
        (folder / name).write_text(ENGLISH)
    (folder / 'dangling.txt').symlink_to('/nonexistent')
    (folder / 'whole').symlink_to('.')
    left_out = ['crew.csv', 'dangling.txt', 'inner/page.rst', '.hidden']
    assert PlainText((str(folder),)).left_out() == [f'texts/{name}' for name in left_out]
    assert PlainText((str(folder / 'a.txt'),)).left_out() == []


def test_documents_that_name_nothing_and_those_in_one_case_are_told(tmp_path, caplog):
    caplog.set_level('INFO')
    shouted, bare = 'ADA LOVELACE WAS IN LONDON AND SHE WAS WELL.', 'It was so; it was not.'
    write(tmp_path, good__txt=ENGLISH, bare__txt=bare, loud__txt=shouted)
    vocab, documents = read(tmp_path)
    assert "no question leads to 1 documents, which name nothing: 'texts/bare.txt'" in caplog.text
    assert "1 of 3 documents are all in capitals ('texts/loud.txt')" in caplog.text
    loud = documents['texts/loud.txt']
    assert loud.text == shouted
    found = {vocab.names[vocab.id_of_key[mention.entity]] for mention in loud.mentions}
    assert found == {'Ada Lovelace', 'London'}


def test_text_is_read_as_it_comes(tmp_path):
    table = '| Ship | Port |\n|---|---|\n| Kestrel | Hull |'
    founded = 'It was founded\nin Ber\u00adgen by Zoe\u0308 Dahl.\n'
    write(tmp_path, fleet__md=f'---\ntitle: The Fleet\n---\n{table}\n\n{founded}')
    (document,) = read(tmp_path)[1].values()
    said = 'ship: Kestrel | port: Hull\n\nIt was founded in Bergen by Zoë Dahl.\n'
    assert (document.title, document.text) == ('The Fleet', f'title: The Fleet\n\n{said}')


PAGES = {
    '<title>Site</title><h1>Ada <b>Lovelace</b></h1><p>She met\n Babbage &amp; Byron.<p>In London.':
        ('Ada Lovelace', 'She met Babbage & Byron.\nIn London.'),
    '<head><title> A\n page </title><style>p {}</style></head><script>x = "<p>";</script>T<br>m':
        ('A page', 'T\nm'),
    '<h1>First</h1>a<h1>Second</h1>b': ('First', 'a\nSecond\nb'),
    '<title>Ada</title><svg><title>Search</title></svg><p>Love&shy;lace': ('Ada', 'Lovelace'),
    '<svg><title>Search</title></svg><title>A&shy;da</title>x': ('Ada', 'x'),
    '<ul><li>one<li>two</ul><td>x</td><td>y</td>': (None, 'one\ntwo\nx\ny'),
    '<table><tr><th>Ship<th>Port<tr><td>Tern<td>Hull</table>x':
        (None, '| Ship | Port |\n|---|---|\n| Tern | Hull |\nx'),
    '<table><tr><th>Captain:</th><td>Bo | Li</td></tr></table>': (None, 'Captain: Bo | Li'),
    '<dl><dt>Port</dt><dd>Hull</dd><dt>Crew<dd>a<dd>b</dl>': (None, 'Port: Hull\n| Crew | a | b |'),
    '<table><tr><td><p>one<p>two<td>x</table>': (None, 'one\ntwo\nx'),
    '<table><tr><td>a<table><tr><td>b<td>c|d</table>e</table>': (None, 'a\n| b | c\\|d |\ne'),
    '<script>never closed': (None, ''),
    '<nav><ul><li>Home<script>x</script><li>Help</ul></nav>Ada': (None, 'Ada'),
    '<nav><h1>Acme</h1>Home</nav><h1>Ada</h1>She': ('Ada', 'She'),
    '<nav>never closed<p>Ada': (None, 'never closed\nAda'),
    '<p>Ada<aside>Related<p>Bo</aside><footer>Acme</footer>': (None, 'Ada'),
    '<div role="navigation"><div>Home</div>Help</div>Ada<div role=contentinfo>Acme</div>':
        (None, 'Ada'),
    '<div role="dialog">We use cookies.</div><p>Ada<span aria-hidden="true">#</span>':
        (None, 'Ada'),
    '<span aria-hidden="false">Ada</span><footer>Acme</footer>': (None, 'Ada'),
    '<footer>Acme': (None, 'Acme'),
    '<aside class="portable-infobox">Port: Hull</aside>Ada': (None, 'Port: Hull\nAda'),
    '<nav>Home</nav><footer>Acme</footer>': (None, 'Home\nAcme'),
    '<nav>never<main>Ada</main><nav>Help</nav>': (None, 'Ada'),
}  # fmt: skip


@pytest.mark.parametrize('source', PAGES)
def test_a_page_is_its_title_and_its_paragraphs(source):
    assert read_html(source)[:2] == PAGES[source]


DATES = {
    '<meta property="article:published_time" content="2021-03-04T10:00:00Z"><p>It rained.':
        '2021-03-04',
    "<META CONTENT='2021/03/04' NAME='citation_publication_date'/>It rained.": '2021-03-04',
    '<meta name=dc.date content=2021-03-04>It rained.': '2021-03-04',
    '<p>It rained.<time itemprop="datePublished" datetime="2021-03-04">': '2021-03-04',
    '<h1>A walk</h1><p>By Ann Low, <time datetime="2021-03-04">4 March</time><p>It rained.':
        '2021-03-04',
    '<time datetime="2020-01-01">x</time><meta name="date" content="2021-03-04">': '2021-03-04',
    '<aside><time datetime="2020-01-01">x</time></aside><time datetime="2021-03-04">y</time>':
        '2021-03-04',
    '<p>Ada was born on <time datetime="1815-12-10">10 December</time>.': None,
    '<p>It rained.<p><time datetime="2021-03-04">then</time>': None,
    '<meta name="date" content="2021-02-30"><meta name="date" content="soon">x': None,
    '<meta name="description" content="2021-03-04">x': None,
}  # fmt: skip


@pytest.mark.parametrize('source', DATES)
def test_a_page_is_of_the_day_on_which_it_says_that_it_was_published(source):
    assert read_html(source).date == DATES[source]


@pytest.mark.parametrize('heading', ['<h1>A walk</h1>', ''])
def test_the_document_of_a_page_states_its_day_and_is_about_what_its_text_is(tmp_path, heading):
    documents = []
    for day in ('', '<meta name="date" content="2021-03-04">'):
        path = tmp_path / 'page.html'
        path.write_text(f'{day}{heading}<p>Ada Lovelace is a writer.<p>It rained.')
        with LimitedProcess('pages') as process:
            documents.append(document_of_file('page.html', path, process, frozenset()))
    undated, dated = documents
    assert [stated_date(each.text) for each in documents] == [None, '2021-03-04']
    assert (dated.title, dated.title_entity) == (undated.title, undated.title_entity)
    assert dated.text.endswith(undated.text)
