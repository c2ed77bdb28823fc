"""What the TPU compiler makes of our programs, on a machine without a TPU.

python -m pip install -e '.[tpu-aot]'
python benchmarks/tpu_compile.py search --queries 1,64 --json
python benchmarks/tpu_compile.py relations --topology v5p-16 --rows 32 --length 64

Nothing runs: a program is compiled for the chips of a topology from shapes alone: a search of the
memory in mode `approx`, a step of relation pretraining, or one of the language model in the paper's
form, over a memory. Its line has

    argument_bytes, temporary_bytes  of a chip; `fits`: both together are less than its memory
    received_bytes          what a chip receives from chips of its slice, by kind of collective
    bytes_of_other_slices   what it receives from others, as in v5e-8x2: two slices of eight chips
    largest_collective      the numbers in the largest array that is exchanged
    loops                   how many there are
    roofline_seconds        the compiler's own estimate from bytes and FLOPs; null if it has none
    limit_seconds           what no program can undercut: for a search the larger of reading the
                            memory once and its products, for a step its FLOPs at the peak
    ratio                   the roofline over the limit
    estimated_cycles        over all instructions with an estimate; bodies of loops as often as run

Beware: the compiler counts the body of a loop once, in the roofline and in `received_bytes`. A
product fused with the partial reduction of `lax.approx_max_k` has no cycle estimate, so the sum
leaves out what costs most. The roofline reads at nine tenths of the bandwidth, and a row that is
looked up as the tile of eight that it lies in: 6 of 310 us for 64 queries on v5e-8 are rows of E.
"""

import os

# A TPU that is only compiled for must not be looked for.
os.environ.update(
    JAX_PLATFORMS='cpu',
    TPU_SKIP_MDS_QUERY='1',
    TPU_WORKER_HOSTNAMES='localhost',
    TPU_ACCELERATOR_TYPE='v5litepod-8',
    ALLOW_MULTIPLE_LIBTPU_LOAD='1',  # else one process of a machine may compile
)

import functools
import importlib.util
import math
import re
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
from hlo import bytes_of_other_slices, estimated_cycles, largest_exchanged, received_bytes
from jax.experimental import topologies
from jax.sharding import NamedSharding
from steps import cloze_batch, make_encoder, make_params, make_task, relation_batch
from timing import chosen, make_parser, show

from opql_jax.memory import search
from opql_jax.memory.follow import Queries
from opql_jax.memory.sharding import ShardedMemory
from opql_jax.models.flops import TRAINING_OVER_FORWARD, encoder_flops, peak_flops
from opql_jax.parallel.collectives import QueryLayout
from opql_jax.parallel.entity_table import Layout
from opql_jax.parallel.mesh import ROWS, batch_spec, mesh_of, row_devices
from opql_jax.training import state, trainer
from opql_jax.training.objectives import Cloze, Relations
from opql_jax.training.optimizer import make_optimizer

# Of a kind of chip, from its data sheet: bytes of memory, and bytes that it reads a second.
MEMORY = {'v4': (32e9, 1228e9), 'v5e': (16e9, 819e9), 'v5p': (95e9, 2765e9)}
# Chips, as the compiler names them.
TOPOLOGIES = {
    'v5e-8': dict(topology_name='v5e:2x4', chips_per_host_bounds=(2, 4, 1)),
    'v5p-16': dict(topology_name='v5p:2x2x4'),
    'v4-64': dict(topology_name='v4:4x4x4', chip_config_name='megacore'),
    'v5e-8x2': dict(topology_name='v5e:2x4', chips_per_host_bounds=(2, 4, 1), num_slices=2),
}
MODE = 'approx'


class Program(NamedTuple):
    """A function, shapes of its arguments on a chip mesh, and what a chip must read and compute."""

    function: object
    arguments: tuple
    bytes: float
    flops: float


def array(mesh, spec, dtype, *shape):
    """The shape of an array, split over a mesh."""
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec))


# ---- Programs ----


def sharded_memory(mesh, options, passages: bool = False) -> ShardedMemory:
    """The shapes of a memory as `shard_memory` places it, with keys."""
    rows = options.entries + -options.entries % (32 * row_devices(mesh))
    by_rows, dim = functools.partial(array, mesh, ROWS), options.relation_dim
    relation = (dim,) if dim % 128 else (dim // 128, 128)
    return ShardedMemory(
        mesh,
        MODE,
        topic=by_rows(jnp.int32, rows),
        target=by_rows(jnp.int32, rows),
        relations=by_rows(jnp.float32, rows, *relation),
        passages=by_rows(jnp.int32, rows, 1) if passages else None,
        keys=by_rows(jnp.bfloat16, rows, options.entity_dim + options.relation_dim),
    )


def search_program(mesh, options, queries: int) -> Program:
    """One search of the whole memory."""
    layout = QueryLayout.of(queries, mesh)
    query = functools.partial(array, mesh, layout.spec, jnp.float32, queries)
    entities = options.entities + -options.entities % row_devices(mesh)
    arguments = (
        sharded_memory(mesh, options),
        array(mesh, ROWS, jnp.float32, entities, options.entity_dim),
        Queries(query(options.entity_dim), query(options.relation_dim)),
    )
    numbers = options.entries / row_devices(mesh) * (options.relation_dim + options.entity_dim)
    of_slice = queries * row_devices(mesh) / mesh.size if layout.shared else queries
    run = lambda *arguments: search.top_k(*arguments, options.k)
    return Program(run, arguments, 2 * numbers, 2 * of_slice * numbers)


def step_program(
    mesh, options, objective, encoder, batch, positions: int | None, products: int, memory=None
) -> Program:
    """A step of training; `positions` as of `encoder_flops`, so many `products` of a row with E."""
    layout = Layout(mesh, options.entities)
    task, optimizer = make_task(objective, encoder, layout), make_optimizer(1000)
    params = functools.partial(make_params, objective, encoder, options.entities)
    start = jax.eval_shape(lambda: state.init_state(params(), task.trainable, optimizer))

    def placed(path, x):
        spec = state.sharding_spec(path, x.shape, layout, task.trainable)
        if spec != ROWS:
            return array(mesh, spec, x.dtype, *x.shape)
        rows, *others = x.shape  # of the entity table, which is padded
        return array(mesh, spec, x.dtype, rows + -rows % row_devices(mesh), *others)

    batch = jax.tree.map(lambda x: array(mesh, batch_spec(mesh), x.dtype, *x.shape), batch)
    arguments = jax.tree.map_with_path(placed, start), batch, memory
    step = trainer.make_train_step(task, optimizer, 0, mesh, 'bfloat16')
    rows = options.rows * mesh.size
    flops = encoder_flops(encoder, (rows, options.length), positions)
    flops += 2 * products * rows * options.entities * encoder.entity_dim
    return Program(step, arguments, 0, TRAINING_OVER_FORWARD * flops / mesh.size)


def encoder_of(options, *dims: str):
    """The encoder, some of whose dimensions are options."""
    fields = {'max_length': options.length, 'dtype': 'bfloat16', **chosen(options, *dims)}
    return make_encoder(options.model, **fields)


def relations_program(mesh, options) -> Program:
    """A step of relation pretraining: L_rel, and L_el of two mentions a row over all entities."""
    encoder = encoder_of(options, 'entity_dim')
    batch = relation_batch(options.rows * mesh.size, options.length, options.entities)
    return step_program(mesh, options, Relations(), encoder, batch, positions=4, products=2)


def language_model_program(mesh, options) -> Program:
    """A step of the language model on clozes, as in gin/experiments/paper/lm_cloze.gin."""
    rows, encoder = options.rows * mesh.size, encoder_of(options, 'entity_dim', 'relation_dim')
    objective = Cloze(
        rows=rows,
        k=options.k,
        topics=16,
        mixing='embeddings',
        score_gold=False,
        entity_layer=4,
        memory_dir='memory',  # any path: it says that there is a memory
        mode=MODE,
    )
    topics = objective.topics
    batch = cloze_batch(rows, options.length, topics, options.entities, options.entries)
    # With all entities: the hidden mention and the topics in the entity memory, and the topics
    # again, each in two products (scores and their mean); the answer in one.
    products = 2 * (1 + topics) + 2 * topics + 1
    memory = sharded_memory(mesh, options, passages=True)
    return step_program(mesh, options, objective, encoder, batch, None, products, memory)


def programs(mesh, options) -> Iterator[tuple[dict, Program]]:
    """What was asked for, and what is printed with it."""
    if options.program == 'search':
        for queries in options.queries:
            yield {'queries': queries}, search_program(mesh, options, queries)
    else:
        of = {'relations': relations_program, 'lm': language_model_program}
        yield {}, of[options.program](mesh, options)


# ---- What the compiler says ----


def report(program: Program, chip: str, mesh) -> dict:
    """Compiles a program for a kind of chip, and reads off what is told of it."""
    size, bandwidth = MEMORY[chip]
    peak = peak_flops(mesh.devices.flat[0].device_kind)
    started = time.perf_counter()
    jitted = program.function if hasattr(program.function, 'lower') else jax.jit(program.function)
    compiled = jitted.lower(*program.arguments).compile()
    spent = time.perf_counter() - started
    memory, text = compiled.memory_analysis(), compiled.as_text()
    roofline = (compiled.cost_analysis() or {}).get('optimal_seconds')
    if roofline is None or not math.isfinite(roofline) or roofline <= 0:
        roofline = None
    limit = max(program.bytes / bandwidth, program.flops / peak)
    return {
        'argument_bytes': memory.argument_size_in_bytes,
        'temporary_bytes': memory.temp_size_in_bytes,
        'fits': memory.argument_size_in_bytes + memory.temp_size_in_bytes < size,
        'received_bytes': received_bytes(text, row_devices(mesh)),
        'bytes_of_other_slices': bytes_of_other_slices(text),
        'largest_collective': largest_exchanged(text),
        'loops': len(re.findall(r' while\(', text)),
        'roofline_seconds': roofline,
        'limit_seconds': limit,
        'ratio': roofline and round(roofline / limit, 2),
        'estimated_cycles': estimated_cycles(text),
        'compile_seconds': round(spent, 1),
    }


def main() -> None:
    """Prints a line for each program."""
    parser = make_parser(
        __doc__,
        queries=([1, 64, 1024], 'of a search'),
        entries=(1_600_000, 'of the memory'),
        entities=(1_000_000, 'rows of the entity table'),
        relation_dim=(256, 'numbers of a relation'),
        entity_dim=(256, 'numbers of an entity'),
        k=(32, 'entries found for a query'),
        model=('base', 'in gin/models'),
        rows=(32, 'of a chip, in a step'),
        length=(64, 'tokens of a row'),
    )
    parser.add_argument('program', choices=('search', 'relations', 'lm'))
    parser.add_argument('--topology', choices=TOPOLOGIES, default='v5e-8')
    options = parser.parse_args()
    if not importlib.util.find_spec('libtpu'):
        told = "the TPU compiler is not installed: python -m pip install -e '.[tpu-aot]'"
        print(f'skipped: {told}', file=sys.stderr)
        return
    topology = topologies.get_topology_desc(platform='tpu', **TOPOLOGIES[options.topology])
    mesh = mesh_of(topology.devices)  # as training makes it: all chips share a batch
    for what, program in programs(mesh, options):
        line = chosen(options, 'topology', 'program') | what
        show(line | report(program, options.topology.split('-')[0], mesh), options.json)


if __name__ == '__main__':
    main()
