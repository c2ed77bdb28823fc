"""`run.json`: a step's command, code, data, duration, and results."""

import hashlib
import importlib.metadata
import io
import json
import pathlib
import platform
import re
import shutil
import subprocess
import tokenize
from collections.abc import Iterable
from typing import Any, TypedDict, TypeVar

import msgspec

from opql_jax.core import distributed
from opql_jax.core.checkout import GIN_ROOT, IN_CHECKOUT
from opql_jax.core.errors import InputError
from opql_jax.core.files import sha256, write_bytes

T = TypeVar('T')
# Where recipes run, and write to unless told otherwise: the checkout, or the working directory
# where the package was installed.
ROOT = GIN_ROOT if IN_CHECKOUT else pathlib.Path.cwd()
PACKAGES = ('jax', 'jaxlib', 'flax', 'optax', 'orbax-checkpoint', 'numpy')


class Record(TypedDict):
    """What `write` writes."""

    command: list[str]
    commit: str
    versions: dict[str, str]
    device: str
    seconds: float
    gin: str
    gin_files: dict[str, str]
    metrics: dict[str, Any]


def write(path, *, command, seconds: float, gin: str = '', gin_files=None, metrics=None) -> None:
    """Writes a record, whole or not at all, and makes its folder.

    `command` are arguments of the Python interpreter, `seconds` the wall time of this call, of a
    run that was resumed of the last part, `gin` the operative configuration, `gin_files` the
    `gin_digests` of what it was read from, and `metrics` JSON values that the step returned.
    """
    fields = {
        'command': list(command),
        'commit': commit(),
        'versions': {
            'python': platform.python_version(),
            **{name: importlib.metadata.version(name) for name in PACKAGES},
        },
        'device': distributed.describe_devices(),
        'seconds': round(seconds, 1),
        'gin': gin,
        'gin_files': gin_files or {},
        'metrics': metrics or {},
    }
    write_json(path, fields)


def read(path) -> Record:
    """A record; InputError names a damaged file, or a missing or mistyped field."""
    return read_json(path, Record)


def read_json(path, type: type[T], advice: str = 'remove it to run the step again') -> T:
    """A JSON file of this type; InputError, with `advice`, if it is damaged."""
    try:
        return msgspec.json.decode(pathlib.Path(path).read_bytes(), type=type)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f'{path} is damaged ({error}): {advice}') from error


def write_json(path, value) -> None:
    """Writes a JSON file, whole or not at all; makes its folder."""
    text = json.dumps(value, indent=1, sort_keys=True, allow_nan=False)
    write_bytes(path, f'{text}\n'.encode())


def data_digests(paths: Iterable[str]) -> dict[str, str]:
    """{file: hex SHA-256} of data files, and of all files in folders; InputError if missing."""
    digests = {}
    for path in map(pathlib.Path, paths):
        if not path.exists():
            raise InputError(f'{path} does not exist: it holds data of this recipe')
        inside = sorted(path.rglob('*')) if path.is_dir() else [path]
        digests |= {str(file): sha256(file) for file in inside if file.is_file()}
    return digests


def gin_digests(files: Iterable[str], folder: pathlib.Path) -> dict[str, str]:
    """{file: hex SHA-256} of gin files and those they include, but for comments and blank lines.

    What is not in `folder` ships with the package. InputError names what cannot be read.
    """
    digests = {}
    for name in files:
        path = folder / name if (folder / name).exists() else GIN_ROOT / name
        try:
            text = path.read_text(encoding='utf-8')
            # Gin files are made of Python's tokens.
            tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
        except (OSError, ValueError, SyntaxError, tokenize.TokenError) as error:
            raise InputError(f'gin file {path}: {error}') from error
        counted = [t.string for t in tokens if t.type not in (tokenize.COMMENT, tokenize.NL)]
        digests[name] = hashlib.sha256('\0'.join(counted).encode()).hexdigest()
        digests |= gin_digests(re.findall(r"^include '(.+)'", text, re.M), folder)
    return digests


def commit() -> str:
    """The commit, with '+' if files but published results differ; 'unknown' without a checkout."""
    git = lambda *arguments: subprocess.run(
        ['git', '-C', str(ROOT), *arguments], capture_output=True, text=True
    )
    if not IN_CHECKOUT or not shutil.which('git'):
        return 'unknown'
    head = git('rev-parse', '--short=10', 'HEAD')
    if head.returncode:
        return 'unknown'
    changed = git('status', '--porcelain', '--untracked-files=no', '--', '.', ':!results').stdout
    return head.stdout.strip() + ('+' if changed else '')
