"""The command `opql`: its help, its errors, how it ends, and what it does not import for these."""

import os
import re
import shlex
import subprocess
import sys

import pytest

from opql_jax import cli
from opql_jax.kb import open_kb

COMMANDS = (
    'index ask retrieve train evaluate add remove compact info export explore serve mcp recipes'
).split()


def run(arguments, capsys) -> tuple[object, str, str]:
    try:
        cli.main(arguments)
        code = 0
    except SystemExit as end:
        code = end.code
    return code, *capsys.readouterr()


def test_help_names_all_commands_and_piped_has_neither_colours_nor_boxes(capsys):
    for command in COMMANDS[:-1]:
        code, out, _ = run([command, '--help'], capsys)
        assert code == 0 and out.isascii()
    code, out, _ = run(['--help'], capsys)
    assert code == 0
    assert re.findall(r'^  (\w+)  ', out.partition('Commands:')[2], re.M) == COMMANDS


def test_help_waits_for_no_large_import():
    script = "import sys; from opql_jax import cli; cli.main(['--help']); "
    script += 'print(*sys.modules, file=sys.stderr)'
    command = [sys.executable, '-c', script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    large = 'jax numpy scipy pyarrow spacy tokenizers msgspec etils rich flax'.split()
    assert not {name.partition('.')[0] for name in done.stderr.split()} & set(large)


WRONG = """gone
ask kb question --top 0
index text --out kb --max_reject_fraction nan
explore kb --port 65536
ask '' question"""


@pytest.mark.parametrize('line', WRONG.splitlines())
def test_a_wrong_command_line_ends_with_2(line, capsys):
    code, out, errors = run(shlex.split(line), capsys)
    assert (code, out) == (2, '') and 'Error: ' in errors and 'Traceback' not in errors


def test_bad_input_is_told_in_a_line_and_ends_with_1(tmp_path):
    command = [sys.executable, '-m', 'opql_jax.cli', 'index', str(tmp_path / 'none')]
    command += ['--out', str(tmp_path / 'kb')]
    narrow = os.environ | {'COLUMNS': '80'}
    done = subprocess.run(command, capture_output=True, text=True, env=narrow)
    assert (done.returncode, done.stdout) == (1, '')
    assert done.stderr == f'error: {tmp_path}/none: no such file or folder\n'


@pytest.mark.parametrize('megabytes', [500, 1000, 1500, 2000])
def test_too_little_address_space_is_told_in_a_line(megabytes, tmp_path):
    """Rather than in a dump of a library's threads."""
    command = f'ulimit -c 0; ulimit -v {megabytes << 10}; '
    command += f'exec "$0" -m opql_jax.cli ask {tmp_path} who'
    done = subprocess.run(['bash', '-c', command, sys.executable], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, ''), done.stderr
    said = f'error: the address space is limited to {megabytes:,} MiB (ulimit -v): at least '
    assert done.stderr.startswith(said) and done.stderr.count('\n') == 1


def test_an_error_of_the_program_has_a_traceback_under_debug_only(monkeypatch, capsys):
    def fail(kb, **options):
        raise ZeroDivisionError('oh')

    monkeypatch.setattr(open_kb, 'open_kb', fail)
    code, _, errors = run(['ask', 'kb', 'who?'], capsys)
    assert (code, len(errors.splitlines())) == (70, 1) and 'ZeroDivisionError: oh' in errors
    code, _, errors = run(['--debug', 'ask', 'kb', 'who?'], capsys)
    assert code == 70 and errors.startswith('Traceback') and 'in fail' in errors


def test_output_that_nobody_reads_is_no_error_of_the_program():
    command = f'{shlex.quote(sys.executable)} -m opql_jax.cli --version'
    for line, code in (
        (f'{command} >&-', 0),
        (f'{command} > /dev/full', 1),
        (f'{command} | exec 0<&-; exit ${{PIPESTATUS[0]}}', 1),
    ):
        done = subprocess.run(['bash', '-c', line], capture_output=True, text=True)
        assert done.returncode == code, done
        assert done.stderr in ('', 'error: No space left on device\n'), done
