"""Trains the objective relations and is asked to stop in the third step; run by trainer_test.py."""

import itertools
import os
import signal
import sys
import time

from opql_jax.training import objectives, trainer

import tiny_training

STEPS = 6
OPTIONS = dict(num_steps=STEPS, checkpoint_every=2, log_every=2)


def make_objective(name, memory):
    if name == 'relations':
        return objectives.Relations(rows=16)
    return objectives.Follow(
        memory_dir=str(memory), splits=('1-hop/train', '2-hop/train'), questions=16, k=8
    )


def be_asked_to_stop(number, pause=0.0):
    """Sends a SIGTERM before this step; steps take at least `pause` seconds."""
    make_train_step = trainer.make_train_step

    def make(*arguments):
        step, numbers = make_train_step(*arguments), itertools.count()

        def observed(*arguments):
            if next(numbers) == number:
                os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(pause)
            return step(*arguments)

        return observed

    trainer.make_train_step = make


def main(prepared, model, memory, workdir):
    be_asked_to_stop(2)
    objective = make_objective('relations', memory)
    tiny_training.run(prepared, workdir, objective, init_from=model, **OPTIONS)


if __name__ == '__main__':
    main(*sys.argv[1:])
