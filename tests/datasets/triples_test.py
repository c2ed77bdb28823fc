"""Knowledge bases for the baselines: triples as supervision beside a text, and as the text."""

import json
import pathlib

import one_marked
import pytest

from opql_jax.core.errors import InputError
from opql_jax.corpus.entities import EntityVocab
from opql_jax.data.prepare import prepare
from opql_jax.data.prepared import Prepared
from opql_jax.datasets import readers, triples
from opql_jax.datasets.metaqa import MetaQA

NAMES = ['Up', 'Ann Low', 'Bo Ek', 'drama', 'Down', '1999']
KB = [
    ('Up', 'directed by', 'Ann Low'), ('Up', 'written by', 'Ann Low'),
    ('Up', 'written by', 'Bo Ek'), ('Down', 'directed by', 'Ann Low'),
    ('Down', 'release year', '1999'),
]  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / 'entities.txt').write_text('\n'.join(NAMES), encoding='utf-8')
    text = 'Up is a drama directed by Ann Low and written by Bo Ek, release year 1999.'
    (tmp_path / 'passages.jsonl').write_text(json.dumps({'id': 0, 'title': 'Up', 'text': text}))
    (tmp_path / '1-hop').mkdir()
    (tmp_path / '1-hop' / 'train.txt').write_text('who directed [Up]\tAnn Low\n')
    lines = ['|'.join(triple).replace(' by', '_by').replace(' year', '_year') for triple in KB]
    lines += [lines[0], 'Up|has_tags|nobody', 'Up|has_tags|Up', '']
    (tmp_path / 'kb.txt').write_text('\n'.join(lines))
    return tmp_path


def with_triples(folder):
    return triples.WithTriples(MetaQA(str(folder)), str(folder / 'kb.txt'))


def as_text(folder, **options):
    return triples.Triples(MetaQA(str(folder)), str(folder / 'kb.txt'), **options)


def prepared_of(reader, folder, **options):
    options = {'wordpieces': 200, 'drop_above_rate': 1.0, **options}
    prepare(kb=str(folder.parent), text=folder.name, reader=reader, **options)
    return Prepared(folder)


def test_each_triple_of_known_entities_is_read_once(folder, caplog):
    vocab = EntityVocab.from_names(NAMES)
    with caplog.at_level('INFO'):
        found = triples.read_triples(folder / 'kb.txt', vocab)
    assert [(vocab.names[head], name, vocab.names[tail]) for head, name, tail in found] == KB
    assert '2 triples of unknown entities, or of an entity with itself' in caplog.text


@pytest.mark.parametrize(
    'text, error',
    [
        ('Up|directed_by|Ann Low\n\nUp|directed_by\n', r'kb.txt:3: expected head\|relation\|tail'),
        ('X|directed_by|Y\n', 'no triple of two entities'),
    ],
)
def test_files_without_triples_are_refused(tmp_path, text, error):
    (tmp_path / 'kb.txt').write_text(text)
    with pytest.raises(InputError, match=error):
        triples.read_triples(tmp_path / 'kb.txt', EntityVocab.from_names(NAMES))


def test_every_triple_is_asked_for_from_both_ends_beside_the_text_as_it_is(folder):
    prepared = prepared_of(with_triples(folder), folder / 'prepared')
    plain, files = prepared_of(MetaQA(str(folder)), folder / 'plain'), prepared.manifest.files
    asked_here = 'questions/1-hop/kb.jsonl'
    assert files == {**plain.manifest.files, asked_here: files[asked_here]}
    names, asked, expected = prepared.vocab.names, {}, {}
    for question in prepared.questions('1-hop/kb'):
        topic = names[question.topic_entity]
        asked[topic, question.type] = {names[a] for a in question.answers}
        assert question.text[slice(*question.topic)] == topic
        assert question.text[question.topic[1] :] == f', {question.type}' and question.hops == 1
    for head, relation, tail in KB:
        expected.setdefault((head, relation), set()).add(tail)
        expected.setdefault((tail, f'inverse of {relation}'), set()).add(head)
    assert asked == expected


def test_triples_as_text_become_pairs_in_both_directions_and_nothing_else(folder):
    text = prepared_of(MetaQA(str(folder)), folder / 'text')
    prepared = prepared_of(as_text(folder), folder / 'prepared', tokenizer=str(text.tokenizer_path))
    # A model of the text can be trained on.
    assert prepared.vocab.hash() == text.vocab.hash() and prepared.splits == text.splits
    assert prepared.tokenizer_path.read_bytes() == text.tokenizer_path.read_bytes()
    names, found = prepared.vocab.names, []
    columns = (column.tolist() for column in prepared.pairs.values())
    for topic, target, passage, i, j, is_title in zip(*columns):
        marked = one_marked.mark_pair(prepared.records[passage], i, j, prepared.special, 4)
        said = prepared.tokenizer.decode(marked.tokens[1:-1].tolist(), skip_special_tokens=False)
        found.append((names[topic], names[target], said))
        assert is_title
    expected = []
    for head, relation, tail in KB:
        expected.append((head, tail, f'[ENT] [R1] {relation} [ENT] [R2]'))
        expected.append((tail, head, f'[ENT] [R2] {relation} [ENT] [R1]'))
    assert sorted(found) == sorted(expected)


def test_triples_can_come_beside_the_text_and_a_share_of_them_is_drawn_alike_each_time(folder):
    _, passages = MetaQA(str(folder)).read(folder / 'rejected.jsonl')
    read = lambda **options: as_text(folder, **options).read(folder / 'rejected.jsonl')[1]
    assert read(beside_text=True) == [*passages, *read()]
    about = read(about_text=True)
    assert [d.text for d in about] == [' '.join(triple) for triple in KB if triple[0] == 'Up']
    assert {d.title_entity for d in about} == {'Up'}
    with open(folder / 'kb.txt', 'a') as file:
        file.writelines(f'{head}|has_tags|{tail}\n' for head in NAMES for tail in NAMES)
    every, drawn = read(), read(share=0.5)
    assert drawn == read(share=0.5) and {d.text for d in drawn} < {d.text for d in every}
    assert abs(len(drawn) - len(every) / 2) < 3 * (len(every) / 4) ** 0.5
    for share in (0, 1.5, float('nan'), 1e-9):
        with pytest.raises(InputError, match='share: .* (is not in|draws none)'):
            read(share=share)


def test_only_the_baselines_depend_on_the_knowledge_base(folder):
    all_readers = MetaQA(str(folder)), with_triples(folder), as_text(folder)
    knows = ['kb.txt' in [pathlib.Path(p).name for p in r.files().values()] for r in all_readers]
    assert knows == [False, True, True]
    before = list(map(readers.identity, all_readers))
    with open(folder / 'kb.txt', 'a') as file:
        file.write('Up|has_genre|drama\n')
    after = map(readers.identity, all_readers)
    assert [a != b for a, b in zip(before, after)] == knows
