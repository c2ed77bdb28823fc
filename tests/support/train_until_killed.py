"""Trains a stage and waits, or dies, at a chosen moment; run by training_run_test.py.

    python tests/support/train_until_killed.py MOMENT STAGE PREPARED MODEL MEMORY WORKDIR

MOMENT is `step` (prints `ready` after five of six steps and waits to be killed), `save` (SIGKILL when the arrays of the
second checkpoint are written but the checkpoint is not finished) or `stop` (SIGTERM in the third step).
"""

import os
import signal
import sys
import time

import orbax.checkpoint as ocp

from opql_jax.training import stages

import tiny_training

STEPS = 6
OPTIONS = dict(num_steps=STEPS, checkpoint_every=2, log_every=2)


def make_stage(name, memory):
    if name == 'relations':
        return stages.RelationStage(rows=16)
    return stages.FollowStage(memory_dir=str(memory), splits=('1-hop/train', '2-hop/train'), questions=16, k=8)


def wait_in_step(stage, number):
    """Makes the step with this number wait for ever."""
    taken, original = [], stage.static

    def static(batch):
        taken.append(batch)
        if len(taken) > number:
            print('ready', flush=True)
            time.sleep(600)
        return original(batch)

    object.__setattr__(stage, 'static', static)


def be_asked_to_stop(stage, number, pause=0.0):
    """Sends the process a SIGTERM before the step with this number; each step takes at least `pause` seconds."""
    taken, original = [], stage.static

    def static(batch):
        if len(taken) == number:
            os.kill(os.getpid(), signal.SIGTERM)
        taken.append(batch)
        time.sleep(pause)
        return original(batch)

    object.__setattr__(stage, 'static', static)


def die_in_save(number):
    """Makes the process die when checkpoint `number` (from 0) has all its arrays and no place yet."""
    saved, original = [], ocp.JsonCheckpointHandler.finalize

    def finalize(handler, directory):
        saved.append(directory)
        if len(saved) > number:
            os.kill(os.getpid(), signal.SIGKILL)
        original(handler, directory)

    ocp.JsonCheckpointHandler.finalize = finalize


def main(moment, name, prepared, model, memory, workdir):
    stage = make_stage(name, memory)
    if moment == 'step':
        wait_in_step(stage, 5)
    elif moment == 'stop':
        be_asked_to_stop(stage, 2)
    else:
        die_in_save(1)
    tiny_training.run(prepared, workdir, stage, init_from=model, **OPTIONS)


if __name__ == '__main__':
    main(*sys.argv[1:])
