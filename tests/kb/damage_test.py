"""Damage of every kind: what is read is right, or one error names a file; nothing hangs."""

import pathlib
import shutil
import time

import forged_folders
import numpy as np
import pytest

from opql_jax.core.errors import InputError
from opql_jax.data.prepared import Prepared
from opql_jax.kb.open_kb import open_kb
from opql_jax.kb.prediction_record import prediction_record
from opql_jax.memory import ann_build
from opql_jax.memory.ann import open_index
from opql_jax.memory.ann_build import build_index

import ann_memories
from ann_memories import with_scann

# The longest that a folder of some kilobytes may take.
SECONDS = 30
KINDS = 'flip', 'flip', 'flip', 'cut', 'remove', 'swap'


def prepared(root):
    """Prepared text, and everything that is read from it."""
    folder, read = forged_folders.prepared(root)

    def read_all():
        prepared = Prepared(folder)
        records = [[np.asarray(x).tolist() for x in record] for record in prepared.records]
        questions = {split: prepared.questions(split) for split in prepared.splits}
        return read(), records, questions, prepared.vocab.aliases

    return folder, read_all


def scann(root):
    """An index, and what it finds in its memory, which is not damaged."""
    memory = ann_memories.make_memory(root / 'memory', 2000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ann_build, 'MIN_ENTRIES', 1000)
        build_index(root / 'index', memory, ann_memories.TABLE, recall=0.8)
    queries = ann_memories.queries_near(memory, 5)

    def read():
        index = open_index(root / 'index', memory, ann_memories.TABLE)
        return [found.tolist() for found in index.search(*queries, ann_memories.K)]

    return root / 'index', read


def damage(rng, paths) -> str:
    """Damages one file, or exchanges two, and says what it did."""
    path, other = (paths[place] for place in rng.choice(len(paths), 2, replace=len(paths) == 1))
    content, kind = bytearray(path.read_bytes()), rng.choice(KINDS)
    if kind == 'flip':
        content[rng.integers(len(content))] ^= 1 << rng.integers(8)
    elif kind == 'cut':
        del content[rng.integers(len(content)) :]
    elif kind == 'swap':
        content = other.read_bytes()
        other.write_bytes(path.read_bytes())
    path.write_bytes(content)
    if kind == 'remove':
        path.unlink()
    return f'{kind} {path}'


def survey(folder: pathlib.Path, read, tries: int, seed: int) -> None:
    """Damages a folder or file again and again: what is read was there, or one error names it."""
    rng, whole = np.random.default_rng(seed), read()
    paths = [path for path in sorted(folder.rglob('*')) if path.is_file() and path.stat().st_size]
    files = {path: path.read_bytes() for path in paths or [folder]}
    named = str(folder if paths else folder.parent)
    for number in range(tries):
        what = f'{damage(rng, list(files))} (try {number})'
        started = time.monotonic()
        try:
            assert read() == whole, f'{what}: read as something else'
        except InputError as error:
            assert named in str(error) and '\n' not in str(error), f'{what}: {error}'
        assert time.monotonic() - started < SECONDS, f'{what} took too long'
        for path, content in files.items():
            path.unlink(missing_ok=True)
            path.write_bytes(content)


TRIES = [pytest.param(20, id='some'), pytest.param(1500, id='many', marks=pytest.mark.slow)]


@pytest.mark.parametrize('tries', TRIES)
@pytest.mark.parametrize(
    'make', [prepared, forged_folders.memory, pytest.param(scann, marks=with_scann)]
)
def test_a_damaged_folder_is_told(tmp_path, make, tries):
    survey(*make(tmp_path), tries, seed=tries)


@pytest.mark.parametrize(
    'tries', [pytest.param(6, id='some'), pytest.param(150, id='many', marks=pytest.mark.slow)]
)
def test_a_damaged_knowledge_base_is_told(world, tmp_path, tries):
    """Its text, its memory and its own manifest; a question is answered as it was."""
    folder = shutil.copytree(world, tmp_path / 'kb')
    parts = [folder / 'text', folder / 'memory', folder / 'manifest.json']

    def answers():
        kb = open_kb(folder)
        question = kb.prepared.questions('2-hop/dev')[0]
        return prediction_record(*kb.answer([question]), evidence=3)

    for part in parts:
        survey(part, answers, tries, seed=tries)
