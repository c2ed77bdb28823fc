"""`opql ask` without a question: lines of a pipe, and a prompt at a terminal."""

import functools
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time

import pytest

DESIGNED, DIED = 'Who designed the Analytical Engine?', 'Where did the father of Ada Lovelace die?'
CTRL_D = '\x04'


@pytest.fixture
def kb(engine_folder):
    return engine_folder


def command(*arguments):
    return [sys.executable, '-m', 'opql_jax.cli', *map(str, arguments)]


def test_each_line_of_a_pipe_is_answered_or_told_what_is_wrong(kb):
    lines = f'{DESIGNED}\n\nWho is Zorblax?\n  {DIED}  \n'
    done = subprocess.run(command('ask', kb, '--json'), input=lines, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, unknown, last = map(json.loads, done.stdout.splitlines())
    assert first['answers'][0]['entity'] == 'Charles Babbage'
    assert last['answers'][0]['entity'] == 'Missolonghi'
    assert unknown['question'] == 'Who is Zorblax?'
    assert 'Zorblax' in unknown['error']
    assert unknown.keys() == {'question', 'error'}


class Terminal:
    """A prompt in a terminal of its own, ended with the context; `shell` is its process."""

    def __init__(self, command, state):
        self._leader, follower = pty.openpty()
        environment = os.environ | {'XDG_STATE_HOME': str(state), 'TERM': 'dumb'}
        log_in = functools.partial(os.login_tty, follower)
        self.shell = subprocess.Popen(command, preexec_fn=log_in, env=environment)
        os.close(follower)
        self._rest = b''

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.shell.kill()
        self.shell.wait()
        os.close(self._leader)

    def read_until(self, text):
        while text.encode() not in self._rest:
            assert select.select([self._leader], [], [], 60)[0], self._rest
            self._rest += os.read(self._leader, 4096)
        before, _, self._rest = self._rest.partition(text.encode())
        return before.decode()

    def type(self, keys):
        os.write(self._leader, keys.encode())

    def interrupt(self):
        """Sends Ctrl-C, once Python should wait for a key, and again if nothing comes of it."""
        time.sleep(0.2)
        for _ in range(12):
            self.shell.send_signal(signal.SIGINT)
            if select.select([self._leader], [], [], 5)[0]:
                return
        raise AssertionError('nothing comes of Ctrl-C')

    def say(self, line):
        before = self.read_until('\n? ')
        self.type(f'{line}\n')
        self.read_until(line)
        return before


def test_the_prompt_answers_explains_and_keeps_its_history(kb, tmp_path):
    with Terminal(command('ask', kb), tmp_path) as terminal:
        terminal.say(':why 1')
        assert 'ask a question first' in terminal.say(DESIGNED)
        assert 'Charles Babbage' in terminal.say(':why 1')
        assert 'Babbage designed the Difference Engine' in terminal.say(':quit')
        assert terminal.shell.wait(60) == 0
    assert (tmp_path / 'opql/history').read_text().splitlines() == [':why 1', DESIGNED, ':why 1']


def test_ctrl_c_clears_the_line_and_ctrl_d_ends_the_prompt(kb, tmp_path):
    with Terminal(command('ask', kb), tmp_path) as terminal:
        terminal.read_until('\n? ')
        terminal.type('Who designed the Loco')
        terminal.read_until('Loco')
        terminal.interrupt()
        assert 'Charles Babbage' not in terminal.say(DESIGNED)
        assert 'Charles Babbage' in terminal.read_until('\n? ')
        terminal.interrupt()
        terminal.read_until('\n? ')
        terminal.type(CTRL_D)
        assert terminal.shell.wait(60) == 0


# A question about this name takes longer than a test may.
ENDLESS = """
import time
from opql_jax import cli
from opql_jax.kb.virtual_kb import VirtualKB

ask = VirtualKB.question

def question(kb, text, hops):
    if 'Byron' in text:
        print('computing', flush=True)
        time.sleep(600)
    return ask(kb, text, hops)

VirtualKB.question = question
cli.main()
"""


def test_ctrl_c_stops_an_answer_only(kb, tmp_path):
    with Terminal([sys.executable, '-c', ENDLESS, 'ask', str(kb)], tmp_path) as terminal:
        terminal.say('Where did Lord Byron die?')
        terminal.read_until('computing\r\n')
        terminal.interrupt()
        assert 'Missolonghi' not in terminal.say(DESIGNED)
        assert 'Charles Babbage' in terminal.read_until('\n? ')
        terminal.type(':quit\n')  # while the answer that was stopped is still computed
        assert terminal.shell.wait(60) == 0
