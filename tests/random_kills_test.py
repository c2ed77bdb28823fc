"""Killed or asked to stop at random moments, and started again, binaries end with the bytes of an undisturbed run."""

import hashlib
import signal
import time

import numpy as np
import pytest

from opql_jax.corpus.questions import to_record, write_questions
from opql_jax.data.prepared import Prepared

import tiny_training
from forked_binaries import ENCODER

pytestmark = pytest.mark.slow
KILLS, STEPS = 20, 60
# Before a binary's first line SIGTERM has its usual effect.
STATUSES = {signal.SIGKILL: (0, -signal.SIGKILL), signal.SIGTERM: (0, 75, -signal.SIGTERM)}


@pytest.fixture(scope='module')
def world(tmp_path_factory):
    """The knowledge base that the binaries start from, with a file of many questions."""
    root = tiny_training.write_world(tmp_path_factory.mktemp('world'))
    folder = Prepared(root / 'text')
    records = [to_record(q, folder.vocab) for q in folder.questions('2-hop/dev')]
    write_questions(root / 'many.jsonl', [{**r, 'id': f'{r["id"]}/{i}'} for i in range(40) for r in records])
    return root


def command(name, world, output):
    flags = lambda **values: [f'--gin.{key}={value}' for key, value in values.items()]
    return {
        'prepare': [
            'prepare',
            '--gin_file=gin/data/synthetic.gin',
            *flags(DOCUMENTS=600, KB=output.parent, TEXT=output.name),
            '--gin.prepare.prepare.wordpieces=2000',
        ],
        'train': [
            'train',
            *ENCODER,
            '--gin_file=gin/runs/relations.gin',
            *flags(KB=world, MODEL=output, STEPS=STEPS),
            '--gin.trainer.TrainConfig.checkpoint_every=4',
            '--gin.trainer.TrainConfig.keep_checkpoints=1',
            '--gin.objectives.Relations.rows=16',
        ],
        'build_memory': [
            'build_memory',
            '--gin_file=gin/runs/build_memory.gin',
            *flags(KB=world, MEMORY=output),
            '--gin.build_memory.build_memory.shard_rows=16',
        ],
        'infer': [
            'infer',
            '--gin_file=gin/runs/infer.gin',
            *flags(KB=world, QUESTIONS=world / 'many.jsonl', OUTPUT=output / 'answers.jsonl'),
        ],
    }[name]


def content(name, folder):
    """What a run leaves: of training the state after the last step, otherwise the digest of every file."""
    if name == 'train':
        return {name: array.tobytes() for name, array in tiny_training.state_of(folder, STEPS).items()}
    # A partial file of prepare and of build_memory may stay; neither is read.
    files = (path for path in folder.rglob('*') if path.is_file() and (name == 'infer' or not path.name.endswith('.partial')))
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize('number', STATUSES, ids=lambda number: number.name)
@pytest.mark.parametrize('name', ['prepare', 'train', 'build_memory', 'infer'])
def test_a_run_killed_at_random_moments_ends_as_one_that_was_not(binaries, world, tmp_path, name, number):
    for folder in ('first', 'whole'):  # the first one compiles
        started = time.monotonic()
        done = binaries(*command(name, world, tmp_path / folder))
        assert done.returncode == 0, done.stderr
    seconds, whole = time.monotonic() - started, content(name, tmp_path / 'whole')
    assert len(whole) > 0 and content(name, tmp_path / 'first') == whole

    rng, kills, folders = np.random.default_rng(0), 0, 0
    while kills < KILLS:
        folder, ended = tmp_path / f'killed-{folders}', False
        folders += 1
        while not ended:
            moment = rng.uniform(0.0, seconds) if kills < KILLS else None
            done = binaries(*command(name, world, folder), kill_after=moment, kill_by=number)
            assert done.returncode in STATUSES[number], done.stderr
            ended = done.returncode == 0
            kills += not ended
        assert content(name, folder) == whole, f'after {kills} kills, in {folder}'
    print(f'{name}: {kills} kills over {folders} runs of {seconds:.1f} s')
