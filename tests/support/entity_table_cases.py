"""Mentions and tables for entity_table_test.py; run in a process with 8 virtual devices, leaves in
OUTPUT (.npz) what each mesh computed, and in OUTPUT.MESH.hlo the compiled train step.
"""

import collections
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np

from opql_jax.parallel import entity_table
from opql_jax.parallel.mesh import make_mesh, row_devices, shard_batch
from opql_jax.training import state, trainer
from opql_jax.training.objectives import Task
from opql_jax.training.optimizer import make_optimizer

import eight_devices

# On 8 devices 13 rows each: M * DIM is then the most that anything may have, less than M * 13 or
# any array with all rows.
M, DIM, CHUNK, SAMPLED = 32, 7, 5, 20
# 101 rows divide by no number of devices; of 9, three of 8 devices get none; 'ties' are between
# scores in whole numbers. The mentions of 'odd' cannot be shared by slices.
NUM_ENTITIES = {'uneven': 101, 'few': 9, 'ties': 101, 'odd': 101}
CASES = tuple(NUM_ENTITIES)
PARTS = ('loss', 'correct', 'vectors', 'table')
COMPILED = ('8', '2x4')
# What is computed of which on several devices; 'far' is made of 'uneven', which trains and is
# sampled and looked up, too.
COMPUTED = {'full': ('few', 'ties'), 'attended': ('odd',), 'best': ('few', 'ties')}


Case = collections.namedtuple('Case', 'vectors labels table weights')


def make(name):
    """A case by name: mentions, labels, some of them missing, E, and weights of the losses."""
    rng, n = np.random.default_rng(CASES.index(name)), NUM_ENTITIES[name]
    draw = lambda *shape: rng.normal(size=shape).astype(np.float32)
    if name == 'ties':
        draw = lambda *shape: rng.integers(-1, 2, shape).astype(np.float32)
    vectors, table = draw(M, DIM), draw(n, DIM)
    labels = rng.integers(0, n, M).astype(np.int32)
    labels[:12] = (vectors @ table.T).argmax(axis=1)[:12]  # else hardly one would be right
    labels[9:15] = -1
    case = Case(vectors, labels, table, rng.random(M).astype(np.float32))
    if name == 'odd':
        case = case._replace(vectors=vectors[1:], labels=labels[1:], weights=case.weights[1:])
    return case


def far():
    """A case whose first mentions have scores too far from those of a few rows."""
    case = make('uneven')
    return case._replace(
        vectors=case.vectors
        * np.where(np.arange(M) < M // 2, np.float32(40), np.float32(1))[:, None]
    )


def placed(case, layout):
    padding = (0, -layout.num_entities % row_devices(layout.mesh)), (0, 0)
    return entity_table.place(np.pad(case.table, padding, constant_values=50.0), layout)


def with_gradients(loss_of, case, layout):
    """(loss [M], correct [M], gradients of the weighted loss) of `loss_of(vectors, table)`."""

    def weighted(vectors, table):
        loss, correct = loss_of(vectors, table)
        return (loss * case.weights).sum(), (loss, correct)

    run = jax.value_and_grad(weighted, argnums=(0, 1), has_aux=True)
    (_, found), gradients = jax.jit(run)(case.vectors, placed(case, layout))
    return *map(np.asarray, found), *map(np.asarray, gradients)


def full(case, layout, chunk=CHUNK):
    loss_of = lambda vectors, table: entity_table.softmax_cross_entropy(
        vectors, case.labels, table, layout, chunk
    )
    return with_gradients(loss_of, case, layout)


def attended(case, layout, chunk=CHUNK):
    def loss_of(vectors, table):
        found = entity_table.attend(vectors, table, layout, chunk)
        return entity_table.attended_cross_entropy(found, case.labels, table, layout)

    return with_gradients(loss_of, case, layout)


def sampled(case, layout, num_sampled=SAMPLED, seed=0):
    key = jax.random.key(seed)
    loss_of = lambda vectors, table: entity_table.sampled_softmax_cross_entropy(
        vectors, case.labels, table, layout, num_sampled, key
    )
    return with_gradients(loss_of, case, layout)


def best(case, layout):
    return jax.jit(lambda table: entity_table.best(case.vectors, table, layout, 5, chunk=3))(
        placed(case, layout)
    )


def compiled_step(layout) -> str:
    case, trainable = make('uneven'), lambda name: True

    def loss(params, batch, memory, rng):
        vectors = batch['vectors'] @ params['encoder']['kernel']
        found = entity_table.softmax_cross_entropy(
            vectors, batch['labels'], params['entity_table'], layout, CHUNK
        )
        return found[0].mean(), {'accuracy': found[1].mean()}

    optimizer, place = make_optimizer(10), lambda tree: state.place(tree, layout, trainable)
    params = {'encoder': {'kernel': np.eye(DIM, dtype=np.float32)}, 'entity_table': case.table}
    start = place(state.init_state(place(params), trainable, optimizer))
    batch = {'vectors': jnp.asarray(case.vectors), 'labels': jnp.asarray(case.labels)}
    task = Task(source=None, loss=loss, trainable=trainable, lineage={})
    step = trainer.make_train_step(task, optimizer, seed=0)
    return step.lower(start, shard_batch(batch, layout.mesh), None).compile().as_text()


def main(output):
    assert jax.device_count() == 8, jax.devices()
    found = {}
    for devices, shape in eight_devices.MESHES.items():
        mesh = make_mesh(**shape)

        def note(name, values, parts=PARTS, devices=devices):
            found.update((f'{name}-{devices}-{part}', value) for part, value in zip(parts, values))

        layout_of = lambda case, mesh=mesh: entity_table.Layout(mesh, len(case.table))
        for way, of in {'full': full, 'attended': attended, 'best': best}.items():
            for name in COMPUTED[way]:
                case, parts = make(name), ('log_probs', 'ids') if way == 'best' else PARTS
                note(f'{way}-{name}', of(case, layout_of(case)), parts)
        case = make('uneven')
        layout = layout_of(case)
        note('sampled', sampled(case, layout))
        note('far', full(far(), layout))
        lookup = jax.jit(lambda t: entity_table.lookup(t, case.labels, layout))
        found[f'lookup-{devices}'] = lookup(placed(case, layout))
        if devices in COMPILED:
            pathlib.Path(f'{output}.{devices}.hlo').write_text(compiled_step(layout))
    np.savez(output, **found)


if __name__ == '__main__':
    main(sys.argv[1])
