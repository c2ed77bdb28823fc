"""Encodes the pairs of a prepared folder on several meshes; run by bulk_encoding_test.py in a
process with 8 virtual devices.

    python tests/support/encode_on_devices.py PREPARED OUTPUT

Leaves in OUTPUT (.npz) the relations by each encoder from each number of devices, and on how many
devices the batches lay.
"""

import itertools
import sys

import jax
import numpy as np

from opql_jax.models.bulk_encoding import PAIR_ENCODINGS
from opql_jax.parallel.mesh import make_mesh

import bulk_encoding_cases
from eight_devices import slices_and_devices


def main(prepared, output):
    assert jax.device_count() == 8, jax.devices()
    found = {}
    for pair_encoding, devices in itertools.product(PAIR_ENCODINGS, ('1', '4', '2x4')):
        slices, data = slices_and_devices(devices)
        mesh = make_mesh(data, slices=slices)
        encode, rows = bulk_encoding_cases.make(
            prepared, pair_encoding, lengths=(72, 136), mesh=mesh
        )
        batched, lay_on = encode.batched, set()
        apply = batched._apply

        def spied(*arguments):
            relations = apply(*arguments)
            lay_on.add(len({shard.index[0].start for shard in relations.addressable_shards}))
            return relations

        batched._apply = spied
        found[f'{pair_encoding}-relations-{devices}'] = encode(rows)
        found[f'{pair_encoding}-devices-{devices}'] = sorted(lay_on)
    np.savez(output, **found)


if __name__ == '__main__':
    main(*sys.argv[1:])
