"""`opql index` that is killed in one stage after another makes no finished batch again, and in the end the same knowledge base."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest

from opql_jax.kb.index_text import index_text

from trios import TRIOS

STAGES = ('recognise_batch', 'split_batch', 'tokenise_batch', 'encode_batch')
REPO = pathlib.Path(__file__).resolve().parents[2]
# Of each stage two or three batches, and the number of each that is begun is written to a file.
SCRIPT = """
import os, signal, sys
from opql_jax.corpus import linking
from opql_jax.data import prepare
from opql_jax.datasets import plain_text
from opql_jax.kb.index_text import index_text
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
    for killed_in in (*STAGES, ''):
        ran = subprocess.run(
            [sys.executable, '-c', SCRIPT, tmp_path / 'articles', tmp_path / 'kb', tmp_path / 'begun', killed_in],
            env=os.environ | {'PYTHONPATH': str(REPO)},
        )
        assert ran.returncode == (-signal.SIGKILL if killed_in else 0)
    begun = (tmp_path / 'begun').read_text().splitlines()
    for stage in STAGES:
        assert begun.count(stage) == 3 + 1, stage  # six documents of a passage each, and the batch of the kill twice
    index_text([tmp_path / 'articles'], tmp_path / 'whole', processes=1)
    assert content(tmp_path / 'kb') == content(tmp_path / 'whole')
