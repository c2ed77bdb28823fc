"""How the step of relation pretraining scales with devices: its overhead, and the bytes that devices exchange.

python benchmarks/scaling.py --model tiny --devices 1,2,4,8 --json

**Measured.** The devices are virtual and share the same cores, so speed-ups cannot show, but overhead does. `strong` is one batch of
`--rows` split over D devices: the work is the same for all D, and `over_one` would be 1 if splitting cost nothing. `weak` gives every
device as many rows as the most devices get of `--rows`: the work is D times that of one device, and `over_one` is the seconds of D
devices over D times those of one. Replicated work shows in both.

**Read from the program.** `received_bytes` is what one device receives in a step of the strong batch. It equals

    4 (D - 1) / D * (S + 2 (P + n d_r + n C (d_e + 6) + 6 + 2 s) + n (d_r + C d_e + C + 2)) + n (D - 1) / D

bytes, or the benchmark stops with an error. The terms are the S of the encoder's parameters that are split, in s arrays, which are
gathered; the sums over devices of the gradient of its P parameters (of its positions only as many as a row is long), of that of n
relations, of L_el's six numbers and gradient for each of n C mentions, where a sum is a scatter and a gather, of 6 scalars, and of the
norms of the s gradients, to clip and to log them; then the gathered relations, mention vectors, ids and flags. The entity table and
its gradient stay where they are: the number of entities does not occur. `bucketed_over_formula`, for the most devices, is what they
receive if the rows come in two buckets, over the formula: compiled for CPUs, each bucket's gradient is summed over devices by itself.

**On paper.** The same formula for `base` on D chips, where the S parameters are gathered in bfloat16 and each chip gets the sum of its
part of their gradient only, in bfloat16 too: 4 bytes for each in place of the 12 of a CPU. FLOPs are those of `models.flops` at half of
the peak, with L_el over a million entities (four products) and L_rel. `serial` is the efficiency if nothing is exchanged while chips
compute, `overlapped` if all can be. A chip's bytes per second in an all-reduce are those of a whole pod in Google's documentation over
its chips: v4, 1.1 PB/s over 4096; v5e, 51.2 TB/s over 256. A slice too small to have wrapped links has less; more than 256 chips of
v5e are several pods.
"""

from opql_jax.training import malloc

if __name__ == '__main__':
    malloc.keep_freed_memory()

import math

import jax
import numpy as np
from command_line import add_timing, integers, make_parser, show
from flax import traverse_util
from hlo import received_bytes
from inputs import make_encoder
from jax.sharding import AbstractMesh, PartitionSpec
from timing import medians
from train_step import CONTEXT, ENTITIES, VOCABULARY, make_program, random_batch

from opql_jax.data.sources.relations import RelationBatch
from opql_jax.models.flops import TRAINING_OVER_FORWARD, encoder_flops, peak_flops
from opql_jax.parallel import fsdp
from opql_jax.parallel.mesh import ROW_AXES, make_mesh

ENTITIES_ON_PAPER, LENGTH_ON_PAPER, SHARE_OF_PEAK = 1_000_000, 64, 0.5
# device_kind: (bytes per second and chip, chips of a pod).
CHIPS = {'TPU v4': (1.1e15 / 4096, 4096), 'TPU v5 lite': (51.2e12 / 256, 256)}


def parameters(encoder, devices: int) -> tuple[list[int], list[int]]:
    """The sizes of an encoder's parameters that are split over devices, and of those that are whole on each."""
    tokens, position = np.zeros((1, 8), np.int32), np.zeros(1, np.int32)
    shapes = jax.eval_shape(encoder.init, jax.random.key(0), tokens, position, position)['params']
    mesh = AbstractMesh((devices, 1), ROW_AXES)
    split, whole = [], []
    for name, x in traverse_util.flatten_dict({'encoder': shapes}, sep='/').items():
        (whole if fsdp.spec(name, x.shape, mesh) == PartitionSpec() else split).append(math.prod(x.shape))
    return split, whole


def formula_bytes(encoder, rows: int, length: int, devices: int, bytes_of_split: int = 12) -> int:
    """The formula: bytes that a device receives in a step over tokens [rows, length] with CONTEXT mentions per row.

    `bytes_of_split` are those of a parameter that is split: 4 to gather it and 8 to sum its gradient.
    """
    split, whole = parameters(encoder, devices)
    summed = sum(whole) + rows * encoder.relation_dim + rows * CONTEXT * (encoder.entity_dim + 6) + 6 + 2 * len(split)
    gathered = rows * (encoder.relation_dim + CONTEXT * encoder.entity_dim + CONTEXT + 2)
    unread = (encoder.max_length - length) * encoder.hidden_size  # of the positions, which have no gradient
    received = bytes_of_split * sum(split) - 8 * unread + 4 * (2 * summed + gathered) + rows
    return received * (devices - 1) // devices


def on_paper(encoder, chips: int, rows: int, length: int) -> dict:
    """The bytes, and by device_kind the times and efficiencies, of a step of `rows` rows per chip."""
    total = rows * chips
    flops = TRAINING_OVER_FORWARD * (
        encoder_flops(encoder, (rows, length), 2 + CONTEXT) + 2 * rows * total * encoder.relation_dim
    )
    flops += 4 * 2 * total * CONTEXT * ENTITIES_ON_PAPER / chips * encoder.entity_dim
    received = formula_bytes(encoder, total, length, chips, bytes_of_split=4)
    line: dict = {'received_bytes': received}
    for kind, (bandwidth, pod) in CHIPS.items():
        peak = peak_flops(kind)
        if chips <= pod and peak:
            compute, exchange = flops / (SHARE_OF_PEAK * peak), received / bandwidth
            line[kind] = {
                'compute_ms': round(1e3 * compute, 2),
                'exchange_ms': round(1e3 * exchange, 2),
                'serial': round(compute / (compute + exchange), 3),
                'overlapped': round(compute / max(compute, exchange), 3),
            }
    return line


def measure(options):
    """Yields the line of each number of devices."""
    encoder, rng, length = make_encoder(options.model, VOCABULARY), np.random.default_rng(0), options.length
    make_batch = lambda rows, length=length: random_batch(rows, length, rng)
    programs = {n: make_program(encoder, ENTITIES, make_mesh(n)) for n in options.devices}
    calls = {}
    for kind in ('strong', 'weak'):
        for n, program in programs.items():
            batch = make_batch(options.rows if kind == 'strong' else options.rows // options.devices[-1] * n)
            calls[kind, n] = lambda program=program, batch=batch: program([batch])
    seconds = medians(calls, options.calls, options.limit)
    for n, program in programs.items():
        received = received_bytes(program.compiled(make_batch(options.rows)), n)
        expected = formula_bytes(encoder, options.rows, length, n)
        if sum(received.values()) != expected:
            raise SystemExit(f'{n} devices receive {received}, which is not {expected} bytes as the formula says')
        line = {'model': options.model, 'rows': options.rows, 'length': length, 'devices': n}
        for kind, work in (('strong', 1), ('weak', n / options.devices[0])):
            over_one = seconds[kind, n] / work / seconds[kind, options.devices[0]]
            line[kind] = {'seconds': round(seconds[kind, n], 4), 'over_one': round(over_one, 2)}
        line |= {'received_bytes': sum(received.values()), 'formula_bytes': expected, 'by_kind': received}
        if n == options.devices[-1]:
            halves = make_batch(options.rows // 2, length // 2).pairs + make_batch(options.rows // 2).pairs
            bucketed = sum(received_bytes(program.compiled(RelationBatch(halves)), n).values())
            line['bucketed_over_formula'] = round(bucketed / max(expected, 1), 2)
        yield line


def main():
    """Prints a line for each number of devices, and one for each number of chips and of rows per chip."""
    parser = make_parser(__doc__)
    parser.add_argument('--model', default='tiny', help='a size in gin/models')
    parser.add_argument('--devices', type=integers, default='1,2,4,8', help='increasing')
    parser.add_argument('--rows', type=int, default=64, help='of the strong batch; a multiple of twice the most devices')
    parser.add_argument('--length', type=int, default=48, help='tokens of a row')
    parser.add_argument('--chips', type=integers, default='8,64,512', help='on paper')
    parser.add_argument('--rows_per_chip', type=integers, default='32,256', help='on paper')
    add_timing(parser, calls=5)
    options = parser.parse_args()
    jax.config.update('jax_num_cpu_devices', options.devices[-1])
    for line in measure(options):
        show(line, options.json)
    base = make_encoder('base', VOCABULARY)
    for chips in options.chips:
        for rows in options.rows_per_chip:
            line = {'model': 'base', 'chips': chips, 'rows_per_chip': rows, 'length': LENGTH_ON_PAPER}
            show(line | {'on_paper': on_paper(base, chips, rows, LENGTH_ON_PAPER)}, options.json)


if __name__ == '__main__':
    main()
