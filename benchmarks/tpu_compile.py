"""What the TPU compiler makes of our programs, on a machine without a TPU.

python -m pip install -e '.[tpu-aot]'
python benchmarks/tpu_compile.py --topologies v5e-8,v4-64 --programs search,follow --json

Nothing runs: a program is compiled for the chips of a topology from shapes alone. Its line has

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
leaves out what costs most. Of a search the roofline says little: for 64 queries on v5e-8 it is
486 us over 1 M entities and 833 over half as many, while the cycles stay 83,153, 55 us beside a
product whose limit is 250.
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
import itertools
import math
import re
import sys
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import lm_step
import numpy as np
from hlo import bytes_of_other_slices, estimated_cycles, largest_exchanged, received_bytes
from jax.experimental import topologies
from jax.sharding import NamedSharding, PartitionSpec
from timing import Size, chosen, list_of, make_parser, show
from train_step import VOCABULARY, make_encoder, make_task, random_batch

from opql_jax.memory import search
from opql_jax.memory.follow import MemoryArrays, Queries
from opql_jax.memory.sharding import ShardedMemory
from opql_jax.models.encoder import init_params
from opql_jax.models.flops import TRAINING_OVER_FORWARD, encoder_flops
from opql_jax.models.follower import Follower
from opql_jax.parallel.collectives import QueryLayout
from opql_jax.parallel.entity_table import Layout
from opql_jax.parallel.mesh import ROWS, batch_spec, mesh_of, row_devices
from opql_jax.training import state, trainer
from opql_jax.training.objectives import Cloze, Relations
from opql_jax.training.optimizer import make_optimizer

WHOLE = PartitionSpec()


class Chip(NamedTuple):
    """A kind of chip, from its data sheet: bfloat16 FLOP/s, bytes of memory, bytes a second."""

    flops: float
    memory: float
    bandwidth: float


CHIPS = {
    'v4': Chip(275e12, 32e9, 1228e9),
    'v5e': Chip(197e12, 16e9, 819e9),
    'v5p': Chip(459e12, 95e9, 2765e9),
    'v6e': Chip(918e12, 32e9, 1640e9),
}
# Chips, as the compiler names them.
TOPOLOGIES = {
    'v5e-8': dict(topology_name='v5e:2x4', chips_per_host_bounds=(2, 4, 1)),
    'v6e-8': dict(topology_name='v6e:2x4', chips_per_host_bounds=(2, 4, 1)),
    'v5p-16': dict(topology_name='v5p:2x2x4'),
    'v5p-64': dict(topology_name='v5p:4x4x4'),
    'v4-64': dict(topology_name='v4:4x4x4', chip_config_name='megacore'),
    'v5e-8x2': dict(topology_name='v5e:2x4', chips_per_host_bounds=(2, 4, 1), num_slices=2),
}


class Program(NamedTuple):
    """What is compiled: a function, the shapes of its arguments on a chip mesh, and a lower bound.

    Attributes:
        bytes: that a chip must read.
        flops: of a chip.
    """

    function: object
    arguments: tuple
    bytes: float
    flops: float


def topology_mesh(name: str):
    """The mesh that training makes (all chips share a batch), of chips that need not be there."""
    return mesh_of(topologies.get_topology_desc(platform='tpu', **TOPOLOGIES[name]).devices)


def shaped(mesh, spec, tree):
    """The shapes of arrays, or of what has a shape and a type, split over a mesh."""
    return jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=NamedSharding(mesh, spec)), tree
    )


def array(mesh, spec, dtype, *shape):
    """The shape of one array, split over a mesh."""
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec))


# ---- Programs ----


def sharded_memory(mesh, options, mode: str, passages: bool = False) -> ShardedMemory:
    """The shapes of a memory as `shard_memory` places it, with keys."""
    rows = options.entries + -options.entries % (32 * row_devices(mesh))
    by_rows, dim = functools.partial(array, mesh, ROWS), options.relation_dim
    relation = (dim,) if dim % 128 else (dim // 128, 128)
    return ShardedMemory(
        mesh,
        mode,
        topic=by_rows(jnp.int32, rows),
        target=by_rows(jnp.int32, rows),
        relations=by_rows(jnp.float32, rows, *relation),
        passages=by_rows(jnp.int32, rows, 1) if passages else None,
        keys=by_rows(
            jnp.bfloat16 if mode == 'approx' else jnp.float32,
            rows,
            options.entity_dim + options.relation_dim,
        ),
    )


def search_program(mesh, options, queries: int, mode: str) -> Program:
    """One search of the whole memory."""
    layout = QueryLayout.of(queries, mesh)
    query = functools.partial(array, mesh, layout.spec, jnp.float32, queries)
    entities = options.entities + -options.entities % row_devices(mesh)
    arguments = (
        sharded_memory(mesh, options, mode),
        array(mesh, ROWS, jnp.float32, entities, options.entity_dim),
        Queries(query(options.entity_dim), query(options.relation_dim)),
    )
    numbers = options.entries / row_devices(mesh) * (options.relation_dim + options.entity_dim)
    of_slice = queries * row_devices(mesh) / mesh.size if layout.shared else queries
    run = lambda *arguments: search.top_k(*arguments, options.k)
    return Program(run, arguments, 2 * numbers, 2 * of_slice * numbers)


def follow_program(mesh, options, queries: int) -> Program:
    """Two hops from known topics, over a memory that every chip holds whole."""
    whole = functools.partial(array, mesh, WHOLE)
    memory = MemoryArrays(
        topic=whole(jnp.int32, options.entries),
        target=whole(jnp.int32, options.entries),
        relations=whole(jnp.float16, options.entries, options.relation_dim),
        offsets=whole(jnp.int32, options.entities + 1),
    )
    follower = Follower(
        relation_dim=options.relation_dim, entity_dim=options.entity_dim, max_hops=2
    )
    spec = QueryLayout.of(queries, mesh).spec
    relation = array(mesh, spec, jnp.float32, queries, options.relation_dim)
    topics = array(mesh, spec, jnp.int32, queries)

    def follow(relation, topics, memory, table):
        params = follower.init(jax.random.key(0), relation, relation, 0, method=follower.query)
        return follower.apply(
            params, relation, topics, hops=2, memory=memory, entity_table=table, k=options.k
        )

    table = whole(jnp.float32, options.entities, options.entity_dim)
    # The entries of an average topic, of which the first hop has one and the second k.
    rows = queries / mesh.size * (1 + options.k) * options.entries / options.entities
    work = 2 * rows * options.relation_dim  # bytes of float16, and FLOPs
    return Program(follow, (relation, topics, memory, table), work, work)


def step_program(mesh, options, objective, loss, params, batch, flops, memory=None) -> Program:
    """A step of training: forward, backward, clipping and AdamW."""
    task = make_task(objective, loss)
    optimizer = make_optimizer(1000)
    start = jax.eval_shape(lambda: state.init_state(params(), task.trainable, optimizer))

    def placed(path, x):
        spec = state.sharding_spec(path, x.shape, Layout(mesh, options.entities), task.trainable)
        if spec != ROWS:
            return array(mesh, spec, x.dtype, *x.shape)
        rows, *others = x.shape  # of the entity table, which is padded
        return array(mesh, spec, x.dtype, rows + -rows % row_devices(mesh), *others)

    batch = shaped(mesh, batch_spec(mesh), batch)
    arguments = jax.tree.map_with_path(placed, start), batch, memory
    step = trainer.make_train_step(task, optimizer, 0, mesh, 'bfloat16')
    return Program(step, arguments, 0, TRAINING_OVER_FORWARD * flops / mesh.size)


def encoder_of(options, *dims: str):
    """The encoder, some of whose dimensions are options."""
    fields = {'max_length': options.length, 'dtype': 'bfloat16', **chosen(options, *dims)}
    return make_encoder(options.model, VOCABULARY, **fields)


def relations_program(mesh, options) -> Program:
    """A step of relation pretraining: L_rel and L_el over all entities."""
    rows, encoder = options.rows * mesh.size, encoder_of(options, 'entity_dim')
    objective, layout = Relations(), Layout(mesh, options.entities)
    loss = functools.partial(objective.loss, encoder, layout)
    batch = random_batch(rows, options.length, np.random.default_rng(0))
    # Each of two mentions of a row with all entities.
    flops = (
        encoder_flops(encoder, (rows, options.length), 4)
        + 2 * 2 * rows * options.entities * encoder.entity_dim
    )
    params = lambda: init_params(encoder, options.entities, 0)
    return step_program(mesh, options, objective, loss, params, batch, flops)


# As in gin/experiments/paper/lm_cloze.gin.
PAPER: dict[str, Any] = dict(topics=16, mixing='embeddings', score_gold=False, entity_layer=4)


def language_model_program(mesh, options, mode: str | None) -> Program:
    """A step of the language model on clozes, without a memory if `mode` is None."""
    rows = options.rows * mesh.size
    encoder = encoder_of(options, 'entity_dim', 'relation_dim')
    ours = {'topics': 2, 'entity_layer': encoder.num_layers // 2}
    forms = PAPER if options.paper else ours
    given = {} if mode is None else {'memory_dir': 'memory', 'mode': mode}
    objective = Cloze(rows=rows, k=options.k, **forms, **given)
    settings = {**vars(options), 'rows': rows, 'topics': objective.topics}
    batch = lm_step.random_batch(type(options)(**settings), np.random.default_rng(0))
    layout = Layout(mesh, options.entities)
    loss = functools.partial(objective.loss, encoder, layout)
    memory = sharded_memory(mesh, options, mode, passages=True) if mode else None
    params = lambda: objective.init(encoder, init_params(encoder, options.entities, 0))
    # With all entities: the hidden mention and the topics in the entity memory, and the topics
    # again, each in two products (scores and their mean); the answer in one.
    flops = encoder_flops(encoder, (rows, options.length), None)
    products = 2 * (1 + objective.topics) + 2 * objective.topics + 1
    flops += 2 * products * rows * options.entities * encoder.entity_dim
    return step_program(mesh, options, objective, loss, params, batch, flops, memory)


def build_program(mesh, options) -> Program:
    """The encoder over a batch of a memory's entries, as `build_memory` encodes them."""
    rows, encoder = options.rows * mesh.size, encoder_of(options)
    params = jax.eval_shape(lambda: init_params(encoder, 8, 0))['encoder']
    by_row = functools.partial(array, mesh, batch_spec(mesh), jnp.int32, rows)
    tokens, position = by_row(options.length), by_row()
    encode = lambda params, *marked: encoder.apply({'params': params}, *marked)
    flops = encoder_flops(encoder, (rows, options.length), 3) / mesh.size
    return Program(encode, (shaped(mesh, WHOLE, params), tokens, position, position), 0, flops)


def programs(names, mesh, options):
    """(what it is, function that makes the program) of each that was asked for."""
    of = functools.partial
    for name in names:
        if name == 'search':
            for queries, mode in itertools.product(options.queries, options.modes):
                what = {'program': name, 'queries': queries, 'mode': mode}
                yield what, of(search_program, mesh, options, queries, mode)
        elif name == 'follow':
            for queries in options.queries:
                what = {'program': name, 'queries': queries}
                yield what, of(follow_program, mesh, options, queries)
        elif name == 'lm':
            for mode in options.modes if options.paper else (None, *options.modes):
                what = {'program': name, 'memory': mode}
                yield what, of(language_model_program, mesh, options, mode)
        else:
            make = {'relations': relations_program, 'build': build_program}[name]
            yield {'program': name}, of(make, mesh, options)


# ---- What the compiler says ----


def report(program: Program, chip: Chip, devices: int) -> dict:
    """Compiles a program, and reads off what is told of it."""
    started = time.perf_counter()
    jitted = program.function if hasattr(program.function, 'lower') else jax.jit(program.function)
    compiled = jitted.lower(*program.arguments).compile()
    spent = time.perf_counter() - started
    memory, text = compiled.memory_analysis(), compiled.as_text()
    roofline = (compiled.cost_analysis() or {}).get('optimal_seconds')
    if roofline is None or not math.isfinite(roofline) or roofline <= 0:
        roofline = None
    limit = max(program.bytes / chip.bandwidth, program.flops / chip.flops)
    return {
        'argument_bytes': memory.argument_size_in_bytes,
        'temporary_bytes': memory.temp_size_in_bytes,
        'fits': memory.argument_size_in_bytes + memory.temp_size_in_bytes < chip.memory,
        'received_bytes': received_bytes(compiled, devices),
        'bytes_of_other_slices': bytes_of_other_slices(text),
        'largest_collective': largest_exchanged(text),
        'loops': len(re.findall(r' while\(', text)),
        'roofline_seconds': roofline,
        'limit_seconds': limit,
        'ratio': roofline and round(roofline / limit, 2),
        'estimated_cycles': estimated_cycles(text),
        'compile_seconds': round(spent, 1),
    }


PROGRAMS = ('search', 'follow', 'relations', 'lm', 'build')


def main() -> None:
    """Prints a line for each topology and program."""
    parser = make_parser(
        __doc__,
        queries=([1, 64, 1024], 'of a search, or of two hops'),
        entries=(1_600_000, 'of the memory'),
        entities=(1_000_000, 'rows of the entity table'),
        relation_dim=(256, 'numbers of a relation'),
        entity_dim=(256, 'numbers of an entity'),
        k=(32, 'entries found for a query'),
        paper=(False, "the language model has the paper's topics, mixing and entity layer"),
        model=(Size('base'), 'in gin/models'),
        rows=(32, 'of a chip, in a step'),
        length=(64, 'tokens of a row'),
    )
    known = {'topologies': TOPOLOGIES, 'programs': PROGRAMS, 'modes': ('exact', 'approx')}
    default = {'topologies': ['v5e-8'], 'programs': list(PROGRAMS), 'modes': ['approx']}
    for name, of in known.items():
        about = {'default': default[name], 'help': f'of {", ".join(of)}'}
        parser.add_argument(f'--{name}', type=list_of(str), **about)
    options = parser.parse_args()
    for name, of in known.items():
        if unknown := set(getattr(options, name)) - set(of):
            parser.error(f'{", ".join(sorted(unknown))}: known are {", ".join(of)}')
    if not importlib.util.find_spec('libtpu'):
        told = "the TPU compiler is not installed: python -m pip install -e '.[tpu-aot]'"
        print(f'skipped: {told}', file=sys.stderr)
        return
    for topology in options.topologies:
        mesh, chip = topology_mesh(topology), CHIPS[topology.split('-')[0]]
        for what, make in programs(options.programs, mesh, options):
            told = report(make(), chip, row_devices(mesh))
            show({'topology': topology, **what, **told}, options.json)


if __name__ == '__main__':
    main()
