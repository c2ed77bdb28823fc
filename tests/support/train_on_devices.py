"""Trains stages over several numbers of devices, in a process that has 8 virtual ones; leaves a
workdir OUTPUT/<stage>-<devices> for each run and OUTPUT/metrics.json with their last metrics.
"""

import functools
import json
import pathlib
import sys

import jax

from opql_jax.training import objectives

import tiny_training
from eight_devices import slices_and_devices
from tiny_training import PLAIN

STEPS = 3


def on(devices) -> dict:
    """The settings for a number of devices, or slices x devices of each."""
    slices, each = slices_and_devices(str(devices))
    return dict(data_devices=each, slices=slices)


# 3 does not divide the 40 entities, so that E is padded.
MOST = {'relations': 8, 'sampled': 3, 'passages': 8, 'follow': 8, 'whole memory': '2x4'}
DEVICES = {stage: {number: on(number) for number in (1, most)} for stage, most in MOST.items()}
# The same batch in parts, without dropout, whose masks would be others.
DEVICES['parts'] = {
    '1': dict(data_devices=1),
    '4 by 4': dict(data_devices=4, accumulate_steps=4, remat='layers'),
    '2 and 2 by 3': dict(data_devices=2, model_devices=2, accumulate_steps=3),
}


def main(prepared, model, memory, output, *stages):
    assert jax.device_count() == 8, jax.devices()
    relations = functools.partial(objectives.Relations, rows=48, buckets=((48, 48),))
    files = dict(memory_dir=memory, splits=('2-hop/train',))
    follow = functools.partial(objectives.Follow, **files, questions=16, k=8)
    choices = {
        'relations': relations(),
        'sampled': relations(sampled_entities=2),
        'passages': objectives.AlignPassages(passages=16, topics=8, questions=16),
        'follow': follow(),
        'whole memory': follow(filter=False),
        'parts': relations(),
    }
    metrics = {}

    def run(name, stage, num_steps=STEPS, **options):
        if stage == 'parts':
            options['encoder'] = functools.partial(tiny_training.encoder, dropout_rate=0.0)
        given = dict(num_steps=num_steps, init_from=model, **PLAIN, **options)
        workdir = pathlib.Path(output, name)
        metrics[name] = tiny_training.run(prepared, workdir, choices[stage], **given)

    for stage in stages:
        for devices, options in DEVICES[stage].items():
            run(f'{stage}-{devices}', stage, **options)
    if 'relations' in stages:
        for done, devices in enumerate(('2x4', 3, 1), start=1):
            run('relations-2x4 then 3 then 1', 'relations', done, **on(devices))
    pathlib.Path(output, 'metrics.json').write_text(json.dumps(metrics))


if __name__ == '__main__':
    main(*sys.argv[1:])
