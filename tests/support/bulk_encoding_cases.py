"""Encoders of pairs over a prepared folder, and what several devices make of them.

    python tests/support/bulk_encoding_cases.py PREPARED OUTPUT

Run in a process with 8 virtual devices; leaves in OUTPUT (.npz) the relations by each encoder and
mesh, and on how many devices the batches lay.
"""

import itertools
import sys
from unittest import mock

import jax
import numpy as np

from opql_jax.data.prepared import Prepared
from opql_jax.models import bulk_encoding
from opql_jax.parallel.mesh import make_mesh
from opql_jax.training.state import init_params

import tiny_training
from eight_devices import slices_and_devices

SAMPLE = 331  # rows; a prime, so that no batch size divides it


def make(prepared, pair_encoding='marked_pair', **constants):
    """(An encoder of rows with a small random model, in small batches, the sampled row ids)."""
    prepared = Prepared(prepared)
    module, params = model(prepared)
    with mock.patch.multiple(bulk_encoding, **{'CPU_TOKENS': 480} | constants):
        encode = bulk_encoding.pair_encoder(pair_encoding, module, params, prepared)
    rows = np.random.default_rng(0).permutation(len(prepared.pairs['topic']))[:SAMPLE]
    return encode, rows


def model(prepared):
    module = tiny_training.encoder(vocab_size=prepared.tokenizer.get_vocab_size())
    params = init_params(module, 1, seed=0)['encoder']
    # So large that attention, and with it the padding mask, matters.
    return module, jax.tree.map(lambda x: x * 5 if x.ndim > 1 else x, params)


def main(prepared, output):
    assert jax.device_count() == 8, jax.devices()
    found = {}
    for pair_encoding, devices in itertools.product(
        bulk_encoding.PAIR_ENCODINGS, ('1', '4', '2x4')
    ):
        slices, data = slices_and_devices(devices)
        mesh = make_mesh(data, slices=slices)
        of_mesh = {'LENGTHS': (72, 136), 'make_mesh': lambda local, mesh=mesh: mesh}
        encode, rows = make(prepared, pair_encoding, **of_mesh)
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
