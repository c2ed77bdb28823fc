"""Nothing is downloaded at run time, from preparing text to answering a question."""

import os
import subprocess
import sys

from forked_binaries import ROOT

WITHOUT_NETWORK = """
import socket, sys

def refused(*arguments, **options):
    raise AssertionError(f'a connection is opened: {arguments}')

for name in ('connect', 'connect_ex', 'sendto'):
    setattr(socket.socket, name, refused)
for name in ('create_connection', 'getaddrinfo', 'gethostbyname'):
    setattr(socket, name, refused)
"""
WORLD = """
import opql_jax, pathlib, tiny_training
kb = opql_jax.open(tiny_training.write_world(pathlib.Path(sys.argv[1])))
question = kb.prepared.questions('1-hop/dev')[0]
(start, end), text = question.topics[0], question.text
answer = kb.ask(f'{text[:start]}[{text[start:end]}]{text[end:]}')
assert len(answer.entities) and kb.evidence(answer.hops[0].entries[:1])
print('answered')
"""


def run(*arguments):
    path = os.pathsep.join(map(str, (ROOT, ROOT / 'tests' / 'support')))
    environment = os.environ | {'PYTHONPATH': path, 'JAX_PLATFORMS': 'cpu'}
    command = [sys.executable, '-c', *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def test_no_connection_is_opened_from_text_to_answer(tmp_path):
    done = run(WITHOUT_NETWORK + WORLD, tmp_path / 'kb')
    assert done.stdout.endswith('answered\n'), done.stderr


def test_a_connection_would_be_noticed():
    use = "import urllib.request; urllib.request.urlopen('http://localhost:1')"
    assert 'a connection is opened' in run(WITHOUT_NETWORK + use).stderr
