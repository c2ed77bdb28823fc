"""Encodes the pairs of a prepared folder on 1, 2, 4 and 8 devices; run by pair_encoding_test.py in a process with 8 virtual ones.

    python tests/support/encode_on_devices.py PREPARED OUTPUT

Leaves in OUTPUT (.npz) the relations by each encoder from each number of devices, and on how many devices the batches lay.
"""

import itertools
import sys

import jax
import numpy as np

from opql_jax.models.pair_encoding import ENTRIES
from opql_jax.parallel.mesh import make_mesh

import pair_encoding_cases


def main(prepared, output):
    assert jax.device_count() == 8, jax.devices()
    found = {}
    for entry, devices in itertools.product(ENTRIES, (1, 2, 4, 8)):
        encode, rows = pair_encoding_cases.make(prepared, entry, bucket_lengths=(72, 136), mesh=make_mesh(devices))
        batches, lay_on = encode._encode, set()
        apply = batches._apply

        def spied(*arguments):
            relations = apply(*arguments)
            lay_on.add(len({shard.index[0].start for shard in relations.addressable_shards}))
            return relations

        batches._apply = spied
        found[f'{entry}-relations-{devices}'] = encode(rows)
        found[f'{entry}-devices-{devices}'] = sorted(lay_on)
    np.savez(output, **found)


if __name__ == '__main__':
    main(*sys.argv[1:])
