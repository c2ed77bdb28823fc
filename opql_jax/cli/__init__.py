"""The command `opql`: a knowledge base of one's own text, in a few words; it needs the extra `app`.

For example:

    opql index articles/ --out films.kb
    opql ask films.kb "who starred in the films directed by Christopher Nolan?"
    opql retrieve films.kb "who starred in the films directed by Christopher Nolan?"
    opql train films.kb questions.jsonl
    opql evaluate films.kb questions.jsonl
"""

import contextlib
import gc
import os
import platform
import sys
import traceback

from opql_jax.core import preemption, terminal
from opql_jax.core.errors import InputError, Preempted, error_message

# Exit codes, as docs/how-to/command_line.md lists them. Bad input ends with 1, SIGTERM and a hangup
# with 75, Ctrl-C with 130.
USAGE, INTERNAL_ERROR = 2, 70  # EX_SOFTWARE of sysexits.h


def main(arguments: list[str] | None = None) -> None:
    """Runs the command; an error is a line on stderr, after a traceback under `--debug`."""
    os.environ.setdefault('JAX_PLATFORMS', 'cpu')
    # The products of a question are small: threads would spend their time waiting for each other.
    os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')
    for name, mode in (('stdin', 'r'), ('stdout', 'w'), ('stderr', 'w')):
        if getattr(sys, name) is None:  # closed by whoever started the process
            setattr(sys, name, open(os.devnull, mode, encoding='utf-8'))
    if arguments is None:  # the process is the command's own
        arguments = sys.argv[1:]
        _keep_compiled_programs()
        # Most objects of a command are of modules, and live on: looking for others among them took
        # a tenth of the time of `opql ask`.
        gc.set_threshold(50_000)
        preemption.exit_on_signals()
    with terminal.escaped_output():
        _run(arguments)


def _run(arguments: list[str]) -> None:
    if '' in arguments:
        print('Error: an argument is empty: is a shell variable unset?', file=sys.stderr)
        sys.exit(USAGE)
    try:
        from opql_jax.cli.commands import app
    except ModuleNotFoundError as error:
        if error.name not in ('typer', 'rich'):
            raise
        sys.exit("error: the command `opql` needs its extra: pip install 'opql-jax[app]'")
    try:
        app(arguments, prog_name='opql')
    except SystemExit as end:
        if end.code:  # else the caller goes on
            raise
    except Preempted as stopped:
        with contextlib.suppress(OSError):  # a terminal that is gone
            print(stopped.message, file=sys.stderr)
        raise
    except Exception as error:
        # Before the command, where the options of all commands stand.
        if '--debug' in arguments[:1]:
            traceback.print_exc()
        if str(error).startswith('RESOURCE_EXHAUSTED'):  # of XLA
            error = MemoryError(str(error))
        if isinstance(error, InputError | OSError | MemoryError):
            sys.exit(f'error: {error_message(error)}')
        what = terminal.one_line(f'{type(error).__name__}: {error}')
        print(f'internal error: {what}; `opql --debug …` shows where', file=sys.stderr)
        sys.exit(INTERNAL_ERROR)


def _keep_compiled_programs() -> None:
    """Keeps compiled programs in the user's cache: saves a later `opql ask` a second or two."""
    cache = os.environ.get('OPQL_CACHE') or os.path.expanduser('~/.cache/opql_jax')
    # Homes are shared by machines with other processors.
    folder = os.path.join(cache, f'compiled-{platform.node()}')
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError:
        return  # a home that cannot be written to
    os.environ.setdefault('JAX_COMPILATION_CACHE_DIR', folder)
    os.environ.setdefault('JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS', '0')
    os.environ.setdefault('JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES', '-1')
