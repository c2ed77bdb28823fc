"""The pages of docs/ build as `launch/docs.sh` builds them: every warning, such as a link or a docstring that is wrong, is an error."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
SPHINX = re.search(r'-m (sphinx .*-b html)', (ROOT / 'launch' / 'docs.sh').read_text(encoding='utf-8'))

pytest.importorskip('myst_nb', reason='the extra docs is not installed')


def build(output, **variables):
    command = [sys.executable, '-m', *SPHINX[1].split(), 'docs', output]
    environment = {**os.environ, 'PYTHONPATH': str(ROOT), **variables}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1800)


def test_pages_and_docstrings_have_no_warning(tmp_path):
    built = build(tmp_path, DOCS_NOTEBOOKS='off')
    assert built.returncode == 0, built.stderr
    room = (tmp_path / 'reference' / 'opql_jax.kb.html').read_text(encoding='utf-8')
    assert 'VirtualKB.ask' in room and 'whose topic stands in square brackets' in room
