"""The wheel in an environment of its own, from the first text to the web page."""

import json
import os
import pathlib
import runpy
import shutil
import subprocess
import sys
import zipfile

import pytest

from trios import TRIOS, write

ROOT = pathlib.Path(__file__).resolve().parents[1]
LISTS = runpy.run_path(str(ROOT / 'setup.py'), run_name='setup')
PARTS = ('setup.py', 'pyproject.toml', 'README.md', 'LICENSE', 'opql_jax', 'tasks', 'gin')
QUESTION, ANSWER, _ = TRIOS['engine'].asked[0]
pytestmark = pytest.mark.slow


@pytest.fixture(scope='module')
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp('wheel')
    for name in ('source', 'home', 'work'):
        (root / name).mkdir()
    return root


@pytest.fixture(scope='module')
def wheel(root):
    """The wheel of a copy of the checkout; `build` makes it of the source distribution."""
    ignore = shutil.ignore_patterns('__pycache__', '*.egg-info')
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, root / 'source' / part, ignore=ignore)
        else:
            shutil.copy(ROOT / part, root / 'source' / part)
    build = [sys.executable, '-m', 'build', '--no-isolation', '--outdir', root / 'dist']
    subprocess.run([*build, root / 'source'], check=True, capture_output=True)
    (found,) = (root / 'dist').glob('*.whl')
    return found


@pytest.fixture(scope='module')
def environment(root, wheel):
    """The programs of a new environment: the wheel and two extras, in versions of the lock."""
    subprocess.run([sys.executable, '-m', 'venv', '--without-pip', root / 'venv'], check=True)
    pip = [sys.executable, '-m', 'pip', '--python', root / 'venv/bin/python', 'install']
    pip += ['--quiet', '--no-compile']
    locked = ['--require-hashes', '--no-build-isolation', '-c', ROOT / 'requirements-lock.txt']
    wanted = [*LISTS['CORE'], *LISTS['EXTRAS']['app'], *LISTS['EXTRAS']['text']]
    # A wheel of our own has no hash in the lock.
    for arguments in ([*locked, *wanted], ['--no-deps', wheel]):
        done = subprocess.run([*pip, *arguments], cwd=root, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return root / 'venv/bin'


@pytest.fixture(scope='module')
def run(environment, root):
    """Runs a program of the environment outside the checkout; returns what it prints."""

    def run(*command):
        command = [environment / command[0], *map(str, command[1:])]
        somebody = {'HOME': str(root / 'home'), 'PATH': os.defpath, 'LANG': 'C.UTF-8'}
        where = {'cwd': root / 'work', 'env': somebody}
        done = subprocess.run(command, capture_output=True, text=True, **where)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope='module')
def kb(run, root):
    write(root / 'work' / 'articles', TRIOS['engine'].documents)
    made = json.loads(run('opql', 'index', 'articles', '--out', 'mine.kb', '--json'))
    assert made['documents'] == 3 and made['entries'] > 0
    return root / 'work' / 'mine.kb'


def test_the_wheel_has_the_data_of_the_packages_and_nothing_else(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    files = lambda folder, *patterns: [
        path.relative_to(ROOT / folder).as_posix()
        for pattern in patterns
        for path in (ROOT / folder).rglob(pattern)
    ]
    data = '*.html *.css *.toml *.txt *.safetensors *.json README.md py.typed'.split()
    of_training = lambda name: name.startswith('opql_jax/datasets/written/')
    in_checkout = [f'opql_jax/{name}' for name in files('opql_jax', '*.py', *data)]
    assert {name for name in in_checkout if not of_training(name)} <= names
    assert any(map(of_training, in_checkout)) and not any(map(of_training, names))
    assert {f'opql_jax/gin/{name}' for name in files('gin', '*.gin', '*.tsv')} <= names
    assert {f'opql_jax_tasks/{name}' for name in files('tasks', '*.py', '*.tsv')} <= names
    packages = {name.partition('/')[0] for name in names if '.dist-info/' not in name}
    assert packages == {'opql_jax', 'opql_jax_tasks'}


def test_questions_are_answered_from_the_text(run, kb):
    assert ANSWER in run('opql', 'ask', kb, QUESTION)
    documents = json.loads(run('opql', 'retrieve', kb, QUESTION, '-k', '2', '--json'))
    assert 'articles/lord byron.txt' in [document['document'] for document in documents]


def test_the_package_is_the_installed_one_and_its_encoder_and_reader_open(run, root):
    script = (
        'import opql_jax; from opql_jax.models.reader import Reader; Reader.load(); '
        "print(opql_jax.__file__, opql_jax.load_encoder('default').dim)"
    )
    file, dim = run('python', '-c', script).split()
    assert pathlib.Path(file).is_relative_to(root / 'venv') and int(dim) == 256
