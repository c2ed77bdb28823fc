"""What all tests share: device, compiled programs, settings of hypothesis, the real data."""

import atexit
import gc
import importlib.util
import os
import pathlib
import shutil
import signal
import tempfile

# Before anything imports jax, which reads it once.
os.environ.setdefault('JAX_PLATFORMS', 'cpu')

# Most of a tiny training run is compilation, and tiny programs take longer to optimise than to run.
if (
    os.environ['JAX_PLATFORMS'] == 'cpu'
    and os.environ.setdefault('JAX_DISABLE_MOST_OPTIMIZATIONS', '1') == '1'
):
    # XLA's newer way to emit fused loops takes a third longer. So does cutting a program into
    # parts, which several threads would compile faster, but launch/test.sh gives a process one.
    os.environ.setdefault(
        'XLA_FLAGS', '--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1'
    )

# Where in the tests an operation was made is of no use to anybody.
os.environ.setdefault('JAX_TRACEBACK_IN_LOCATIONS_LIMIT', '0')

# All processes of one test session share what they compiled.
if 'JAX_COMPILATION_CACHE_DIR' not in os.environ:
    os.environ['JAX_COMPILATION_CACHE_DIR'] = tempfile.mkdtemp(prefix='opql_jax_compiled_')
    os.environ['JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS'] = '0'
    os.environ['JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES'] = '-1'
    atexit.register(shutil.rmtree, os.environ['JAX_COMPILATION_CACHE_DIR'], ignore_errors=True)

import pytest

import gin
from opql_jax.models import bulk_encoding

from forked_binaries import Binaries, collect_seldom

# A shell starts what it runs in the background with Ctrl-C ignored, which children inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

REPO = pathlib.Path(__file__).resolve().parent.parent
collect_seldom()
# Of batches as users have them most would be padding: the texts of tests are short.
bulk_encoding.CPU_TOKENS = 512

if importlib.util.find_spec('hypothesis'):
    import hypothesis

    # No deadline, because a first call compiles; the same examples in every run, so that a failure
    # repeats, and half as many as Hypothesis tries by default, since no later run would try others.
    hypothesis.settings.register_profile('ours', deadline=None, derandomize=True, max_examples=50)
    hypothesis.settings.load_profile('ours')


@pytest.fixture(scope='session')
def shared_data() -> pathlib.Path:
    """The folder of real data beside the checkout; the test is skipped where it is absent."""
    folder = REPO.parent / 'shared' / 'data'
    if not folder.is_dir():
        pytest.skip('no real data: ../shared/data is absent beside the checkout')
    return folder


@pytest.fixture(scope='session')
def binaries():
    """Runs binaries and scripts, each forked from a process that has imported what they need."""
    with Binaries() as binaries:
        yield binaries


@pytest.fixture(scope='session')
def films_kb(tmp_path_factory):
    """The folder of a knowledge base of the documents about films, which no test changes."""
    from opql_jax.kb.text.index_text import index_text

    import films

    root = tmp_path_factory.mktemp('films')
    index_text([films.write(root / 'films.jsonl')], root / 'films.kb', processes=1)
    return root / 'films.kb'


@pytest.fixture(scope='session')
def engine_folder(tmp_path_factory):
    """A knowledge base of the trio `engine`, which no test changes, beside its `articles`."""
    from opql_jax.kb.text.index_text import index_text

    import trios

    root = tmp_path_factory.mktemp('engine')
    trios.write(root / 'articles', trios.TRIOS['engine'].documents)
    index_text([root / 'articles'], root / 'kb', processes=1)
    return root / 'kb'


@pytest.fixture(scope='session')
def world(tmp_path_factory):
    """A knowledge base over the generated corpus with untrained models, which no test changes."""
    import tiny_training

    return tiny_training.write_world(tmp_path_factory.mktemp('world'))


@pytest.fixture(scope='session')
def transformers():
    """The package, over torch; the test is skipped where either is absent."""
    for name in ('torch', 'transformers'):
        found = pytest.importorskip(name, reason=f'{name} is not installed', exc_type=ImportError)
    return found


@pytest.fixture
def no_garbage_collection():
    """Objects that refer to each other are freed only when Python collects garbage."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def fresh_gin():
    """Nothing is bound before the test, nor after it."""
    gin.clear_config()
    yield
    gin.clear_config()


# Minutes each; a file stays in one process.
LONGEST = (
    'rows docs_build benchmarks binaries several_processes links bad_input cli_prompt step crash '
    'forged'
).split()


def pytest_collection_modifyitems(items):
    """Sorts the longest files first, so that no process is left with one at the end."""
    order = {f'{name}_test.py': place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.name, len(order)))
