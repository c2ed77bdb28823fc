"""Trains an objective and dies, or is asked to stop, at a chosen moment; run by trainer_test.py.

    python tests/support/train_until_killed.py MOMENT OBJECTIVE PREPARED MODEL MEMORY WORKDIR

MOMENT is `hash` (SIGKILL while the second checkpoint is hashed in the background) or `stop`
(SIGTERM in the third step).
"""

import itertools
import os
import signal
import sys
import time

from opql_jax.training import array_digests, objectives, trainer

import tiny_training

STEPS = 6
OPTIONS = dict(num_steps=STEPS, checkpoint_every=2, log_every=2)


def make_objective(name, memory):
    if name == 'relations':
        return objectives.Relations(rows=16)
    return objectives.Follow(
        memory_dir=str(memory), splits=('1-hop/train', '2-hop/train'), questions=16, k=8
    )


def before_each_step(action):
    """Calls `action(number)` before the step with each number (from 0)."""
    make_train_step = trainer.make_train_step

    def make(*arguments):
        step, numbers = make_train_step(*arguments), itertools.count()

        def observed(*arguments):
            action(next(numbers))
            return step(*arguments)

        return observed

    trainer.make_train_step = make


def be_asked_to_stop(number, pause=0.0):
    """Sends a SIGTERM before this step; steps take at least `pause` seconds."""

    def stop(step):
        if step == number:
            os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(pause)

    before_each_step(stop)


def die_in_background(number):
    """Makes the process die while the arrays of checkpoint `number` (from 0) are hashed."""
    hashed, original = [], array_digests._write

    async def write(*arguments):
        hashed.append(0)
        if len(hashed) > number:
            os.kill(os.getpid(), signal.SIGKILL)
        await original(*arguments)

    array_digests._write = write


def main(moment, name, prepared, model, memory, workdir):
    if moment == 'stop':
        be_asked_to_stop(2)
    else:
        die_in_background(1)
    tiny_training.run(prepared, workdir, make_objective(name, memory), init_from=model, **OPTIONS)


if __name__ == '__main__':
    main(*sys.argv[1:])
