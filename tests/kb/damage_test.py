"""Damages of every kind at sampled places: what is read is right, or one error names a file of the
folder; nothing hangs.
"""

import pathlib
import shutil
import time

import numpy as np
import pytest

from opql_jax.core.errors import InputError
from opql_jax.data.prepared import Prepared
from opql_jax.kb.open_kb import open_kb
from opql_jax.kb.prediction_record import prediction_record
from opql_jax.memory import ann_build
from opql_jax.memory.ann import open_index
from opql_jax.memory.ann_build import build_index
from opql_jax.memory.format import Memory
from opql_jax.memory.update import delete

import ann_memories
import tiny_memories
import tiny_prepared
import tiny_training
from ann_memories import with_scann

# The longest that a folder of some kilobytes may take.
SECONDS = 30


def content(value):
    """Anything as what can be compared."""
    if isinstance(value, dict):
        return {name: content(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [content(item) for item in value]
    return np.asarray(value).tolist()


def prepared_content(folder):
    """Everything that is read from a prepared folder."""
    prepared = Prepared(folder)
    records = [content(tuple(prepared.records[i])) for i in range(len(prepared.records))]
    names = [
        prepared.vocab.keys,
        prepared.vocab.names,
        prepared.vocab.aliases,
        prepared.tokenizer.to_str(),
    ]
    questions = {split: prepared.questions(split) for split in prepared.splits}
    return records, names, questions, prepared.passages.to_pylist(), content(prepared.pairs)


def memory_content(folder):
    """Everything that is read from a memory."""
    memory = Memory.open(folder)
    columns = (
        memory.topic,
        memory.target,
        memory.ids,
        memory.offsets,
        memory.entity_rows,
        memory.relations(),
    )
    return content(columns), memory.provenance(memory.ids), memory.read_from([3, 4]).tolist()


@pytest.fixture(scope='module')
def prepared(tmp_path_factory):
    return tiny_prepared.write(tmp_path_factory.mktemp('damage') / 'prepared', longest=12)


@pytest.fixture(scope='module')
def memory(tmp_path_factory):
    """One with two segments, deleted entries and injected entities."""
    folder = tmp_path_factory.mktemp('damage') / 'memory'
    tiny_memories.make(folder).close()
    tiny_memories.add(folder, tiny_memories.make_table(12, seed=1), count=7).close()
    delete(folder, entries=[3, 5])
    return folder


@pytest.fixture(scope='module')
def indexed(tmp_path_factory):
    """(memory, folder of its index)."""
    folder = tmp_path_factory.mktemp('damage')
    memory = ann_memories.make_memory(folder / 'memory', 2000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ann_build, 'MIN_ENTRIES', 1000)
        build_index(folder / 'index', memory, ann_memories.TABLE, recall=0.8)
    return memory, folder / 'index'


def flip(rng, paths):
    path = paths[rng.integers(len(paths))]
    data = bytearray(path.read_bytes())
    data[rng.integers(len(data))] ^= 1 << rng.integers(8)
    path.write_bytes(data)
    return path


def truncate(rng, paths):
    path = paths[rng.integers(len(paths))]
    data = path.read_bytes()
    path.write_bytes(data[: rng.integers(len(data))])
    return path


def remove(rng, paths):
    path = paths[rng.integers(len(paths))]
    path.unlink()
    return path


def swap(rng, paths):
    first, second = (paths[i] for i in rng.choice(len(paths), 2, replace=False))
    data = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(data)
    return first


KINDS = (flip, flip, flip, truncate, remove, swap)


def survey(folder: pathlib.Path, read, tries: int, seed: int) -> None:
    """Damages a folder or file, whole again afterwards, `tries` times: what is read is what was
    there, or one error names it.
    """
    rng, whole = np.random.default_rng(seed), read(folder)
    backup = folder.with_name(folder.name + '.whole')
    copy, remove_all = (
        (shutil.copytree, shutil.rmtree)
        if folder.is_dir()
        else (shutil.copy, lambda path: path.unlink(missing_ok=True))
    )
    copy(folder, backup)
    paths = sorted(path for path in folder.rglob('*') if path.is_file()) or [folder]
    kinds = KINDS if len(paths) > 1 else KINDS[:-1]
    for number in range(tries):
        damage = kinds[rng.integers(len(kinds))]
        path = damage(rng, paths)
        started = time.monotonic()
        try:
            assert read(folder) == whole, (
                f'{damage.__name__} {path} (try {number}): read as something else'
            )
        except InputError as error:
            assert str(folder if folder.is_dir() else folder.parent) in str(
                error
            ) and '\n' not in str(error), f'{damage.__name__} {path}: {error}'
        assert time.monotonic() - started < SECONDS, (
            f'{damage.__name__} {path} (try {number}) took too long'
        )
        remove_all(folder)
        copy(backup, folder)
    remove_all(backup)


def index_content(memory):
    queries = ann_memories.queries_near(memory, 5)
    return lambda folder: content(
        open_index(folder, memory, ann_memories.TABLE).search(*queries, ann_memories.K)
    )


TRIES = [pytest.param(20, id='some'), pytest.param(1500, id='many', marks=pytest.mark.slow)]


@pytest.mark.parametrize('tries', TRIES)
@pytest.mark.parametrize('kind, read', [('prepared', prepared_content), ('memory', memory_content)])
def test_a_damaged_folder_is_told(request, kind, read, tries):
    survey(request.getfixturevalue(kind), read, tries, seed=tries)


@with_scann
@pytest.mark.parametrize('tries', TRIES)
def test_a_damaged_index_is_told(indexed, tries):
    memory, folder = indexed
    survey(folder, index_content(memory), tries, seed=tries)


@pytest.mark.parametrize(
    'tries', [pytest.param(6, id='some'), pytest.param(150, id='many', marks=pytest.mark.slow)]
)
def test_a_damaged_knowledge_base_is_told(tmp_path, tries):
    """Its text, its memory and its own manifest; a question is answered as it was."""
    folder = tiny_training.write_world(tmp_path / 'kb')
    parts = [folder / 'text', folder / 'memory', folder / 'manifest.json']

    def answers(_):
        kb = open_kb(folder)
        question = kb.prepared.questions('2-hop/dev')[0]
        return prediction_record(*kb.answer([question]), evidence=3)

    for part in parts:
        survey(part, answers, tries, seed=tries)
