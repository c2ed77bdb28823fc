"""`run.json`: what a step of a recipe was run with, by which code, on what, for how long, and what came of it."""

import importlib.metadata
import json
import pathlib
import platform
import shlex
import subprocess

from opql_jax.core import distributed
from opql_jax.core.errors import InputError
from opql_jax.core.files import atomic_path

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ('jax', 'jaxlib', 'flax', 'optax', 'orbax-checkpoint', 'numpy')
FIELDS = {'command', 'commit', 'versions', 'device', 'seconds'}


def write(path, *, command, seconds: float, gin: str = '', metrics=None) -> None:
    """Writes a record, whole or not at all.

    Args:
        path: where; its folder is made.
        command: arguments of the Python interpreter.
        seconds: wall time of this call; of a run that was resumed, of the last part.
        gin: the operative configuration.
        metrics: what the step returned, as JSON values.
    """
    fields = {
        'command': list(command),
        'commit': commit(),
        'versions': {'python': platform.python_version(), **{name: importlib.metadata.version(name) for name in PACKAGES}},
        'device': distributed.describe_devices(),
        'seconds': round(seconds, 1),
        'gin': gin,
        'metrics': metrics or {},
    }
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as partial:
        partial.write_text(json.dumps(fields, indent=1, sort_keys=True, allow_nan=False), encoding='utf-8')


def read(path) -> dict:
    """A record.

    Raises:
        InputError: the file is damaged; names it.
    """
    try:
        fields = json.loads(pathlib.Path(path).read_text(encoding='utf-8'))
        missing = FIELDS - fields.keys()
    except (ValueError, AttributeError) as error:
        raise InputError(f'{path} is damaged ({error}): remove it to run the step again') from error
    if missing:
        raise InputError(f'{path} lacks {", ".join(sorted(missing))}: remove it to run the step again')
    return fields


def commit() -> str:
    """The commit of the checkout, with '+' after it if files differ from it; 'unknown' outside of a checkout."""
    git = lambda *arguments: subprocess.run(['git', '-C', str(ROOT), *arguments], capture_output=True, text=True)
    try:
        head = git('rev-parse', '--short=10', 'HEAD')
    except FileNotFoundError:
        return 'unknown'
    if head.returncode:
        return 'unknown'
    return head.stdout.strip() + ('+' if git('status', '--porcelain', '--untracked-files=no').stdout else '')


def shell(command) -> str:
    """A command line to paste."""
    return shlex.join(['python', *command])
