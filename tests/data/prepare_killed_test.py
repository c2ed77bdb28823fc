"""A prepare that was killed is completed to the bytes of an undisturbed one."""

import collections
import itertools
import json
import pathlib

import pytest

from opql_jax.corpus import splitting
from opql_jax.data import passage_records, prepare

from prepare_by_parts import BATCH, run

DOCUMENTS = 2 * BATCH  # two parts of passages, and two of records


def write(folder):
    folder.mkdir()
    names = ['Ann', 'Bob', 'Eve', 'Zoë']
    said = lambda i: f'{names[i % 4]} knows {names[(i + 1 + i // 4) % 4]} since {1900 + i}.'
    pages = [{'id': str(i), 'title': names[i % 4], 'text': said(i)} for i in range(DOCUMENTS)]
    (folder / 'corpus.jsonl').write_text('\n'.join(map(json.dumps, pages)), encoding='utf-8')
    return folder / 'corpus.jsonl'


def contents(folder):
    # A partial file may stay; it is not read.
    files = (p for p in folder.rglob('*') if p.is_file() and not p.name.endswith('.partial'))
    return {path.relative_to(folder): path.read_bytes() for path in files}


def parts(folder):
    return list(pathlib.Path(folder).rglob('*.arrow'))


CUT, TOKENISE = (splitting, 'split_batch'), (passage_records, 'tokenise_batch')


@pytest.fixture
def made(monkeypatch):
    """How often each kind of part was made."""
    counts = collections.Counter()

    def counted(name, make):
        return lambda *given, **named: counts.update([name]) or make(*given, **named)

    for module, name in (CUT, TOKENISE):
        monkeypatch.setattr(module, name, counted(name, getattr(module, name)))
    return counts


@pytest.mark.parametrize(
    'at, call, kept',
    [(CUT, 1, (0, 0)), (CUT, 2, (1, 0)), (TOKENISE, 1, (2, 0)), (TOKENISE, 2, (2, 1))],
)
def test_a_stopped_run_goes_on_to_the_same_bytes_and_makes_no_part_twice(
    tmp_path, made, at, call, kept
):
    corpus = write(tmp_path / 'corpus')
    run(tmp_path / 'whole', corpus)
    whole = contents(tmp_path / 'whole')
    assert not any('parts' in path.parts or path.name == 'plan.json' for path in whole)
    module, name = at
    function, calls = getattr(module, name), itertools.count(1)

    def stop(*args, **kwargs):
        if next(calls) == call:
            raise KeyboardInterrupt
        return function(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(module, name, stop)
        run(tmp_path / 'out', corpus)
    parts_of = lambda kind: sum(p.parent.name == kind for p in parts(tmp_path / 'out'))
    assert (parts_of('passages'), parts_of('records')) == kept
    made.clear()
    run(tmp_path / 'out', corpus)
    assert contents(tmp_path / 'out') == whole
    assert (made['split_batch'], made['tokenise_batch']) == (2 - kept[0], 2 - kept[1])


def interrupted(output, corpus):
    """A run that ends before its manifest is written."""
    with pytest.MonkeyPatch.context() as patched:

        def stop(*_):
            raise KeyboardInterrupt

        patched.setattr('opql_jax.corpus.tables.write_manifest', stop)
        with pytest.raises(KeyboardInterrupt):
            run(output, corpus)
    assert len(parts(output)) == 4


@pytest.mark.parametrize('changed', ['settings', 'program'])
def test_parts_that_would_be_others_are_not_taken(tmp_path, made, changed):
    corpus = write(tmp_path / 'corpus')
    with pytest.MonkeyPatch.context() as patched:
        if changed == 'program':
            patched.setattr(prepare, 'PARTS_VERSION', 0)
        interrupted(tmp_path / 'out', corpus)
    makes_all_again(tmp_path, made, corpus, title_prefix=changed == 'program')


def makes_all_again(tmp_path, made, corpus, **options):
    made.clear()
    run(tmp_path / 'out', corpus, **options)
    assert made == {'split_batch': 2, 'tokenise_batch': 2}
    run(tmp_path / 'whole', corpus, **options)
    assert contents(tmp_path / 'out') == contents(tmp_path / 'whole')


@pytest.mark.parametrize('damage', ['cut', 'a bit'])
def test_a_damaged_part_is_made_again(tmp_path, made, damage):
    corpus = write(tmp_path / 'corpus')
    interrupted(tmp_path / 'out', corpus)
    for i, path in enumerate(parts(tmp_path / 'out')):
        stored = bytearray(path.read_bytes())
        stored[len(stored) * (i + 1) // 6] ^= 1 << i
        path.write_bytes(path.read_bytes()[:300] if damage == 'cut' else stored)
    makes_all_again(tmp_path, made, corpus)


def test_several_processes_go_on_with_the_parts_of_one(tmp_path, caplog):
    corpus = write(tmp_path / 'corpus')
    interrupted(tmp_path / 'out', corpus)
    next(iter(parts(tmp_path / 'out'))).unlink()
    with caplog.at_level('INFO', 'opql_jax'):
        run(tmp_path / 'out', corpus, processes=2)
    assert 'a killed run left 3 parts' in caplog.text
    run(tmp_path / 'whole', corpus)
    assert contents(tmp_path / 'out') == contents(tmp_path / 'whole')
