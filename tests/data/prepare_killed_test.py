"""A prepare that was killed: the next run ends with the bytes of an undisturbed one, and makes
again only what was not made.
"""

import contextlib
import itertools
import json
import pathlib
import shutil

import pytest

from opql_jax.corpus import splitting
from opql_jax.data import passage_records, prepare

from prepare_by_parts import BATCH, run

DOCUMENTS = 2 * BATCH  # two parts of passages, and two of records


def write(folder, documents=DOCUMENTS):
    folder.mkdir()
    names = ['Ann', 'Bob', 'Eve', 'Zoë']
    said = lambda i: f'{names[i % 4]} knows {names[(i + 1 + i // 4) % 4]} since {1900 + i}.'
    pages = [{'id': str(i), 'title': names[i % 4], 'text': said(i)} for i in range(documents)]
    (folder / 'corpus.jsonl').write_text('\n'.join(map(json.dumps, pages)), encoding='utf-8')
    return folder / 'corpus.jsonl'


def contents(folder):
    # A partial file may stay; it is not read.
    files = (p for p in folder.rglob('*') if p.is_file() and not p.name.endswith('.partial'))
    return {path.relative_to(folder): path.read_bytes() for path in files}


def parts(folder):
    """The files of parts, each with what another file of that name would not have."""
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


CUT, TOKENISE = (splitting, 'split_batch'), (passage_records, 'tokenise_batch')


@pytest.mark.parametrize(
    'at, call, kept',
    [(CUT, 1, (0, 0)), (CUT, 2, (1, 0)), (TOKENISE, 1, (2, 0)), (TOKENISE, 2, (2, 1))],
)
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
    parts_of = lambda kind: sum(p.parent.name == kind for p in parts(tmp_path / 'out'))
    assert (parts_of('passages'), parts_of('records')) == kept
    with made(CUT, TOKENISE) as counts:
        run(tmp_path / 'out', corpus)
    assert contents(tmp_path / 'out') == whole
    assert tuple(counts.values()) == (2 - kept[0], 2 - kept[1])


def interrupted(output, corpus, **options):
    """A run that ends before its manifest is written."""
    with pytest.MonkeyPatch.context() as patched:

        def stop(*_):
            raise KeyboardInterrupt

        patched.setattr('opql_jax.corpus.tables.write_manifest', stop)
        with pytest.raises(KeyboardInterrupt):
            run(output, corpus, **options)
    assert len(parts(output)) == 4


@pytest.mark.parametrize('changed', ['settings', 'tokenizer', 'program'])
def test_parts_that_would_be_others_are_not_taken(tmp_path, changed):
    corpus, options = write(tmp_path / 'corpus'), {}
    tokenizer = tmp_path / 'tokenizer.json'
    if changed == 'tokenizer':
        run(tmp_path / 'first', corpus)
        run(tmp_path / 'second', write(tmp_path / 'more', 40), wordpieces=90)
        shutil.copy(tmp_path / 'first' / 'tokenizer.json', tokenizer)
        options = {'tokenizer': str(tokenizer)}
    with pytest.MonkeyPatch.context() as patched:
        if changed == 'program':
            patched.setattr(prepare, 'PARTS_VERSION', 0)
        interrupted(tmp_path / 'out', corpus, **options)
    if changed == 'settings':
        options = {'title_prefix': False}
    elif changed == 'tokenizer':
        shutil.copy(tmp_path / 'second' / 'tokenizer.json', tokenizer)
    makes_all_again(tmp_path, corpus, **options)


def makes_all_again(tmp_path, corpus, **options):
    with made(CUT, TOKENISE) as counts:
        run(tmp_path / 'out', corpus, **options)
    assert counts == {'split_batch': 2, 'tokenise_batch': 2}
    run(tmp_path / 'whole', corpus, **options)
    assert contents(tmp_path / 'out') == contents(tmp_path / 'whole')


@pytest.mark.parametrize('damage', ['cut', 'a bit'])
def test_a_damaged_part_is_made_again(tmp_path, damage):
    corpus = write(tmp_path / 'corpus')
    interrupted(tmp_path / 'out', corpus)
    for i, path in enumerate(parts(tmp_path / 'out')):
        stored = bytearray(path.read_bytes())
        stored[len(stored) * (i + 1) // 6] ^= 1 << i
        path.write_bytes(path.read_bytes()[:300] if damage == 'cut' else stored)
    makes_all_again(tmp_path, corpus)


def test_several_processes_go_on_with_the_parts_of_one(tmp_path, caplog):
    corpus = write(tmp_path / 'corpus')
    interrupted(tmp_path / 'out', corpus)
    first, *others = parts(tmp_path / 'out').items()
    first[0].unlink()
    with caplog.at_level('INFO', 'opql_jax'), pytest.MonkeyPatch.context() as patched:
        patched.setattr(prepare, '_finish', lambda directory: None)
        run(tmp_path / 'out', corpus, processes=2)
    assert 'a killed run left 3 parts' in caplog.text
    left = parts(tmp_path / 'out')
    # The same files: none was written again.
    assert len(left) == 4 and left.items() >= dict(others).items()
    run(tmp_path / 'out', corpus)
    run(tmp_path / 'whole', corpus)
    assert contents(tmp_path / 'out') == contents(tmp_path / 'whole')
