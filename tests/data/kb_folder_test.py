"""The folder of a knowledge base: names of its parts, and the manifest that says which of them answer."""

import json
import logging
import pathlib
import re

import pytest

from opql_jax.core.errors import InputError
from opql_jax.data.kb_folder import KBFolder

PARTS = {'text': 'text', 'model': 'follow', 'memory': 'memory'}
MANIFEST = {'format': 'opql-kb', 'version': 1, **PARTS}
BAD_NAMES = ('..', '.', '../x', '/etc', 'a/b', 'a\\b', '.hidden', 'manifest.json', 'two\nlines', '')


@pytest.fixture
def folder(tmp_path):
    return KBFolder(tmp_path / 'films.kb')


def test_a_name_is_a_folder_inside_and_a_path_is_one_elsewhere(folder):
    assert folder.part('align-2 (mine).v1') == folder.path / 'align-2 (mine).v1'
    assert folder.part('北京') == folder.path / '北京'
    assert folder.part('other.kb/align') == pathlib.Path('other.kb/align')
    assert folder.part('align/') == folder.path / 'align'  # as a shell completes it
    assert folder.part(pathlib.Path('/data/text')) == pathlib.Path('/data/text')
    assert str(folder.part('gs://bucket/text')) == 'gs://bucket/text'


@pytest.mark.parametrize('name', [name for name in BAD_NAMES if '/' not in name])
def test_what_is_neither_a_name_nor_a_path_is_refused(folder, name):
    with pytest.raises(InputError, match=re.escape(f'{name!r} cannot name a part of {folder.path}: give the plain name')):
        folder.part(name)


def test_what_was_stated_last_is_read(folder):
    folder.write(**PARTS | {'model': PARTS['model'] + '/'})
    assert folder.read() == PARTS
    folder.write(**PARTS)
    assert folder.read() == PARTS and json.loads(folder.manifest.read_text()) == MANIFEST
    folder.write(text='text2', model='eae', memory=None)
    assert folder.read() == {'text': 'text2', 'model': 'eae', 'memory': None}
    assert [path.name for path in folder.path.iterdir()] == ['manifest.json']


@pytest.mark.parametrize('part', PARTS)
def test_a_part_of_another_folder_is_not_stated(folder, part, caplog):
    folder.write(**PARTS)
    with caplog.at_level(logging.INFO):
        folder.write(**PARTS | {part: '../other.kb/x'})
    assert folder.read() == PARTS
    assert f'{folder.manifest} is left as it is: ../other.kb/x is no part of the knowledge base' in caplog.text


def test_names_that_are_missing_are_those_of_the_manifest(folder):
    folder.write(**PARTS)
    assert folder.choose(text=None, model=None, memory=None) == PARTS
    assert folder.choose(text=None, model='lm', memory=None) == PARTS | {'model': 'lm'}
    assert folder.choose(memory=None) == {'memory': 'memory'}


def test_without_a_manifest_all_but_the_memory_has_to_be_named(folder):
    named = {'text': 'text', 'model': 'eae', 'memory': None}
    assert folder.choose(**named) == named
    for name in PARTS:
        with pytest.raises(InputError, match=r'manifest\.json: no such file, so .* or name TEXT, MODEL and MEMORY'):
            folder.choose(**{name: None})


def test_a_manifest_is_not_read_where_all_is_named(folder):
    folder.path.mkdir()
    folder.manifest.write_text('{')
    assert folder.choose(**PARTS) == PARTS
    with pytest.raises(InputError, match='not valid JSON'):
        folder.choose(**PARTS | {'memory': None})


@pytest.mark.parametrize(
    'written, said',
    [
        ('{"format": "opql-kb", ', 'not valid JSON'),
        ('[]', 'not the manifest of a knowledge base'),
        (json.dumps(MANIFEST | {'format': 'opql-memory'}), 'not the manifest of a knowledge base'),
        (json.dumps(MANIFEST | {'version': 2}), 'format version 2, this program reads 1'),
        (json.dumps(MANIFEST | {'index': 'x'}), 'index: the fields are text, model and memory'),
        (json.dumps({**MANIFEST, 'memory': 'm', 'text': None}), 'text: None is not the name of a folder'),
        (json.dumps({name: value for name, value in MANIFEST.items() if name != 'memory'}), 'memory: the fields are text'),
        *((json.dumps(MANIFEST | {'memory': name}), f'memory: {name!r} is not the name of a folder') for name in BAD_NAMES),
        (json.dumps(MANIFEST | {'model': ['follow']}), r"model: ['follow'] is not the name of a folder"),
    ],
)
def test_a_manifest_that_cannot_be_trusted_is_refused(folder, written, said):
    folder.path.mkdir()
    folder.manifest.write_text(written)
    with pytest.raises(InputError, match=re.escape(f'{folder.manifest}: {said}')):
        folder.read()
