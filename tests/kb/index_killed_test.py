"""`opql index` that is killed in one stage after another makes no finished batch again, and in the end the same knowledge base."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest

from trios import TRIOS

STAGES = ('recognise_batch', 'tokenise_batch', 'encode_batch')
REPO = pathlib.Path(__file__).resolve().parents[2]
# Of each stage two or three batches, and the number of each that is begun is written to a file.
SCRIPT = """
import os, signal, sys
from opql_jax.corpus import linking
from opql_jax.data import prepare
from opql_jax.datasets import plain_text
from opql_jax.kb.text.index_text import index_text
from opql_jax.models import passage_encoder

linking.BATCH_DOCUMENTS = prepare.BATCH_PASSAGES = plain_text.BATCH_DOCUMENTS = passage_encoder.BATCH_PASSAGES = 2
articles, kb, begun, killed_in = sys.argv[1:]

def map_batches(stage, batches):
    name = stage.func.__name__
    for number, batch in enumerate(batches):
        with open(begun, 'a') as file:
            file.write(name + '\\n')
        if name == killed_in and number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        yield stage(batch)

index_text([articles], kb, map_batches=map_batches)
"""


def content(folder):
    files = (path for path in folder.rglob('*') if path.is_file() and not path.name.startswith('.'))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.slow
def test_no_stage_does_again_what_was_done(tmp_path):
    (tmp_path / 'articles').mkdir()
    for name in ('engine', 'river'):
        for title, text in TRIOS[name].documents.items():
            (tmp_path / 'articles' / f'{title}.txt').write_text(f'{title}\n\n{text}\n', encoding='utf-8')

    def run(kb, killed_in=''):
        arguments = tmp_path / 'articles', tmp_path / kb, tmp_path / f'{kb}.begun', killed_in
        return subprocess.run([sys.executable, '-c', SCRIPT, *arguments], env=os.environ | {'PYTHONPATH': str(REPO)}).returncode

    assert [run('kb', stage) for stage in STAGES] == [-signal.SIGKILL] * 3
    assert run('kb') == run('whole') == 0
    begun, whole = ((tmp_path / f'{kb}.begun').read_text().splitlines() for kb in ('kb', 'whole'))
    for stage in STAGES:
        assert begun.count(stage) == whole.count(stage) + 1 == 3 + 1  # the batch of the kill twice
    assert content(tmp_path / 'kb') == content(tmp_path / 'whole')
