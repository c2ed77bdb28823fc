"""The entity table over several meshes; run by entity_table_test.py in a process that has 8 virtual
ones.

    python tests/support/entity_table_on_devices.py OUTPUT

Leaves in OUTPUT (.npz) what each mesh computed, and in OUTPUT.MESH.hlo the compiled train step.
"""

import pathlib
import sys

import jax
import numpy as np

from opql_jax.parallel import entity_table
from opql_jax.parallel.mesh import make_mesh, shard_batch

import entity_table_cases as cases
from eight_devices import MESHES, row_devices

STEPS = 3


def main(output):
    assert jax.device_count() == 8, jax.devices()
    found = {}
    for devices, shape in MESHES.items():
        mesh = make_mesh(**shape)
        ways = {
            'full': (cases.full, ('loss', 'correct', 'vectors', 'table')),
            'attended': (cases.attended, ('loss', 'correct', 'vectors', 'table')),
            'best': (cases.best, ('log_probs', 'ids')),
        }
        for way, (of, parts) in ways.items():
            for name in cases.COMPUTED[way]:
                case = cases.make(name)
                for part, value in zip(parts, of(case, entity_table.Layout(mesh, len(case.table)))):
                    found[f'{way}-{name}-{devices}-{part}'] = value
        case = cases.make('uneven')
        layout = entity_table.Layout(mesh, len(case.table))
        for part, value in zip(
            ('loss', 'correct', 'vectors', 'table'), cases.sampled(case, layout)
        ):
            found[f'sampled-{devices}-{part}'] = value
        for part, value in zip(
            ('loss', 'correct', 'vectors', 'table'), cases.full(cases.far(), layout)
        ):
            found[f'far-{devices}-{part}'] = value
        found[f'lookup-{devices}'] = jax.jit(lambda t: entity_table.lookup(t, case.labels, layout))(
            cases.placed(case, layout)
        )

        training = cases.Training(layout)
        state, batch = training.state, shard_batch(training.batch, mesh)
        compiled = training.step.lower(state, batch, None).compile()
        for _ in range(STEPS):
            state, _ = compiled(state, batch, None)
        for path, leaf in jax.tree.leaves_with_path(state):
            of_table = 'entity_table' in jax.tree_util.keystr(path)
            rows = {shard.data.shape[0] for shard in leaf.addressable_shards} if of_table else None
            assert (
                rows == {len(leaf) // row_devices(devices)}
                if of_table
                else leaf.is_fully_replicated
            ), (path, leaf.sharding)
            found[f'trained-{devices}-{jax.tree_util.keystr(path)}'] = (
                leaf[: layout.num_entities] if of_table else leaf
            )
        pathlib.Path(f'{output}.{devices}.hlo').write_text(compiled.as_text())
    np.savez(output, **found)


if __name__ == '__main__':
    main(sys.argv[1])
