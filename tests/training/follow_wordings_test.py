"""A follower that learns from other wordings: they are a part of what a run is, by what is in their
file and not by where it lies.
"""

import pytest

from opql_jax.training import objectives
from opql_jax.training.checkpoints import Checkpoints
from opql_jax.training.objectives.follow import Follow
from opql_jax.training.progress import TrainingError

import tiny_prepared
import tiny_training

SPLIT = '2-hop/train'
TYPES = ('P1 > P2', 'P2 > P1')


@pytest.fixture(scope='module')
def world(tmp_path_factory):
    """A folder of `prepared`, `model` (random relations) and its `memory`."""
    root = tmp_path_factory.mktemp('world')
    tiny_prepared.set_types(tiny_training.write_prepared(root / 'prepared'), SPLIT, TYPES)
    tiny_training.write_untrained(root / 'prepared', root / 'model')
    tiny_training.write_memory(root / 'prepared', root / 'model', root / 'memory')
    return root


def write(path, text='never [X] again'):
    path.write_text(''.join(f'{kind}\t{text}\n' for kind in TYPES), encoding='utf-8')
    return str(path)


def train(world, workdir, wordings, steps=2):
    objective = Follow(
        memory_dir=str(world / 'memory'), splits=(SPLIT,), questions=8, k=8, wordings=wordings
    )
    tiny_training.run(
        world / 'prepared', workdir, objective, num_steps=steps, init_from=str(world / 'model')
    )


def test_a_run_resumes_with_the_same_wordings_wherever_they_lie_and_with_no_others(world, tmp_path):
    wordings = write(tmp_path / 'a.tsv')
    train(world, tmp_path / 'run', wordings)
    train(world, tmp_path / 'run', write(tmp_path / 'b.tsv'), steps=3)
    for other in (write(tmp_path / 'c.tsv', 'ever [X]'), ''):
        with pytest.raises(
            TrainingError, match='cannot be resumed as another run .*wordings_hash was '
        ):
            train(world, tmp_path / 'run', other, steps=4)
    with Checkpoints(tmp_path / 'run', read_only=True) as checkpoints:
        lineage = checkpoints.meta()['lineage']
    assert str(tmp_path) not in repr(lineage)
    assert objectives.ANSWERING['Follow'].from_lineage(lineage).wordings == ''
