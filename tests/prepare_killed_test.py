"""A prepare that was killed: the next run ends with the bytes of an undisturbed one, and makes again only what was not made."""

import contextlib
import itertools
import json
import pathlib

import pytest

import killed_everywhere
from opql_jax.corpus import prepare as corpus_prepare
from opql_jax.corpus.readers import JsonLines
from opql_jax.data import prepare, records

DOCUMENTS, BATCH = 8, 4  # two parts of passages, and two of records


def write(folder, documents=DOCUMENTS):
    folder.mkdir()
    names = ['Ann', 'Bob', 'Eve', 'Zoë']
    lines = [
        {'id': str(i), 'title': names[i % 4], 'text': f'{names[i % 4]} knows {names[(i + 1 + i // 4) % 4]} since {1900 + i}.'}
        for i in range(documents)
    ]
    (folder / 'corpus.jsonl').write_text('\n'.join(map(json.dumps, lines)), encoding='utf-8')
    return folder / 'corpus.jsonl'


def run(output, corpus, **options):
    options = {'wordpieces': 200, 'drop_above_rate': 1.0, **options}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(corpus_prepare, 'BATCH_DOCUMENTS', BATCH)
        patched.setattr(prepare, 'BATCH_PASSAGES', BATCH)
        return prepare.prepare(output_dir=str(output), reader=JsonLines(str(corpus)), **options)


def contents(folder):
    # A partial file may stay; it is not read.
    files = (path for path in folder.rglob('*') if path.is_file() and not path.name.endswith('.partial'))
    return {path.relative_to(folder): path.read_bytes() for path in files}


def parts(folder):
    return {path: path.stat().st_ino for path in pathlib.Path(folder).rglob('*.arrow')}


@contextlib.contextmanager
def made(*functions):
    """Counts the calls of functions, given as (module, name), while it lasts."""
    counts = dict.fromkeys((name for _, name in functions), 0)

    def counted(name, function):
        def call(*args, **kwargs):
            counts[name] += 1
            return function(*args, **kwargs)

        return call

    with pytest.MonkeyPatch.context() as patched:
        for module, name in functions:
            patched.setattr(module, name, counted(name, getattr(module, name)))
        yield counts


CUT, TOKENISE = (corpus_prepare, 'split_batch'), (records, 'tokenise_batch')


def goes_on(folder, corpus, whole):
    """Runs a folder that a killed run left to its end; returns how many parts of both kinds it did not make again."""
    kept = [sum(path.parent.name == kind for path in parts(folder)) for kind in ('passages', 'records')]
    with made(CUT, TOKENISE) as counts:
        run(folder, corpus)
    assert contents(folder) == whole
    assert [*counts.values()] == [2 - already for already in kept]
    return tuple(kept)


@pytest.mark.parametrize('at, call, kept', [(CUT, 1, (0, 0)), (CUT, 2, (1, 0)), (TOKENISE, 1, (2, 0)), (TOKENISE, 2, (2, 1))])
def test_a_stopped_run_goes_on_to_the_same_bytes_and_makes_no_part_twice(tmp_path, at, call, kept):
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
    assert goes_on(tmp_path / 'out', corpus, whole) == kept


@pytest.mark.slow
def test_a_run_killed_at_any_point_goes_on_to_the_same_bytes_and_makes_no_part_twice(tmp_path):
    corpus = write(tmp_path / 'corpus')
    points = killed_everywhere.run(tmp_path, 'prepare_killed_test', 'run', corpus)
    whole, seen = contents(tmp_path / str(points)), set()
    for point in range(1, points):
        folder = tmp_path / str(point)
        if (folder / 'manifest.json').exists():
            run(folder, corpus)
            assert contents(folder) == whole, f'killed at point {point}'
        else:
            seen.add(goes_on(folder, corpus, whole))
    assert seen == {(0, 0), (1, 0), (2, 0), (2, 1), (2, 2)}


def interrupted(output, corpus, **options):
    """A run that ends before its manifest is written."""
    with pytest.MonkeyPatch.context() as patched:

        def stop(*_):
            raise KeyboardInterrupt

        patched.setattr('opql_jax.corpus.tables.write_manifest', stop)
        with pytest.raises(KeyboardInterrupt):
            run(output, corpus, **options)
    assert len(parts(output)) == 4


@pytest.mark.parametrize('changed', ['settings', 'input', 'program'])
def test_parts_of_other_settings_another_input_or_program_are_not_taken(tmp_path, changed):
    corpus, options = write(tmp_path / 'corpus'), {}
    with pytest.MonkeyPatch.context() as patched:
        if changed == 'program':
            patched.setattr(prepare, 'PARTS_VERSION', 0)
        interrupted(tmp_path / 'out', corpus)
    if changed == 'settings':
        options = {'title_prefix': 'always'}
    elif changed == 'input':
        corpus = write(tmp_path / 'other', DOCUMENTS - 1)
    with made(CUT, TOKENISE) as counts:
        run(tmp_path / 'out', corpus, **options)
    assert counts == {'split_batch': 2, 'tokenise_batch': 2}
    run(tmp_path / 'whole', corpus, **options)
    assert contents(tmp_path / 'out') == contents(tmp_path / 'whole')


@pytest.mark.parametrize('bytes', [0, 7, 300])
def test_a_damaged_part_is_made_again(tmp_path, bytes):
    corpus = write(tmp_path / 'corpus')
    interrupted(tmp_path / 'out', corpus)
    for path in parts(tmp_path / 'out'):
        path.write_bytes(path.read_bytes()[:bytes])
    with made(CUT, TOKENISE) as counts:
        run(tmp_path / 'out', corpus)
    assert counts == {'split_batch': 2, 'tokenise_batch': 2}
    run(tmp_path / 'whole', corpus)
    assert contents(tmp_path / 'out') == contents(tmp_path / 'whole')


def test_several_processes_go_on_with_the_parts_of_one(tmp_path, caplog):
    corpus = write(tmp_path / 'corpus')
    interrupted(tmp_path / 'out', corpus)
    first = min(parts(tmp_path / 'out'))
    first.unlink()
    with caplog.at_level('INFO', 'opql_jax'):
        run(tmp_path / 'out', corpus, processes=2)
    assert '3 parts that a killed run made are not made again' in caplog.text
    run(tmp_path / 'whole', corpus)
    assert contents(tmp_path / 'out') == contents(tmp_path / 'whole')
