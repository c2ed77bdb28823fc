"""The pages of docs/ build as `launch/docs.sh` builds them, where every warning is an error."""

import html
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
SPHINX = re.search(
    r'-m (sphinx .*-b html)', (ROOT / 'launch' / 'docs.sh').read_text(encoding='utf-8')
)


def build(output, *options, **variables):
    command = [sys.executable, '-m', *SPHINX[1].split(), *options, 'docs', output]
    where = {'cwd': ROOT, 'env': {**os.environ, 'PYTHONPATH': str(ROOT), **variables}}
    return subprocess.run(command, capture_output=True, text=True, timeout=1800, **where)


def test_pages_and_docstrings_have_no_warning(tmp_path):
    # No warning comes from writing, which takes most of the time.
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
    # A field of a base class, of one that refers to a function, of a reader, and of a binary.
    for row in (
        'neighbours int 16 pairs around each seed pair',
        'clip_norm float 1.0 the largest norm',
        'work_folder str required holds the parts',
        'max_pairs int | None None ',
    ):
        assert row in text, row


@pytest.mark.slow
def test_the_tutorial_runs_as_a_notebook(tmp_path):
    built = build(tmp_path)
    assert built.returncode == 0, built.stderr
    page = (tmp_path / 'tutorial.html').read_text(encoding='utf-8')
    assert 'hop 2: ' in page and '3 hops: ' in page
