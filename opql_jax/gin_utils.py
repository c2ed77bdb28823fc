"""Gin at the edge: the binaries' flags, and the configuration of plain, undecorated functions.

`--gin_file` names files (looked up as given, then in the package), `--gin.X=value` overrides a
macro or a parameter, `--dry_run` prints the operative configuration and shapes and runs nothing,
`--help` the flags, gin files and parameters of a binary. A value that is no Python literal and no
reference (`@`, `%`) is a string, so `--gin.KB=runs/x` needs no inner quotes.
"""

import ast
import contextlib
import copy
import dataclasses
import inspect
import itertools
import logging
import os
import pathlib
import re
import sys
import time
import traceback
import typing

from absl import app, flags
from absl import logging as absl_logging

import gin
from opql_jax.core import terminal
from opql_jax.core.checkout import GIN_ROOT, with_includes
from opql_jax.core.errors import InputError, Preempted, error_message

flags.DEFINE_multi_string('gin_file', [], 'Gin file; looked up as given, then in the package.')
flags.DEFINE_multi_string('gin_bindings', [], '--gin.X=Y is short for --gin_bindings=X=Y.')
flags.DEFINE_string('run_json', None, 'Where to record what was run and what came of it.')
flags.DEFINE_bool('dry_run', False, 'Print the configuration and shapes, run nothing.')


def rewrite_gin_args(argv: list[str]) -> list[str]:
    """Turns `--gin.X=Y` into `--gin_bindings=X=Y`; app.UsageError: a `--gin.X` without a value."""
    rewritten = []
    for arg in argv:
        if arg.startswith(('--gin.', '-gin.')):
            if '=' not in arg:
                raise app.UsageError(f'{arg}: write --gin.NAME=VALUE')
            name, value = arg.split('gin.', 1)[1].split('=', 1)
            arg = f'--gin_bindings={name}={_quoted(value)}'
        rewritten.append(arg)
    return rewritten


def _quoted(value: str) -> str:
    if not value.strip().startswith(('@', '%')):
        try:
            ast.literal_eval(value)
        except (ValueError, SyntaxError):
            return repr(value)
    return value


def configure(files, bindings, function):
    """Parses files, then bindings, and returns `function` with its parameters bound.

    Raises:
        ValueError: an unknown module, function, parameter or macro, or a macro that is still
            REQUIRED.
        SyntaxError: a file that is no gin.
        OSError: no such file.
    """
    # gin logs an error for each search path that lacks a file, also when a later one has it.
    quiet = lambda record: not record.getMessage().startswith('Path not found')
    logging.getLogger().addFilter(quiet)
    absl_logging.get_absl_logger().addFilter(quiet)
    gin.add_config_file_search_path(str(GIN_ROOT))
    gin.external_configurable(function)
    for file in files:
        gin.parse_config_file(file)
    for binding in bindings:
        name = binding.split('=')[0].strip()
        if '.' not in name:
            # A macro. gin would accept any name here and never use it.
            try:
                gin.query_parameter(f'{name}/gin.macro.value')
            except ValueError:
                unknown = f'no gin file given defines a macro named {name}'
                raise ValueError(f'--gin.{binding}: {unknown}') from None
        gin.parse_config(binding)
    try:
        gin.finalize()
    except ValueError as error:
        if missing := re.match(r"No bindings specified for '(\w+)/gin.macro'", str(error)):
            where = ' (those in gin/models do)' if missing[1] == 'ENCODER' else ''
            raise ValueError(f'no gin file given defines {missing[1]}{where}') from None
        if 'gin.REQUIRED' not in str(error):
            raise
        name, given = str(error).split('/')[0], ', '.join(map(str, files))
        raise ValueError(f'{name} has no value: give --gin.{name}=... (see {given})') from None
    _check_types(function)
    return gin.get_configurable(function)


def _check_types(function) -> None:
    """Checks bound numbers and strings against annotations, which gin does not."""
    hints = typing.get_type_hints(function)
    for kind in filter(dataclasses.is_dataclass, hints.values()):
        _check_types(kind)
    try:
        bindings = gin.get_bindings(function, resolve_references=False)
    except ValueError:  # a dataclass that no gin file names
        return
    for name, value in bindings.items():
        kinds = set(typing.get_args(hints.get(name)) or [hints.get(name)])
        if kinds <= {bool, int, float, str, type(None)}:
            value = copy.deepcopy(value)  # which is how gin evaluates a macro
            if type(value) not in kinds and not (type(value) is int and float in kinds):
                names = ['None' if kind is type(None) else kind.__name__ for kind in kinds]
                said = f'{function.__name__}.{name} is {value!r}, expected '
                said += ' or '.join(sorted(names))
                if str in kinds:
                    twice = f"""--gin.NAME="'{value}'\""""
                    said += f'; text that looks like a number is quoted twice: {twice}'
                raise ValueError(said)


def usage(function) -> str:
    """What `--help` prints: purpose, flags, gin files with their macros, and parameters."""
    lines = [
        (sys.modules['__main__'].__doc__ or '').strip(),
        flags.FLAGS.main_module_help(),
        flags.FLAGS.module_help(__name__),
    ]
    files = [sorted((GIN_ROOT / 'gin' / folder).glob('*.gin')) for folder in ('data', 'runs')]
    for path in itertools.chain(*files):
        text = with_includes(path)
        if re.search(rf'^\w+\.{function.__name__}\b', text, re.MULTILINE):
            lines += ['', f'--gin_file={path.relative_to(GIN_ROOT)}  {text.splitlines()[0]}']
            # The last value counts.
            macros = dict(re.findall(r'^([A-Z_]+) = (.*)$', text, re.MULTILINE))
            shown = {name: value.replace('%gin.REQUIRED', '...') for name, value in macros.items()}
            lines += [f'  --gin.{name}={value}' for name, value in shown.items()]
    module = function.__module__.rpartition('.')[2]
    parameters = inspect.signature(function).parameters.values()
    lines += ['', f'--gin.{module}.{function.__name__}.PARAMETER=VALUE']
    lines += [*(f'  {parameter}' for parameter in parameters), '', inspect.getdoc(function) or '']
    return '\n'.join(lines)


def run(function, multi_process: bool = False, polls_preemption: bool = False, **arguments) -> None:
    """The body of every binary: parses flags and gin, then calls `function` with them.

    Args:
        function: a library function; it takes `dry_run`.
        multi_process: whether several processes can run it together, see `core.distributed`.
        polls_preemption: whether it saves its state upon a SIGTERM, see `PreemptionGuard`.
        **arguments: for the function, each a no-argument function that is called once the flags are
            parsed.
    """
    if '--help' in sys.argv[1:]:
        print(usage(function))
        return
    try:
        argv = rewrite_gin_args(sys.argv)
    except app.UsageError as error:
        sys.exit(f'error: {terminal.one_line(str(error))}')

    def main(argv):
        if argv[1:]:
            raise app.UsageError(f'unexpected arguments: {argv[1:]}')
        _log_to_stderr()
        if not flags.FLAGS.gin_file:
            raise app.UsageError('--gin_file: name at least one, such as those in gin/')
        try:
            configured = configure(flags.FLAGS.gin_file, flags.FLAGS.gin_bindings, function)
        except (ValueError, OSError, SyntaxError) as error:
            sys.exit(f'error: {terminal.printable(str(error))}')
        processes = 1
        try:
            processes = _join_processes(function.__name__, multi_process, polls_preemption)
            # Before anybody edits them.
            gin_files = {}
            if flags.FLAGS.run_json:
                from opql_jax.recipes import record

                gin_files = record.gin_digests(flags.FLAGS.gin_file, pathlib.Path.cwd())
            started = time.monotonic()
            made = {name: make() for name, make in arguments.items()}
            metrics = configured(dry_run=flags.FLAGS.dry_run, **made)
            if flags.FLAGS.run_json and not flags.FLAGS.dry_run:
                metrics = metrics if isinstance(metrics, dict) else {}
                _write_record(time.monotonic() - started, gin_files, metrics, processes)
        except Preempted as preempted:
            with contextlib.suppress(OSError):  # a terminal that is gone
                print(preempted.message, file=sys.stderr)
            raise
        except Exception as error:
            if isinstance(error, (InputError, OSError, MemoryError)):
                # gin appends which function was called, which says nothing about the input.
                message = error_message(error).split('\n  In call to configurable')[0]
                print(f'error: {message.rstrip()}', file=sys.stderr)
            else:
                traceback.print_exc()
            # The others may be waiting for this one, which at its exit would wait for them.
            if processes > 1:
                os._exit(1)
            sys.exit(1)
        if flags.FLAGS.dry_run:
            # Only now, as gin knows the defaults of what was called.
            print('# operative configuration\n' + gin.operative_config_str())

    stderr = sys.stderr
    with terminal.escaped_output():
        made_by_absl = absl_logging.get_absl_handler().python_handler
        for handler in (made_by_absl, *logging.getLogger().handlers):
            # Made by what was imported.
            if isinstance(handler, logging.StreamHandler) and handler.stream is stderr:
                handler.setStream(sys.stderr)
        app.run(main, argv=argv)


def _join_processes(name: str, multi_process: bool, polls_preemption: bool) -> int:
    """Joins the processes of the environment; returns their number."""
    processes = os.environ.get('OPQL_PROCESSES', '1')
    if processes == '1' and os.environ.get('OPQL_DISTRIBUTED') != '1':
        return 1
    from opql_jax.core import distributed

    if multi_process or processes == '1':
        distributed.initialize(handle_preemption=polls_preemption)
    if not multi_process and (processes != '1' or distributed.process_count() > 1):
        raise InputError(
            f'{name} works in one process, on the devices of one host: start it on one'
        )
    if not distributed.is_primary():
        logging.getLogger('opql_jax').setLevel(logging.WARNING)
    return distributed.process_count()


def _write_record(seconds: float, gin_files: dict, metrics: dict, processes: int) -> None:
    """Writes --run_json, in the first of several processes."""
    from opql_jax.core import distributed
    from opql_jax.recipes import record

    if processes > 1 and not distributed.is_primary():
        return
    module = sys.modules['__main__'].__spec__.name  # type: ignore[union-attr]  # binaries are run with -m
    arguments = [argument for argument in sys.argv[1:] if not argument.startswith('--run_json')]
    record.write(
        flags.FLAGS.run_json,
        command=['-m', module, *arguments],
        seconds=seconds,
        gin=gin.operative_config_str(),
        gin_files=gin_files,
        metrics=metrics,
    )


def _log_to_stderr() -> None:
    """Our own messages from INFO, others from WARNING: Orbax reports every array it touches."""
    absl_logging.set_verbosity(absl_logging.WARNING)
    # Orbax also warns that folders are opened read-only, and logs errors that it raises.
    notices = (
        'CheckpointManagerOptions.read_only=True',
        'Given directory is read only',
        '_SignalingThread.run() raised',
        'in background save thread',
        'Save Finalize thread',
        'Checkpointer failed: one or more items',
    )
    absl_logging.get_absl_handler().addFilter(
        lambda record: not any(n in record.getMessage() for n in notices)
    )
    # After such an error TensorStore reports other arrays to an event loop that Orbax has closed.
    show = sys.unraisablehook
    sys.unraisablehook = lambda error: (
        None if str(error.exc_value) == 'Event loop is closed' else show(error)
    )
    ours = logging.getLogger('opql_jax')
    ours.addHandler(terminal.log_handler())
    ours.setLevel(logging.INFO)
    ours.propagate = False
