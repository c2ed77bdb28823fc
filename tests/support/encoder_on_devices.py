"""What 8 devices exchange to encode rows of 16 tokens in bfloat16; run by encoder_test.py in a
process that has 8 virtual ones.

Writes JSON to a file: for each number of rows, whole and in parts, the collectives of the compiled
program.
"""

import json
import pathlib
import re
import sys

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

import tiny_encoder

ENCODER = tiny_encoder.make(dtype='bfloat16')
COLLECTIVES = r'\b(all-gather|all-to-all|all-reduce|collective-permute|reduce-scatter)\('


def collectives(rows: int, parts: int = 1) -> list[str]:
    encoder = ENCODER.clone(accumulate_steps=parts)
    mesh = jax.make_mesh((8,), ('data',), axis_types=(jax.sharding.AxisType.Auto,))
    split, whole = NamedSharding(mesh, PartitionSpec('data')), NamedSharding(mesh, PartitionSpec())
    one = jnp.zeros(1, int)
    shapes = jax.eval_shape(ENCODER.init, jax.random.key(0), jnp.ones((1, 8), int), one, one)[
        'params'
    ]
    params = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=whole), shapes)
    tokens = jax.ShapeDtypeStruct((rows, 16), 'int32', sharding=split)
    hidden = lambda params, tokens: encoder.apply(
        {'params': params}, tokens, deterministic=parts == 1, method=encoder.hidden
    )
    read = jax.jit(hidden, out_shardings=split)
    return sorted(set(re.findall(COLLECTIVES, read.lower(params, tokens).compile().as_text())))


if __name__ == '__main__':
    assert jax.device_count() == 8
    found = {f'{rows} rows': collectives(rows) for rows in (8, 16, 24, 40, 64)}
    found |= {
        f'{rows} rows in {parts} parts': collectives(rows, parts)
        for rows, parts in ((16, 2), (64, 4))
    }
    pathlib.Path(sys.argv[1]).write_text(json.dumps(found))
