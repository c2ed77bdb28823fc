"""`opql ask` without a question: lines of a pipe, and a prompt at a terminal."""

import json
import os
import pty
import select
import shutil
import subprocess
import sys

import pytest

from opql_jax.cli.prompt import Prompt
from opql_jax.kb.change_text import add_text
from opql_jax.kb.index_text import index_text
from opql_jax.kb.virtual_kb import VirtualKB

from trios import TRIOS, write

DESIGNED, DIED = 'Who designed the Analytical Engine?', 'Where did the father of Ada Lovelace die?'


@pytest.fixture(scope='module')
def kb(tmp_path_factory):
    root = tmp_path_factory.mktemp('prompt')
    index_text([write(root / 'articles', TRIOS['engine'].documents)], root / 'kb', processes=1)
    return root / 'kb'


def command(*arguments):
    return [sys.executable, '-m', 'opql_jax.cli', *map(str, arguments)]


def test_each_line_of_a_pipe_is_answered_or_told_what_is_wrong(kb):
    lines = f'{DESIGNED}\n\nWho is Zorblax?\n  {DIED}  \n'
    done = subprocess.run(command('ask', kb, '--json'), input=lines, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, unknown, last = map(json.loads, done.stdout.splitlines())
    assert first['answers'][0]['entity'] == 'Charles Babbage' and last['answers'][0]['entity'] == 'Missolonghi'
    assert (
        unknown['question'] == 'Who is Zorblax?' and 'Zorblax' in unknown['error'] and unknown.keys() == {'question', 'error'}
    )


def test_the_prompt_answers_explains_and_keeps_its_history(kb, tmp_path):
    leader, follower = pty.openpty()
    environment = os.environ | {'XDG_STATE_HOME': str(tmp_path), 'TERM': 'dumb'}
    shell = subprocess.Popen(command('ask', kb), stdin=follower, stdout=follower, stderr=follower, env=environment)
    os.close(follower)
    rest = b''

    def read_until(text):
        """What was shown up to a text."""
        nonlocal rest
        while text not in rest:
            assert select.select([leader], [], [], 60)[0], rest
            rest += os.read(leader, 4096)
        before, _, rest = rest.partition(text)
        return before.decode()

    def say(line):
        """What was shown since the line before, which this one follows."""
        before = read_until(b'\n? ')
        os.write(leader, line.encode() + b'\n')
        read_until(line.encode())
        return before

    try:
        say(':why 1')
        assert 'ask a question first' in say(DESIGNED)
        assert 'Charles Babbage' in say(':why 1')
        assert 'Babbage designed the Difference Engine' in say(':quit')
        assert shell.wait(60) == 0
    finally:
        shell.kill()
        os.close(leader)
    assert (tmp_path / 'opql/history').read_text().splitlines() == [':why 1', DESIGNED, ':why 1']


def test_names_are_completed_from_a_bracket_or_a_capital(kb):
    prompt = Prompt(kb, 5)
    assert prompt.completions('Who designed the Analyt') == ['Who designed the Analytical Engine']
    assert prompt.completions('who was [ada lo') == ['who was [Ada Lovelace']
    assert prompt.completions('who designed') == prompt.completions('Zzz') == []


def test_a_sentence_is_forgotten_when_the_user_says_yes_and_the_new_version_answers(kb, tmp_path, capsys, monkeypatch):
    copy = shutil.copytree(kb, tmp_path / 'kb')
    prompt = Prompt(copy, 5)
    prompt.run(DESIGNED)
    capsys.readouterr()
    prompt.run(':forget 99')
    assert 'give a number from 1 to ' in capsys.readouterr().out
    read = 'Babbage designed the Difference Engine and, later, the Analytical Engine.'
    for said in ('n', None, 'y'):

        def typed(_, said=said):
            if said is None:
                raise EOFError  # Ctrl-D
            return said

        monkeypatch.setattr('builtins.input', typed)
        prompt.run(':forget 1')
        out = capsys.readouterr().out
        assert read in out and ('1 documents cut' in out) == (said == 'y')
        assert any(read in text for text in VirtualKB.open(copy).prepared.passages['text'].to_pylist()) == (said != 'y')
    add_text(copy, [{'id': 'new', 'title': 'Ida Rhodes', 'text': 'Ida Rhodes was a mathematician, born in Kamianets.'}])
    prompt.run('Where was Ida Rhodes born?')
    out = capsys.readouterr().out
    assert 'the knowledge base has changed' in out and 'Kamianets' in out
