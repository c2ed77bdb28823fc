"""Every folder that a command writes has one writer at a time: a second one is told who the first
is, and changes nothing.
"""

import concurrent.futures
import json
import os
import pathlib
import time

import pytest

from opql_jax.core import locks
from opql_jax.core.errors import InputError
from opql_jax.data.prepare import prepare
from opql_jax.data.prepared import Prepared
from opql_jax.datasets.jsonl import JsonLines
from opql_jax.kb.trained.question_sets import write_answers
from opql_jax.memory import ann_build
from opql_jax.recipes import recipe

import ann_memories
import prepare_by_parts
import tiny_memories
import tiny_training
from graph_kb import QUESTIONS, ring

REFUSED = rf'is being written by process {os.getpid()} on '


@pytest.fixture(scope='module')
def world(tmp_path_factory):
    return tiny_training.write_world(tmp_path_factory.mktemp('world'))


def corpus(folder, name):
    """A file of passages about a person of this name."""
    path, end = folder / f'{name}.jsonl', len(name)
    mentions = [{'start': 0, 'end': end, 'entity': name}]
    mentions += [{'start': end + 7, 'end': end + 10, 'entity': 'Eve'}]
    about, lines = {'title': name, 'title_entity': name, 'mentions': mentions}, []
    for i in range(8):
        lines.append(
            json.dumps({'id': str(i), 'text': f'{name} knows Eve since {1900 + i}.'} | about)
        )
    path.write_text('\n'.join(lines))
    return path


def write_index(folder):
    memory = ann_memories.make_memory(folder.parent / 'indexed', 50)
    ann_build.build_index(folder, memory, ann_memories.TABLE)


@pytest.mark.parametrize(
    'command',
    ['prepare', 'train', 'build_memory', *tiny_memories.UPDATES, 'index', 'infer', 'recipe'],
)
def test_a_folder_that_is_being_written_is_refused_and_left_alone(world, tmp_path, command):
    folder = tmp_path / 'folder'
    if command in tiny_memories.UPDATES:
        tiny_memories.make(folder).close()
    step = recipe.Function('s', write_one, {'path': recipe.Output('s')}, 's')
    run = (
        tiny_memories.UPDATES
        | {
            'prepare': lambda folder: prepare_by_parts.run(folder, corpus(tmp_path, 'Ann')),
            'train': lambda folder: tiny_training.run(world / 'text', folder),
            'build_memory': tiny_memories.make,
            'index': write_index,
            'infer': lambda folder: write_answers(ring(), QUESTIONS, folder.with_name('a.jsonl')),
            'recipe': lambda folder: recipe.run([step], recipe.Options(folder, tmp_path)),
        }
    )[command]
    inside = {'infer': folder.with_name('a.jsonl.parts'), 'recipe': folder / 'steps' / 's'}
    held = inside.get(command, folder)
    with locks.writer(held):
        before = tiny_memories.digest_of_tree(folder)
        with pytest.raises(InputError, match=f'{held} {REFUSED}'):
            run(folder)
        assert tiny_memories.digest_of_tree(folder) == before
    run(folder)
    assert not [path for path in tmp_path.rglob('*') if locks.is_lock(path)]


def write_one(path):
    pathlib.Path(path).write_text('1')


def test_of_two_corpora_prepared_into_one_folder_at_the_same_time_one_is_there_and_the_other_is_told(  # noqa: E501
    tmp_path,
):
    corpora = [corpus(tmp_path, name) for name in ('Ann', 'Bob')]
    for number, delay in enumerate((0, 0.01, 0.05, 0.2)):
        folder = tmp_path / str(number)

        def run(path, wait, folder=folder):
            time.sleep(wait)
            options = dict(wordpieces=200, drop_above_rate=1.0)
            reader = JsonLines(str(path))
            return prepare(kb=str(tmp_path), text=folder.name, reader=reader, **options)

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            runs = [pool.submit(run, path, wait) for path, wait in zip(corpora, (0, delay))]
        errors = [run.exception() for run in runs]
        (error,) = filter(None, errors)
        assert isinstance(error, InputError)
        assert 'is being written by' in str(error) or 'was prepared with another' in str(error)
        prepared = Prepared(folder)
        prepared_name = ('Ann', 'Bob')[errors.index(None)]
        assert set(prepared.vocab.names) == {prepared_name, 'Eve'}
        assert all(title == prepared_name for title in prepared.passages['title'].to_pylist())
