"""No command writes a character that a terminal obeys, and no name passes for a line."""

import builtins
import io
import json
import sys
from unittest import mock

import pytest

from opql_jax import cli
from opql_jax.datasets import text_records
from opql_jax.datasets.text_records import as_sources
from opql_jax.kb.open_kb import open_kb
from opql_jax.kb.text.index_text import index_text

from dangerous import DANGEROUS, IN_TEXT, dangerous_in

_PARTS = [IN_TEXT[first : first + 64] for first in range(0, len(IN_TEXT), 64)]
NAMES = [f'Kim{number} {part}x Lee{number}' for number, part in enumerate(_PARTS)]
# What would look like a line of its own.
FAKE = '\n     0.999  Mallory'
ALL = f'{DANGEROUS}{FAKE}'.replace('\0', '')


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    documents = []
    for number, name in enumerate(NAMES):
        text = f'{name} founded the Blue Oven in 198{number}. He said {IN_TEXT}{FAKE} of it. '
        text += f'{name} married Ann Bo.'
        documents.append({'id': f'{name}{FAKE}', 'title': f'{name}{FAKE}', 'text': text})
    path = tmp_path_factory.mktemp('terminal') / 'kb'
    # They are not indexed any more, and a knowledge base that was received may hold them.
    with mock.patch.object(text_records, 'cleaned', lambda text: text):
        index_text(as_sources(documents), path, processes=1)
    return path


@pytest.fixture(scope='module')
def kb(folder):
    return open_kb(folder)


@pytest.fixture
def opql(folder, capsys):
    """Runs a command; returns exit code, output and errors, none of which a terminal may obey."""

    def run(command, *arguments):
        code = 0
        try:
            cli.main([command, str(folder), *map(str, arguments)])
        except SystemExit as end:
            code = end.code
        out, errors = capsys.readouterr()
        # The line that Python writes at the end of a process.
        errors += code if isinstance(code, str) else ''
        assert dangerous_in(out + errors) == set()
        assert FAKE not in f'\n{out}{errors}'
        return code, out, errors

    return run


QUESTION = 'Who founded the Blue Oven?'


def test_the_text_has_all_of_them(kb):
    passages = kb.prepared.passages
    assert set(IN_TEXT) <= set(''.join(passages['text'].to_pylist()))
    assert set(IN_TEXT) <= set(''.join(passages['title'].to_pylist())) | set(' ')
    assert any(dangerous_in(name) for name in kb.vocab.names)


def test_answers_and_documents(kb, opql):
    for question in [QUESTION, 'Whom did [Ann Bo] marry?', 'Ann Bo . ^married']:
        asked = kb.query if ' . ' in question else kb.ask
        assert opql('ask', question, '--top', 50)[0] == 0
        code, out, _ = opql('ask', question, '--top', 50, '--json')
        assert code == 0 and json.loads(out) == asked(question).to_record(50)
    assert opql('retrieve', QUESTION)[0] == 0
    code, out, _ = opql('retrieve', QUESTION, '--json')
    assert code == 0 and json.loads(out) == kb.retrieve(QUESTION, 5, read=True).to_record()
    assert dangerous_in(''.join(found['text'] for found in json.loads(out)['documents']))


def test_questions_names_and_files_that_are_refused(opql):
    for command in ('ask', 'retrieve'):
        for asked in (QUESTION, 'Who is Zorblax'):
            opql(command, f'{asked}{ALL}')
    opql('ask', f'Zorblax{ALL} . married')
    for option in ('--document', '--entity', '--sentence'):
        code, _, errors = opql('remove', option, f'Zorblax{IN_TEXT}{FAKE}')
        assert code not in (0, 70) and 'Zorblax' in errors
    assert opql('add', f'/none/{ALL}.txt')[0] not in (0, 70)
    assert opql('info')[0] == 0 and opql('info', '--json')[0] == 0


def test_lines_of_a_pipe_and_of_the_prompt(opql, monkeypatch, tmp_path):
    lines = [QUESTION, ':why 1']
    lines += [f'Who is Zorblax{ALL}?'.replace('\n', ' '), f':{IN_TEXT}']
    monkeypatch.setattr(sys, 'stdin', io.StringIO('\n'.join(lines)))
    assert opql('ask')[0] == 0
    monkeypatch.setattr(sys, 'stdin', mock.Mock())  # a terminal
    monkeypatch.setattr(builtins, 'input', mock.Mock(side_effect=[*lines, EOFError]))
    monkeypatch.setenv('XDG_STATE_HOME', str(tmp_path))
    code, out, _ = opql('ask')
    assert code == 0 and 'Blue Oven' in out


def test_files_that_cannot_be_added(opql, tmp_path):
    for part in [IN_TEXT[:60], IN_TEXT[60:110], '\udcff']:  # a name has 255 bytes
        cut = f'{{"title": "{part}'.encode(errors='replace')
        for suffix, content in (('.pdf', b'no'), ('.jsonl', cut), ('.txt', b'\xff\xfea')):
            file = tmp_path / f'{part}\nerror: fake{suffix}'
            file.write_bytes(content)
            code, _, errors = opql('add', file)
            assert code not in (0, 70) and len(errors.splitlines()) == 1, errors


def test_a_binary_escapes_what_it_is_given(binaries):
    for text in (IN_TEXT[:100], IN_TEXT[100:], FAKE):
        done = binaries('infer', f'--gin_file=gone{text}')
        assert done.returncode and 'gone' in done.stderr
        assert dangerous_in(done.stdout + done.stderr) == set()
