"""What the TPU compiler makes of our programs, on a machine without a TPU.

python -m pip install -e '.[tpu-aot]'
python benchmarks/tpu_compile.py search --queries 1,64 --json
python benchmarks/tpu_compile.py relations --topology v5p-16 --rows 32 --length 64

Nothing runs: a program is compiled for the chips of a topology from shapes alone: a search of the
memory in mode `approx`, a step of relation pretraining, or one of the language model in the paper's
form, over a memory. A step has so many `rows` of a chip, of `length` tokens. Its line has

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

The roofline and `received_bytes` count the body of a loop once. A product that is fused with the
partial reduction of `lax.approx_max_k` has no cycle estimate, so the sum leaves out what costs
most. The roofline reads at nine tenths of the bandwidth, and a row that is looked up as the tile of
eight that it lies in: 6 of 310 us for 64 queries on v5e-8 are rows of E.
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

import collections
import functools
import importlib.util
import math
import re
from collections.abc import Iterator

import jax
import jax.numpy as jnp
from jax.experimental import topologies
from jax.sharding import NamedSharding
from steps import cloze_batch, make_encoder, make_params, make_task, relation_batch
from timing import chosen, run

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
MODE, TOPICS = 'approx', 16


# A jitted function, shapes of its arguments on a mesh, and bytes and FLOPs of a chip at least.
Program = collections.namedtuple('Program', 'function arguments bytes flops')


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
    table = array(mesh, ROWS, jnp.float32, entities, options.entity_dim)
    asked = Queries(query(options.entity_dim), query(options.relation_dim))
    numbers = options.entries / row_devices(mesh) * (options.relation_dim + options.entity_dim)
    of_slice = queries * row_devices(mesh) / mesh.size if layout.shared else queries
    top_k = jax.jit(lambda *arguments: search.top_k(*arguments, options.k))
    arguments = sharded_memory(mesh, options), table, asked
    return Program(top_k, arguments, 2 * numbers, 2 * of_slice * numbers)


def step_program(mesh, options) -> Program:
    """A step of relation pretraining, or of the language model on clozes.

    L_rel, and L_el of two mentions a row over all entities; or as in
    gin/experiments/paper/lm_cloze.gin.
    """
    rows, layout = options.rows * mesh.size, Layout(mesh, options.entities)
    sizes = chosen(options, *('entity_dim', 'relation_dim')[: 1 + (options.subject == 'lm')])
    encoder = make_encoder(options.model, max_length=options.length, dtype='bfloat16', **sizes)
    # Positions of the last layer that are read, and products of a row with all entities.
    objective, positions, products, memory = Relations(), 4, 2, None
    if options.subject == 'lm':
        # The hidden mention and the topics in the entity memory, and the topics again, each in two
        # products (scores and their mean); the answer in one.
        positions, products = None, 2 * (1 + TOPICS) + 2 * TOPICS + 1
        memory = sharded_memory(mesh, options, passages=True)
        read = {'memory_dir': 'memory', 'mode': MODE}  # any path: it says that there is a memory
        mixed = {'mixing': 'embeddings', 'score_gold': False, 'entity_layer': 4}
        objective = Cloze(rows=rows, k=options.k, topics=TOPICS, **mixed, **read)
        batch = cloze_batch(rows, options.length, TOPICS, options.entities, options.entries)
    else:
        batch = relation_batch(rows, options.length, options.entities)
    task, optimizer = make_task(objective, encoder, layout), make_optimizer(1000)
    params = functools.partial(make_params, objective, encoder, options.entities)
    start = jax.eval_shape(lambda: state.init_state(params(), task.trainable, optimizer))

    def placed(path, x):
        spec, shape = state.sharding_spec(path, x.shape, layout, task.trainable), list(x.shape)
        if spec == ROWS:  # the entity table, which is padded
            shape[0] += -shape[0] % row_devices(mesh)
        return array(mesh, spec, x.dtype, *shape)

    batch = jax.tree.map(lambda x: array(mesh, batch_spec(mesh), x.dtype, *x.shape), batch)
    step = trainer.make_train_step(task, optimizer, 0, mesh, 'bfloat16')
    flops = encoder_flops(encoder, (rows, options.length), positions)
    flops += 2 * products * rows * options.entities * encoder.entity_dim
    arguments = jax.tree.map_with_path(placed, start), batch, memory
    return Program(step, arguments, 0, TRAINING_OVER_FORWARD * flops / mesh.size)


# ---- What the compiled text says ----

_COLLECTIVE = re.compile(
    r'= (.*?) (all-gather|all-reduce|reduce-scatter|all-to-all|collective-permute)(?:-start)?\('
)
# The name and the lines of each computation.
_COMPUTATION = re.compile(r'^(?:ENTRY )?%([\w.-]+) \(.*\{\n((?:  .*\n)*)\}', re.MULTILINE)
_ARRAY = re.compile(r'\b(?:pred|[a-z]+(\d+))\[([\d,]*)\]')


def _arrays(shapes: str) -> Iterator[tuple[int, int]]:
    """The numbers of each array, and bytes of one."""
    for bits, dims in _ARRAY.findall(shapes):
        yield math.prod(int(n) for n in dims.split(',') if n), int(bits or 8) // 8  # a bool: a byte


def collectives(text: str) -> Iterator[tuple[str, int, int]]:
    """Kind, numbers and bytes of one of each array that a collective of a program makes.

    A TPU overlaps some with other work, and repeats each in what runs meanwhile and where it ends:
    they count where they begin. `all-reduce-scatter` is its name for a sum of which each device
    keeps a part; it makes the whole of it inside.
    """
    for name, body in _COMPUTATION.findall(text):
        if name.startswith('async_collective_fusion') or '"AsyncCollectiveDone"' in body:
            continue
        for shapes, kind in _COLLECTIVE.findall(body):
            if name.startswith('all-reduce-scatter'):
                kind = 'all-reduce-scatter'
            yield from ((kind, *size) for size in _arrays(shapes))


def received_bytes(text: str, devices: int) -> dict[str, int]:
    """Bytes that a device receives in one run, by kind of collective."""
    received: collections.Counter[str] = collections.Counter()
    for kind, count, size in collectives(text):
        # An all-reduce is a reduce-scatter and an all-gather; the result of a reduce-scatter is one
        # device's share.
        times = {'all-reduce': 2, 'reduce-scatter': devices}.get(kind, 1)
        of = kind.replace('all-reduce-scatter', 'reduce-scatter')
        received[of] += round(times * (devices - 1) / devices * count * size)
    return dict(received)


def bytes_of_other_slices(text: str) -> int:
    """Bytes that a TPU receives from other slices in one run, through their hosts."""
    received = re.findall(r'= \((.*?), u32\[\].* recv\(.*"xla_megascale_runtime"', text)
    return sum(map(math.prod, _arrays(' '.join(received))))


def estimated_cycles(text: str) -> int:
    """Cycles that the TPU compiler estimates for a run; instructions without an estimate count 0.

    A loop's body counts as often as it runs up to a constant, as those of `lax.scan` and
    `fori_loop` do, else once; of a condition the branch that takes longest counts.
    """
    computations = dict(_COMPUTATION.findall(text))
    cycles: dict[str, int] = {}
    names = lambda pattern, text: re.findall(pattern.replace('NAME', r'%([\w.-]+)'), text)
    # Callers, and last the entry, stand after what they call.
    for name, body in computations.items():
        cycles[name] = sum(map(int, re.findall(r'"estimated_cycles":"(\d+)"', body)))
        cycles[name] += sum(cycles[of] for of in names('(?:calls|to_apply)=NAME', body))
        for condition, inner in names(r' while\(.*\bcondition=NAME, body=NAME', body):
            limit = re.findall(r'= [su]32\[\]\S* constant\((\d+)\)', computations[condition])
            cycles[name] += cycles[inner] * (int(limit[0]) if len(limit) == 1 else 1)
        branches = re.findall(r'branch_computations=\{(.*?)\}', body)
        branches += re.findall(r'true_computation=\S+ false_computation=\S+', body)
        for of in branches:
            cycles[name] += max(cycles[branch] for branch in names('NAME', of))
    return cycles[name]


def report(options) -> Iterator[dict]:
    """Compiles programs for a topology; a line with what is read off each."""
    if not importlib.util.find_spec('libtpu'):
        raise SystemExit("the TPU compiler is missing: python -m pip install -e '.[tpu-aot]'")
    topology = topologies.get_topology_desc(platform='tpu', **TOPOLOGIES[options.topology])
    mesh = mesh_of(topology.devices)  # as training makes it: all chips share a batch
    size, bandwidth = MEMORY[options.topology.split('-')[0]]
    peak = peak_flops(mesh.devices.flat[0].device_kind)
    for queries in options.queries if options.subject == 'search' else [0]:
        line = chosen(options, 'topology', 'subject') | ({'queries': queries} if queries else {})
        made = search_program(mesh, options, queries) if queries else step_program(mesh, options)
        compiled = made.function.lower(*made.arguments).compile()
        memory, text = compiled.memory_analysis(), compiled.as_text()
        roofline = (compiled.cost_analysis() or {}).get('optimal_seconds')
        if roofline is None or not math.isfinite(roofline) or roofline <= 0:
            roofline = None
        limit, held = max(made.bytes / bandwidth, made.flops / peak), memory.argument_size_in_bytes
        yield line | {
            'argument_bytes': held,
            'temporary_bytes': memory.temp_size_in_bytes,
            'fits': held + memory.temp_size_in_bytes < size,
            'received_bytes': received_bytes(text, row_devices(mesh)),
            'bytes_of_other_slices': bytes_of_other_slices(text),
            'largest_collective': max((count for _, count, _ in collectives(text)), default=0),
            'loops': len(re.findall(r' while\(', text)),
            'roofline_seconds': roofline,
            'limit_seconds': limit,
            'ratio': roofline and round(roofline / limit, 2),
            'estimated_cycles': estimated_cycles(text),
        }


if __name__ == '__main__':
    memory = {'entries': 1_600_000, 'relation_dim': 256, 'entity_dim': 256, 'k': 32}
    step = {'model': 'base', 'rows': 32, 'length': 64, 'entities': 1_000_000}
    programs = dict.fromkeys(('search', 'relations', 'lm'), report)
    chips, queries = tuple(TOPOLOGIES), [1, 64, 1024]
    run(__doc__, programs, topology=chips, queries=queries, **memory, **step)
