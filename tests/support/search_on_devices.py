"""Searches a memory over 1, 2, 4 and 8 devices; run by search_test.py in a process that has 8 virtual ones.

    python tests/support/search_on_devices.py OUTPUT

Leaves in OUTPUT (.npz) what each number of devices found, and in OUTPUT.QUERIES.hlo the compiled gradient on 8 devices.
"""

import pathlib
import sys

import jax
import numpy as np

from opql_jax.memory import search
from opql_jax.parallel.mesh import make_mesh

import search_cases

MESHES = {1: (1, 1), 2: (1, 2), 4: (4, 1), 8: (4, 2)}


def main(output):
    assert jax.device_count() == 8, jax.devices()
    found = {}
    for devices, shape in MESHES.items():
        mesh = make_mesh(*shape)
        for case in search_cases.CASES:
            data = search_cases.make(case)
            for mode in search.MODES:
                memory = search.shard_memory(data.topic, data.target, data.relations, mesh, data.alive, mode, data.passages)
                run = jax.jit(
                    lambda qe, qr, memory, table, **masks: search.topk(
                        qe, qr, memory, table, mesh, search_cases.K[case], 5, mode, **masks
                    )
                )
                masks = dict(member=data.member, exclude=data.exclude, passage=data.passage)
                scores, ids = run(data.query_e, data.query_r, memory, data.table, **masks)
                found[f'{case}-{mode}-{devices}-scores'], found[f'{case}-{mode}-{devices}-ids'] = scores, ids
        data = search_cases.recall_case()
        memory = search.shard_memory(data.topic, data.target, data.relations, mesh, mode='int8')
        for mode in ('approx', 'int8'):
            run = jax.jit(
                lambda qe, qr, memory, table: search.topk(qe, qr, memory, table, mesh, search_cases.RECALL_K, mode=mode)
            )
            found[f'recall-{mode}-{devices}'] = run(data.query_e, data.query_r, memory, data.table)[1]
        for queries in (search_cases.FEW, search_cases.MANY):
            arguments = search_cases.gradient_arguments(mesh, queries)
            compiled = search_cases.gradient(mesh).lower(*arguments).compile()
            for name, gradient in zip(search_cases.GRADIENTS, compiled(*arguments)):
                rows = search_cases.ROWS if name == 'relations' else None
                found[f'gradient-{queries}-{devices}-{name}'] = np.asarray(gradient)[:rows]
            pathlib.Path(f'{output}.{queries}.hlo').write_text(compiled.as_text())
    np.savez(output, **found)


if __name__ == '__main__':
    main(sys.argv[1])
