"""Trains stages, or builds a memory, in one of several processes that work as one, or in one alone;
run by several_processes_test.py.

The stage 'slices' is relations on two slices of devices, 'stopped' is relations with many steps, in
the third of which the last process gets a SIGTERM. 'memory' is none: it builds OUTPUT/memory, of
many shards. Nor is 'eval', which scores the checkpoints of the folder `follower` beside MODEL.

Leaves a workdir OUTPUT/<stage> for each and, of the first process, OUTPUT/metrics.json with the
metrics of their last steps.
"""

import json
import os
import pathlib
import sys

import jax

from opql_jax.core import distributed
from opql_jax.evaluation import predictions
from opql_jax.kb.trained.question_sets import evaluate
from opql_jax.memory import build as build_lib
from opql_jax.training import objectives

import tiny_training
from tiny_training import PLAIN
from train_until_stopped import be_asked_to_stop

STEPS, MANY = 3, 300
SHARD_ROWS = 20


def main(prepared, model, memory, output, *names):
    if 'OPQL_PROCESSES' in os.environ:
        distributed.initialize()
    relations = lambda: objectives.Relations(rows=16)
    splits = ('1-hop/train', '2-hop/train')
    choices = dict.fromkeys(('relations', 'slices', 'stopped'), relations)
    choices['follow'] = lambda: objectives.Follow(
        memory_dir=memory, splits=splits, questions=8, k=8
    )
    metrics, parts = {}, dict(text=prepared, memory=memory)
    for name in names:
        if name == 'memory':
            encode, shards = build_lib._encode, []
            build_lib._encode = lambda *given: shards.append(0) or encode(*given)
            memory_dir = pathlib.Path(output, name)
            tiny_training.write_memory(prepared, model, memory_dir, shard_rows=SHARD_ROWS)
            encoded = pathlib.Path(output, f'encoded-{name}-{jax.process_index()}')
            encoded.write_text(str(len(shards)))
            continue
        if name == 'eval':
            predictions.CHUNK = 4
            asked = dict(model='follower', questions=('1-hop/train', '2-hop/train'))
            to = str(pathlib.Path(output, name))
            evaluate(kb=str(pathlib.Path(model).parent), **parts, **asked, output_dir=to)
            continue
        workdir, steps, objective = pathlib.Path(output, name), STEPS, choices[name]()
        if name == 'stopped':
            steps = MANY
            if jax.process_index() == jax.process_count() - 1:
                be_asked_to_stop(2, pause=0.1)
        options = PLAIN | dict(num_steps=steps, checkpoint_every=2 * steps // 3)
        options['slices'] = 2 if name == 'slices' else None
        metrics[name] = tiny_training.run(prepared, workdir, objective, init_from=model, **options)
    if distributed.is_primary():
        pathlib.Path(output, 'metrics.json').write_text(json.dumps(metrics))


if __name__ == '__main__':
    main(*sys.argv[1:])
