"""The pages of docs/ build as `launch/docs.sh` builds them, where every warning is an error."""

import os
import re
import subprocess
import sys

import pytest

from forked_binaries import ROOT

SCRIPT = (ROOT / 'launch' / 'docs.sh').read_text(encoding='utf-8')
SPHINX = re.search(r'-m (sphinx .*-b html)', SCRIPT)


def build(output, *options, **variables):
    command = [sys.executable, '-m', *SPHINX[1].split(), *options, 'docs', output]
    where = {'cwd': ROOT, 'env': {**os.environ, 'PYTHONPATH': str(ROOT), **variables}}
    return subprocess.run(command, capture_output=True, text=True, timeout=1800, **where)


def test_pages_and_docstrings_have_no_warning(tmp_path):
    # No warning comes from writing, which takes most of the time.
    built = build(tmp_path, '-b', 'dummy', DOCS_NOTEBOOKS='off')
    assert built.returncode == 0, built.stderr


@pytest.mark.slow
def test_the_tutorial_runs_as_a_notebook(tmp_path):
    built = build(tmp_path)
    assert built.returncode == 0, built.stderr
    page = (tmp_path / 'tutorial.html').read_text(encoding='utf-8')
    assert 'hop 2: ' in page and '3 hops: ' in page
