"""Links and pipes in a received folder: where they lead is left alone, none blocks."""

import gc
import hashlib
import json
import os
import pathlib
import shutil
import signal

import pytest
import two_versions

import opql_jax
from opql_jax.core.errors import InputError
from opql_jax.data.kb_folder import KBFolder
from opql_jax.kb.text.change_text import add_text, compact, remove_text
from opql_jax.kb.text.index_text import index_text

from trios import SCHEUTZ, TRIOS

ENGINE = TRIOS['engine']
DOCUMENTS = [{'id': name, 'title': name, 'text': text} for name, text in ENGINE.documents.items()]
# The longest that a command may take with what is not a plain file in its way.
SECONDS = 60


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
    kb = tmp_path_factory.mktemp('links') / 'whole.kb'
    index_text(DOCUMENTS[:2], kb, processes=1)
    opened = opql_jax.open(kb)
    add_text(kb, DOCUMENTS[2:], processes=1)
    opened.close()
    return kb


@pytest.fixture(scope='module')
def right(whole):
    return answers(whole)


@pytest.fixture
def kb(whole, tmp_path):
    return pathlib.Path(shutil.copytree(whole, tmp_path / 'films.kb'))


@pytest.fixture(scope='module')
def versions(tmp_path_factory):
    """A folder with old and unfinished parts, which answers nothing and is made in a moment."""
    return two_versions.write(tmp_path_factory.mktemp('links') / 'versions.kb')


def answers(kb):
    with opql_jax.open(kb) as opened:
        questions = [each.question for each in ENGINE.asked[:2]]
        found = [passage.document for passage in opened.retrieve(questions[0])]
        return [opened.ask(question).names[:1] for question in questions], found


COMMANDS = {
    'ask': answers,
    'compact': compact,
    'add': lambda kb: str(add_text(kb, [SCHEUTZ], processes=1)),
    'remove': lambda kb: str(remove_text(kb, ['Ada Lovelace'], processes=1)),
}


def state(path):
    paths = [path, *sorted(path.rglob('*'))] if path.is_dir() else [path]
    content = lambda path: hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ''
    return [(each.name, each.lstat().st_mtime_ns, content(each)) for each in paths]


@pytest.fixture(autouse=True)
def ends_what_blocks():
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail('blocked'))
    yield
    signal.signal(signal.SIGALRM, before)


def run(command, kb):
    signal.alarm(SECONDS)
    try:
        return COMMANDS[command](kb)
    except InputError as error:
        assert '\n' not in str(error) and str(kb) in str(error)
        return error
    finally:
        signal.alarm(0)
        # What was made since; a whole collection would search all that is imported.
        gc.collect(1)


def everything(kb):
    return [path.relative_to(kb).as_posix() for path in sorted(kb.rglob('*'))]


def link(path, outside):
    path.rename(outside)
    path.symlink_to(outside)


def pipe(path, outside):
    path.rename(outside)
    os.mkfifo(path)


MADE = [link, pipe]


# CI tries one file in so many; pipes meet the same checks as links do.
EVERY = [pytest.param(8, id='some'), pytest.param(1, id='all', marks=pytest.mark.slow)]
SELDOM = 3


def with_each(folder, names, make, command, tmp_path, copy):
    """Yields each name, a copy with something else in its place, and what a command came to."""
    for name in names:
        kb = pathlib.Path(shutil.copytree(folder, tmp_path / 'films.kb', copy_function=copy))
        outside = tmp_path / 'outside'
        make(kb / name, outside)
        before = state(outside)
        found = run(command, kb)
        assert state(outside) == before, name
        yield name, kb, found
        for path in (kb, outside):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.mark.parametrize('every', EVERY)
@pytest.mark.parametrize('make', MADE, ids=lambda make: make.__name__)
def test_compact_leaves_alone_what_links_and_pipes_lead_to(versions, tmp_path, make, every):
    names, told = everything(versions)[::every], 0
    for name, kb, found in with_each(versions, names, make, 'compact', tmp_path, shutil.copy2):
        told += isinstance(found, InputError)
        if not name.startswith(tuple(two_versions.ANSWERING.values())):
            for part in two_versions.ANSWERING.values():
                # A lock may have been in it.
                assert state(kb / part)[1:] == state(versions / part)[1:], name
    assert 0 < told < len(names) / 2 if every > 1 else 2 <= told < len(names) / 4


@pytest.mark.parametrize('every', [pytest.param(16, id='some'), *EVERY[1:]])
@pytest.mark.parametrize('make', MADE, ids=lambda make: make.__name__)
@pytest.mark.parametrize('command', ['ask', 'add', 'remove'])
def test_a_link_or_pipe_is_told_or_not_needed(whole, right, tmp_path, command, make, every):
    told = 0
    answering = ('manifest.json', *filter(None, KBFolder(whole).read().values()))
    needed = [name for name in everything(whole) if name.split('/')[0] in answering]
    others = [name for name in everything(whole) if name.split('/')[0] not in answering]
    # Each begins elsewhere, so that CI's samples are of different files.
    start = (3 * list(COMMANDS).index(command) + MADE.index(make)) % every
    names = needed[start :: every if make is link else every * SELDOM]
    if make is link:
        names += others[:: 16 * every]
    # Copies share files with the whole: what was written in its place would show there.
    for name, _, found in with_each(whole, names, make, command, tmp_path, os.link):
        if isinstance(found, InputError):
            told += 1
            assert make is not link or ' is a link; ' in str(found), f'{name}: {found}'
        elif command == 'ask':
            assert found == right, name
    assert told > len(names) / 4 if every == 1 else told or make is not link
    assert answers(whole) == right


def bait(folder):
    """A user's folder with files of names that a knowledge base writes, at any depth."""
    names = 'topic.npy documents.parquet shard-00000.json manifest.json holiday.jpg .lock'.split()
    names += ['.topic.npy.17.partial', 'train.jsonl', f'{"0" * 64}.arrow']
    for inner in ('', 'segment-00000', '2-hop', 'a/b', 'index'):
        (folder / inner).mkdir(parents=True, exist_ok=True)
        for name in names:
            (folder / inner / name).write_text('precious')
    return folder


def inside(path, outside):
    path.parent.mkdir(exist_ok=True)
    shutil.rmtree(path, ignore_errors=True)
    path.symlink_to(outside)


def forge(path, kind, outside, manifest='manifest.json'):
    inside(path, outside)
    (path.parent / manifest).write_text(json.dumps({'format': kind}))


# What an old part of a received knowledge base `kb` may be, with a link in it to a folder `to`.
FORGED = {
    'a memory of one field': lambda kb, to: forge(kb / 'memory-9/segment-00000', 'opql-memory', to),
    'a text of one field': lambda kb, to: forge(kb / 'text-9/parts', 'opql-prepared', to),
    'a plan': lambda kb, to: forge(kb / 'text-9/parts', 'opql-prepared', to, 'plan.json'),
    'the cache': lambda kb, to: inside(kb / 'cache', to),
}


CASES = [(name, 'compact') for name in FORGED]
CASES += [(name, 'add') for name in FORGED if name.endswith(('one field', 'the cache'))]


@pytest.mark.parametrize('forged, command', CASES)
def test_a_forged_part_leads_to_no_file_outside(versions, whole, tmp_path, forged, command):
    of = versions if command == 'compact' else whole
    kb = pathlib.Path(shutil.copytree(of, tmp_path / 'films.kb'))
    outside = bait(tmp_path / 'outside')
    FORGED[forged](kb, outside)
    before = state(outside)
    is_refused = isinstance(run(command, kb), InputError)
    assert state(outside) == before
    assert command == 'compact' or is_refused == (forged == 'the cache')
