"""A prepared folder that continues another one: what was there keeps its ids."""

import json

import numpy as np
import pytest

from opql_jax.core.errors import InputError
from opql_jax.corpus import linking, tables
from opql_jax.data.prepare import prepare
from opql_jax.data.prepared import Prepared
from opql_jax.datasets.jsonl import JsonLines

from records import question_record

OLD = [
    {'id': 'up', 'title': 'Up', 'text': 'Up was made by Ann Low. It is a film.'},
    {'id': 'ann', 'title': 'Ann Low', 'text': 'Ann Low knows Bob Ray, who is no film.'},
    {'id': 'bob', 'title': 'Bob Ray', 'text': 'Bob Ray saw Up, a film.'},
    {'id': 'film', 'title': 'film', 'text': 'A film is what some people see.'},
]
NEW = [
    {'id': 'down', 'title': 'Down', 'text': 'Down, a film, was made by Ann Low and Cy Dee.'},
    {'id': 'cy', 'title': 'Cy Dee', 'text': 'Cy Dee saw Up. He met Bob Ray.'},
]


def reader(folder, name, records, questions=()):
    path = folder / f'{name}.jsonl'
    path.write_text('\n'.join(map(json.dumps, records)))
    if questions:
        (folder / name).mkdir()
        (folder / name / 'train.jsonl').write_text('\n'.join(map(json.dumps, questions)))
    return JsonLines(str(path), question_folder=str(folder / name) if questions else None)


def run(output, source, **options):
    options = {'wordpieces': 200, 'max_tokens': 64, 'drop_above_rate': 0.7, **options}
    prepare(kb=str(output.parent), text=output.name, reader=source, **options)
    return Prepared(output)


@pytest.fixture
def old(tmp_path, monkeypatch):
    monkeypatch.setattr(linking, 'DROP_FROM', 2)
    asked = ('who made [Up]', 'Ann Low'), ('who made [Down]', 'No One')
    questions = [question_record(i, *each) for i, each in enumerate(asked, 1)]
    return run(tmp_path / 'prepared', reader(tmp_path, 'old', OLD, questions))


@pytest.fixture
def new(old, tmp_path):
    questions = [question_record(1, 'who made [Down]', 'Cy Dee')]
    source = reader(tmp_path, 'new', NEW, questions)
    return run(tmp_path / 'extended', source, extends=str(old.directory))


def pair_rows(prepared):
    return list(zip(*(column.tolist() for column in prepared.pairs.values())))


def test_what_was_there_stays_as_it_was(old, new):
    count = len(old.passages)
    assert new.vocab.hash(len(old.vocab)) == old.vocab.hash()
    assert len(new.vocab) == len(old.vocab) + 2
    assert new.passages.slice(0, count).equals(old.passages) and len(new.passages) > count
    for passage in range(count):
        for before, after in zip(old.records[passage], new.records[passage], strict=True):
            np.testing.assert_array_equal(after, before)
    assert [row for row in pair_rows(new) if row[2] < count] == pair_rows(old)
    assert new.tokenizer_path.read_bytes() == old.tokenizer_path.read_bytes()
    assert pair_rows(new) == sorted(pair_rows(new))


def test_new_text_is_linked_by_old_and_new_names(old, new):
    names = new.vocab.names
    assert names[len(old.vocab) :] == ['Down', 'Cy Dee']
    rows = new.passages.slice(len(old.passages)).to_pylist()
    found = [[names[m['entity']] for m in row['mentions']] for row in rows]
    # 'film' stands in all of the old documents, which linked it in its own document only.
    assert old.manifest.dropped_entities == {'film': 1.0}
    assert found == [['Down', 'Ann Low', 'Cy Dee'], ['Cy Dee', 'Up', 'Bob Ray']]
    before, after = old.questions('1-hop/train'), new.questions('1-hop/train')
    assert after[: len(before)] == before and before[1].topic_entity == -1
    assert [(q.id, q.topic_entity, q.answers) for q in after[len(before) :]] == [
        ('1+2', new.vocab.id('Down'), (new.vocab.id('Cy Dee'),))
    ]


def test_the_manifest_states_what_it_continues_and_counts_both(old, new, tmp_path):
    origin = tables.Extended(old.hash(), 4, len(old.passages))
    assert new.manifest.extends == [origin] and new.manifest.settings['extends'] == old.hash()
    assert new.manifest.counts.documents == 6
    assert new.manifest.counts.pair_rows == len(pair_rows(new))
    more = reader(tmp_path, 'more', [{'id': 'x', 'title': 'Ex', 'text': 'Ex met Down.'}])
    third = run(tmp_path / 'third', more, extends=str(new.directory))
    second = tables.Extended(new.hash(), 6, len(new.passages))
    assert third.manifest.extends == [origin, second]
    assert third.vocab.hash(6) == new.vocab.hash() and third.vocab.names[6:] == ['Ex']


def test_it_is_the_settings_of_the_first_folder_that_count(old, tmp_path):
    given = dict(max_tokens=128, title_prefix=False, wordpieces=999, nested=True)
    source = reader(tmp_path, 'new', NEW)
    new = run(tmp_path / 'extended', source, extends=str(old.directory), **given)
    assert {name: new.manifest.settings[name] for name in given} == {
        name: old.manifest.settings[name] for name in given
    }
    assert run(tmp_path / 'extended', source, extends=str(old.directory)).hash() == new.hash()
    with pytest.raises(InputError, match='has another extends: choose another folder'):
        run(tmp_path / 'extended', source, extends=str(new.directory))


@pytest.mark.parametrize(
    ('records', 'options', 'message'),
    [
        (OLD[:1] + NEW, {}, "document id 'up' is known already: give only new documents"),
        (NEW, {'tokenizer': 'minilm'}, 'has another tokenizer than minilm: leave it out'),
        (NEW, {'extends': 'nowhere'}, 'nowhere is not a prepared folder'),
    ],
)  # fmt: skip
def test_what_does_not_continue_the_folder_is_refused(old, tmp_path, records, options, message):
    options = {'extends': str(old.directory), **options}
    with pytest.raises(InputError, match=message):
        run(tmp_path / 'extended', reader(tmp_path, 'new', records), **options)
