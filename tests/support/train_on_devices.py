"""Trains stages over several numbers of devices; run by train_step_test.py in a process that has 8
virtual ones.

    python tests/support/train_on_devices.py PREPARED MODEL MEMORY OUTPUT

Leaves a workdir OUTPUT/<stage>-<devices> for each run and OUTPUT/metrics.json with the metrics of
their last steps. The run 'relations-2x4 then 3 then 1' is one that went on twice, with other
devices.
"""

import functools
import json
import pathlib
import sys

import jax
import optax

from opql_jax.training import objectives

import tiny_training
from eight_devices import slices_and_devices

# Or slices x devices of each. 3 does not divide the 40 entities, so that E is padded.
DEVICES = {
    'relations': (1, 8),
    'sampled': (1, 3),
    'passages': (1, 8),
    'follow': (1, 8),
    'whole memory': (1, '2x4'),
}
# The same batch in parts, without dropout, whose masks would be others.
SPARING = {
    '1': dict(data_devices=1),
    '4 by 4': dict(data_devices=4, accumulate_steps=4, remat='layers'),
    '2 and 2 by 3': dict(data_devices=2, model_devices=2, accumulate_steps=3),
}
STEPS = 3
# Adam would blow the rounding of a gradient that is 0 up to a whole step.
PLAIN = dict(
    optimizer=functools.partial(optax.sgd, momentum=0.9), schedule=optax.constant_schedule(0.1)
)


def main(prepared, model, memory, output):
    assert jax.device_count() == 8, jax.devices()
    choices = {
        'relations': objectives.Relations(rows=48, buckets=((48, 48),)),
        'sampled': objectives.Relations(rows=48, buckets=((48, 48),), sampled_entities=2),
        'passages': objectives.AlignPassages(passages=16, topics=8, questions=16),
        'follow': objectives.Follow(memory_dir=memory, splits=('2-hop/train',), questions=16, k=8),
        'whole memory': objectives.Follow(
            memory_dir=memory, splits=('2-hop/train',), questions=16, k=8, filter=False
        ),
    }
    metrics = {}

    def run(workdir, stage, devices, num_steps=STEPS):
        slices, devices = slices_and_devices(str(devices))
        metrics[workdir] = tiny_training.run(
            prepared,
            pathlib.Path(output, workdir),
            choices[stage],
            num_steps=num_steps,
            init_from=model,
            data_devices=devices,
            slices=slices,
            **PLAIN,
        )

    for stage in choices:
        for devices in DEVICES[stage]:
            run(f'{stage}-{devices}', stage, devices)
    without_dropout = functools.partial(tiny_training.encoder, dropout_rate=0.0)
    for name, options in SPARING.items():
        workdir = pathlib.Path(output, f'parts-{name}')
        run_of = dict(num_steps=STEPS, init_from=model, encoder=without_dropout)
        metrics[workdir.name] = tiny_training.run(
            prepared, workdir, choices['relations'], **run_of, **options, **PLAIN
        )
    for done, devices in enumerate(('2x4', 3, 1), start=1):
        run('relations-2x4 then 3 then 1', 'relations', devices, num_steps=done)
    pathlib.Path(output, 'metrics.json').write_text(json.dumps(metrics))


if __name__ == '__main__':
    main(*sys.argv[1:])
