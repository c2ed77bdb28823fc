"""A folder has one writer at a time: a second one is told who the first is, and changes nothing."""

import os
import pathlib

import pytest

from opql_jax.core import locks
from opql_jax.core.errors import InputError
from opql_jax.kb.trained.question_sets import write_answers
from opql_jax.memory import ann_build
from opql_jax.recipes import recipe, step

import ann_memories
import prepare_by_parts
import tiny_memories
import tiny_training
from graph_kb import QUESTIONS, ring

REFUSED = rf'is being written by process {os.getpid()} on '


COMMANDS = ['prepare', 'train', 'build_memory', 'index', 'infer', 'recipe']


@pytest.mark.parametrize('command', [*COMMANDS, *tiny_memories.UPDATES])
def test_a_folder_that_is_being_written_is_refused_and_left_alone(world, tmp_path, command):
    folder = tmp_path / 'folder'
    if command in tiny_memories.UPDATES:
        tiny_memories.make(folder).close()
    indexed = lambda: ann_memories.make_memory(tmp_path / 'indexed', 50)
    calls = {
        'prepare': lambda: prepare_by_parts.run(folder, prepare_by_parts.write_corpus(tmp_path)),
        'train': lambda: tiny_training.run(world / 'text', folder),
        'build_memory': lambda: tiny_memories.make(folder),
        **{
            name: lambda update=update: update(folder)
            for name, update in tiny_memories.UPDATES.items()
        },
        'index': lambda: ann_build.build_index(folder, indexed(), ann_memories.TABLE),
        'infer': lambda: write_answers(ring(), QUESTIONS, folder.with_name('a.jsonl')),
        'recipe': lambda: recipe.run(
            [step.Function('s', write_one, {'path': step.Output('s')}, 's')],
            step.Options(folder, tmp_path),
        ),
    }
    held = {'infer': folder.with_name('a.jsonl.parts'), 'recipe': folder / 'steps' / 's'}
    held = held.get(command, folder)
    with locks.writer(held):
        before = tiny_memories.digest_of_tree(folder)
        with pytest.raises(InputError, match=f'{held} {REFUSED}'):
            calls[command]()
        assert tiny_memories.digest_of_tree(folder) == before
    calls[command]()
    assert not [path for path in tmp_path.rglob('*') if locks.is_lock(path)]


def write_one(path):
    pathlib.Path(path).write_text('1')
