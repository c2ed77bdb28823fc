"""The pages of docs/ build as `launch/docs.sh` builds them, where every warning is an error."""

import html
import os
import pathlib
import re
import subprocess
import sys

import pytest

from forked_binaries import ENCODER

ROOT = pathlib.Path(__file__).resolve().parents[1]
SPHINX = re.search(
    r'-m (sphinx .*-b html)', (ROOT / 'launch' / 'docs.sh').read_text(encoding='utf-8')
)

pytest.importorskip('myst_nb', reason='the extra docs is not installed')


def build(output, *options, **variables):
    command = [sys.executable, '-m', *SPHINX[1].split(), *options, 'docs', output]
    where = {'cwd': ROOT, 'env': {**os.environ, 'PYTHONPATH': str(ROOT), **variables}}
    return subprocess.run(command, capture_output=True, text=True, timeout=1800, **where)


def test_pages_and_docstrings_have_no_warning(tmp_path):
    # No warning comes from writing, in which much of the time goes into navigation; `-m slow`
    # writes the pages.
    built = build(tmp_path, '-b', 'dummy', DOCS_NOTEBOOKS='off')
    assert built.returncode == 0, built.stderr


@pytest.mark.slow
def test_pages_show_what_docstrings_say(tmp_path):
    built = build(tmp_path, '-D', 'html_theme=basic', DOCS_NOTEBOOKS='off')
    assert built.returncode == 0, built.stderr
    page = (tmp_path / 'reference' / 'opql_jax.kb.html').read_text(encoding='utf-8')
    assert 'VirtualKB.ask' in page and 'whose topic stands in square brackets' in page
    page = (tmp_path / 'reference' / 'gin_parameters.html').read_text(encoding='utf-8')
    text = re.sub(r'\s+', ' ', html.unescape(re.sub(r'<[^>]*>', ' ', page)))
    # A field of a base class, one that refers to a function, a reader's, and a parameter of a
    # binary.
    for row in (
        'neighbours int 16 pairs around each seed pair',
        'clip_norm float 1.0 the largest norm',
        'work_folder str required holds the parts',
        'max_pairs int | None None ',
    ):
        assert row in text, row


def cells(page):
    """The code of a notebook in MyST's text form."""
    text = page.read_text(encoding='utf-8')
    return re.findall(r'^```\{code-cell\}\n(.*?)^```', text, re.M | re.S)


@pytest.mark.slow
def test_the_code_of_the_tutorial_runs_in_small(tmp_path, monkeypatch, capsys, binaries):
    """With small models, and forked processes, which wait for no imports."""

    run_process = subprocess.run

    def run(command, **options):
        if command[:2] != [sys.executable, '-m']:  # what a library calls as it is imported
            return run_process(command, **options)
        binary = command[2].removeprefix('opql_jax.')
        done = binaries(binary, *command[3:], *(ENCODER[1:] if binary == 'train' else ()))
        return subprocess.CompletedProcess(command, done.returncode, done.stdout + done.stderr)

    monkeypatch.setattr(subprocess, 'run', run)
    code = '\n'.join(cells(ROOT / 'docs' / 'tutorial.md'))
    sizes = 'DOCUMENTS, STEPS = 500, 200'
    assert code.count(sizes) == 1
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv('PYTHONPATH', str(ROOT))
    assert code.count('tempfile.mkdtemp()') == 1
    code = code.replace(sizes, 'DOCUMENTS, STEPS = 60, 2')
    code = code.replace('tempfile.mkdtemp()', repr(str(tmp_path)))
    exec(compile(code, 'docs/tutorial.md', 'exec'), {})
    output = capsys.readouterr().out
    # With one fact, its film has one answer.
    told = output.split('who directed [The Last Tutorial]')[1].splitlines()
    assert told[1].startswith('  1.00  ')
    assert 'hop 1: The Last Tutorial -> ' + told[1].split('  ')[-1] in told[2]
    assert 'was directed by' in told[2]
    losses = [float(loss) for loss in re.findall(r'^step \d+: loss (.*)', output, re.M)]
    assert losses[-1] < losses[0] / 4
    assert 'Edith Marlowe: Halmouth before, Port Ansel after' in output


@pytest.mark.slow
def test_the_tutorial_runs_as_a_notebook(tmp_path):
    built = build(tmp_path)
    assert built.returncode == 0, built.stderr
    page = (tmp_path / 'tutorial.html').read_text(encoding='utf-8')
    assert 'hop 2: ' in page and '3 hops: ' in page
