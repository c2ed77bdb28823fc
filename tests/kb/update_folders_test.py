"""Folders that continue another: two at once, one without pairs, and one that has nothing to do with the memory."""

import functools
import json
import pathlib
import shutil

import pytest

import opql_jax
from opql_jax.core.errors import InputError
from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.prepare import prepare
from opql_jax.data.prepared import Prepared
from opql_jax.datasets.jsonl import JsonLines
from opql_jax.kb import update_memory
from opql_jax.kb.update_memory import Selection, delete
from opql_jax.memory.format import Memory
from opql_jax.models.bulk_encoding import pair_encoder

import tiny_training
from update_world import add


@pytest.fixture(scope='module')
def world(tmp_path_factory):
    """A knowledge base over the generated corpus."""
    return tiny_training.write_world(tmp_path_factory.mktemp('update_folders'))


@pytest.fixture
def memory(world, tmp_path):
    """A copy of the memory, to be changed."""
    return shutil.copytree(world / 'memory', tmp_path / 'memory')


@pytest.fixture
def extend(tmp_path):
    """Prepares a folder that continues another, with one document, and names of entities if there are any to be given."""

    def extend(name, base, identifier, title, text, entities=()):
        (tmp_path / f'{name}.jsonl').write_text(json.dumps({'id': identifier, 'title': title, 'text': text}))
        (tmp_path / f'{name}.names').write_text('\n'.join(json.dumps({'id': entity}) for entity in entities))
        names = str(tmp_path / f'{name}.names') if entities else None
        reader = JsonLines(str(tmp_path / f'{name}.jsonl'), entities=names)
        prepare(kb=str(tmp_path), text=name, reader=reader, extends=str(base))
        return tmp_path / name

    return extend


def test_of_two_injections_at_once_one_is_refused_and_done_when_run_again(world, memory, extend, monkeypatch):
    known = Prepared(world / 'text').vocab.names[:4]
    first = extend('first', world / 'text', 'a1', known[0], f'{known[0]} met {known[1]} once.')
    second = extend('second', first, 'a2', known[2], f'{known[2]} met {known[3]} once.')

    def overtaken(*arguments):
        monkeypatch.undo()
        add(world, memory, second)
        return pair_encoder(*arguments)

    monkeypatch.setattr(update_memory, 'pair_encoder', overtaken)
    with pytest.raises(InputError, match='was changed meanwhile: run the injection again'):
        add(world, memory, first)
    state = Memory.open(memory)
    assert state.manifest.covers.passages == len(Prepared(second).passages)
    add(world, memory, second)
    with pytest.raises(InputError, match=r'the memory has \d+ passages, the folder \d+: give the one injected last'):
        add(world, memory, first)
    assert Memory.open(memory).hash() == state.hash()


def test_documents_of_another_folder_are_not_deleted(world, memory, extend):
    names = ['Zorblax', 'Quonk']
    mine = extend('mine', world / 'text', 'real', 'Zorblax', 'Zorblax saw Quonk.', names)
    other = extend('other', world / 'text', 'other', 'Zorblax', 'Quonk hates Zorblax.', names)
    add(world, memory, mine)
    state = Memory.open(memory).hash()
    for what in ({'documents': ('other',)}, {'passages': (len(Prepared(other).passages) - 1,)}):
        with pytest.raises(InputError, match='is a memory of other text than'):
            delete(str(other), str(memory), Selection(**what))
    assert Memory.open(memory).hash() == state
    delete(str(mine), str(memory), Selection(documents=('real',)))
    assert len(Memory.open(memory)) == len(Memory.open(world / 'memory'))


@pytest.mark.parametrize(
    'options, message',
    [
        (dict(action='insert'), "action='insert': it is one of inject, delete, compact"),
        (dict(action='inject', memory='m'), 'holds no knowledge base: give the folder of one, '),
        (dict(action='delete', selection=Selection(entries=(1,))), 'holds no knowledge base: '),
        (
            dict(action='compact', selection=Selection(entries=(1,))),
            'compact takes no entries to delete: --gin.ACTION=delete does',
        ),
    ],
)
def test_actions_without_what_they_need_are_refused(tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        update_memory.update_memory(kb=str(tmp_path), **options)


def test_only_injections_into_the_memory_that_answers_move_the_text_on(world, extend, tmp_path):
    kb = pathlib.Path(shutil.copytree(world, tmp_path / 'kb'))
    shutil.copytree(kb / 'memory', kb / 'copy')
    names = Prepared(kb / 'text').vocab.names
    shutil.copytree(extend('more', kb / 'text', 'm', names[0], f'{names[0]} met {names[1]} once.'), kb / 'more')
    inject = functools.partial(update_memory.update_memory, action='inject', kb=str(kb), text='more')
    before = KBFolder(kb).read()
    inject(memory='copy')
    inject(dry_run=True)
    with pytest.raises(InputError, match='model.json: no such file'):
        inject(model='none')
    assert KBFolder(kb).read() == before
    inject()
    assert KBFolder(kb).read() == before | {'text': 'more'}
    update_memory.update_memory(action='delete', kb=str(kb), selection=Selection(documents=('m',)))
    assert len(opql_jax.open(kb).memory) == len(opql_jax.open(kb, text='text', memory=world / 'memory').memory)


def test_a_knowledge_base_that_answers_without_a_memory_has_none_to_change(tmp_path):
    KBFolder(tmp_path).write(text='text', model='eae', memory=None)
    with pytest.raises(InputError, match='answers without a memory: --gin.MEMORY=... names the one that is to be changed'):
        update_memory.update_memory(action='compact', kb=str(tmp_path))
