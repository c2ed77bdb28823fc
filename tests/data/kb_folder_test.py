"""The folder of a knowledge base: its parts, and the manifest that says which of them answer."""

import logging
import pathlib
import re
import threading

import pytest

from opql_jax.core.errors import InputError
from opql_jax.data.kb_folder import KBFolder

from bucket import use_bucket

PARTS = {'text': 'text', 'model': 'follow', 'memory': 'memory'}
BAD_NAMES = ('..', '.', '../x', '/etc', 'a/b', 'a\\b', '.hidden', 'manifest.json', 'two\nlines', '')


@pytest.fixture
def folder(tmp_path):
    return KBFolder(tmp_path / 'films.kb')


def test_a_name_is_a_folder_inside_and_a_path_is_one_elsewhere(folder, monkeypatch):
    use_bucket(monkeypatch)
    folder.path.mkdir()
    assert folder.part('align-2 (mine).v1') == folder.path / 'align-2 (mine).v1'
    assert folder.part('北京') == folder.path / '北京'
    assert folder.part('other.kb/align') == pathlib.Path('other.kb/align')
    assert folder.part('align/') == folder.path / 'align'  # as a shell completes it
    assert folder.part(pathlib.Path('/data/text')) == pathlib.Path('/data/text')
    assert str(folder.part('gs://bucket/text')) == 'gs://bucket/text'


@pytest.mark.parametrize('name', ['no text \udcff', *(n for n in BAD_NAMES if '/' not in n)])
def test_what_is_neither_a_name_nor_a_path_is_refused(folder, name):
    said = re.escape(f'{name!r}: give a path, or the plain name of a folder in {folder.path}')
    with pytest.raises(InputError, match=said):
        folder.part(name)


@pytest.mark.parametrize(
    'make, said',
    [
        (lambda path: None, 'does not exist: give the folder of a knowledge base'),
        (lambda path: path.write_text(''), 'is a file: give the folder of a knowledge base'),
        (lambda path: path.mkdir(), 'holds no knowledge base: .* opql index .* --out my.kb'),
        (lambda path: KBFolder(path / 'my.kb').write(**PARTS), 'did you mean .*/my.kb'),
        (lambda path: (path / 'text').mkdir(parents=True) or (path / 'text/plan.json').touch(),
            'no knowledge base yet: .* name TEXT'),
    ],
)  # fmt: skip
def test_a_mistyped_knowledge_base_is_told(folder, make, said):
    make(folder.path)
    with pytest.raises(InputError, match=f'{folder.path} {said}|{said}'):
        folder.read()
    assert folder.part('text', new=True) == folder.path / 'text'


def test_a_manifest_of_something_else_is_not_overwritten(folder):
    folder.path.mkdir()
    for content in ('{"name": "web app"}', 'mine'):
        folder.manifest.write_text(content)
        with pytest.raises(InputError, match='manifest.json: not '):
            folder.write(**PARTS)
        assert folder.manifest.read_text() == content


def test_a_text_that_was_injected_since_stays_until_another_is_stated(folder):
    folder.write(**PARTS)
    folder.move_text('other', 'text2')
    assert folder.read() == PARTS
    folder.move_text('memory', 'text2')
    folder.write(**PARTS, again=True)
    assert folder.read() == PARTS | {'text': 'text2'}
    folder.write(**PARTS | {'model': 'lm'}, again=True)
    assert folder.read() == PARTS | {'model': 'lm'}
    folder.write(text='text2', model='eae/', memory=None)
    assert folder.read() == {'text': 'text2', 'model': 'eae', 'memory': None}
    assert [path.name for path in folder.path.iterdir()] == ['manifest.json']


def test_changes_of_two_processes_follow_each_other(folder, monkeypatch):
    """The manifest is read and written under one lock, for which the second one waits."""
    folder.write(**PARTS)
    read, began, go_on = KBFolder.read, threading.Event(), threading.Event()

    def slow_read(self):
        parts = read(self)
        if not began.is_set():
            began.set()
            go_on.wait()
        return parts

    monkeypatch.setattr(KBFolder, 'read', slow_read)
    injecting = threading.Thread(target=folder.move_text, args=('memory', 'text2'))
    injecting.start()
    began.wait()
    other = PARTS | {'model': 'second', 'memory': 'memory2'}
    training = threading.Thread(target=folder.write, kwargs=other)
    training.start()
    training.join(0.3)
    go_on.set()
    injecting.join()
    training.join()
    assert folder.read() == other


@pytest.mark.parametrize('part', PARTS)
def test_a_part_of_another_folder_is_not_stated(folder, part, caplog):
    folder.write(**PARTS)
    with caplog.at_level(logging.INFO):
        folder.write(**PARTS | {part: '../other.kb/x'})
    assert folder.read() == PARTS
    assert f'{folder.manifest} stays: ../other.kb/x is no part of the knowledge base' in caplog.text
