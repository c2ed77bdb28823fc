"""Searches a memory over several meshes; run by search_test.py in a process that has 8 virtual
ones.

    python tests/support/search_on_devices.py OUTPUT

Leaves in OUTPUT (.npz) what each mesh found, and in OUTPUT.QUERIES.MESH.hlo the compiled gradient.
"""

import pathlib
import sys

import jax
import numpy as np

from opql_jax.memory import search, search_factored, search_keys
from opql_jax.memory.sharding import shard_memory
from opql_jax.parallel.mesh import make_mesh

import search_cases
from eight_devices import MESHES


def main(output):
    assert jax.device_count() == 8, jax.devices()
    search_factored._chunk_rows = search_keys._chunk_rows = lambda *_: (
        5
    )  # many chunks, the last of which overlaps the one before
    top_k = jax.jit(search.top_k, static_argnames='k')
    found = {}
    for devices, shape in MESHES.items():
        mesh = make_mesh(**shape)
        for case, mode in search_cases.ON_DEVICES:
            data = search_cases.make(case)
            memory = shard_memory(*data.columns, mesh, mode, data.passages)
            scores, ids = top_k(memory, data.table, data.queries, search_cases.K[case], data.filter)
            found[f'{case}-{mode}-{devices}-scores'] = scores
            found[f'{case}-{mode}-{devices}-ids'] = ids
        data = search_cases.recall_case(rank=search_cases.RANK)
        memory = shard_memory(*data.columns, mesh, 'approx')
        found[f'recall-{devices}'] = top_k(memory, data.table, data.queries, search_cases.RECALL_K)[
            1
        ]
        for queries in (search_cases.FEW, search_cases.MANY):
            arguments = search_cases.gradient_arguments(mesh, queries)
            compiled = search_cases.gradient().lower(*arguments).compile()
            for name, gradient in zip(search_cases.GRADIENTS, compiled(*arguments)):
                found[f'gradient-{queries}-{devices}-{name}'] = np.asarray(gradient)
            pathlib.Path(f'{output}.{queries}.{devices}.hlo').write_text(compiled.as_text())
    np.savez(output, **found)


if __name__ == '__main__':
    main(sys.argv[1])
