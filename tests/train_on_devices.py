"""Trains two stages over 1, 2, 4 and 8 devices; run by train_step_test.py in a process that has 8 virtual ones.

    python tests/train_on_devices.py PREPARED MODEL MEMORY OUTPUT

Leaves a workdir OUTPUT/<stage>-<devices> for each run and OUTPUT/metrics.json with the metrics of their last steps.
"""

import json
import pathlib
import sys

import jax
import optax

import tiny_training
from opql_jax.training import stages, step

DEVICES = (1, 2, 4, 8)
STEPS = 3


def main(prepared, model, memory, output):
    assert jax.device_count() == max(DEVICES), jax.devices()
    # Adam would blow the rounding of a gradient that is 0 up to a whole step.
    step.make_optimizer = lambda *_: optax.sgd(0.1, momentum=0.9)
    metrics = {}
    for name, stage in {
        'relations': stages.RelationStage(rows=32),
        'follow': stages.FollowStage(memory_dir=memory, splits=('2-hop/train',), questions=16, k=8),
    }.items():
        for devices in DEVICES:
            metrics[f'{name}-{devices}'] = tiny_training.run(
                prepared,
                pathlib.Path(output, f'{name}-{devices}'),
                stage,
                num_steps=STEPS,
                init_from=model,
                data_devices=devices,
            )
    pathlib.Path(output, 'metrics.json').write_text(json.dumps(metrics))


if __name__ == '__main__':
    main(*sys.argv[1:])
