"""How the step of relation pretraining grows with devices: its overhead, and what devices exchange, for pods on paper.

python benchmarks/scaling.py --model tiny --devices 1,2,4,8 --json

**Measured.** The devices are virtual and share the same cores, so no speed-up can show; what shows is overhead. `strong` is one
batch of `--rows` split over D devices: the work is the same for all D, and `over_one` would be 1 if splitting cost nothing.
`weak` is as many rows a device as the
most devices get of `--rows`: the work is D times that of one device, and so should be the seconds; `over_one` is the seconds of D devices
over D times those of one. Replicated work shows in both: each device updates all of the encoder itself, so
AdamW is done D times on the same cores, where on D chips it takes as long as on one.

**Read.** `received_bytes` is what one device receives in a step of the strong batch, read from the compiled program, and equals

    4 (D - 1) / D * (2 (P + n d_r + n C (d_e + 4) + 6) + n (d_r + C d_e + C + 2)) + n (D - 1) / D

bytes, or this stops with an error: the sums over devices of the gradient of the encoder's P parameters (of its positions only as many
as a row is long), of that of n relations, and of L_el's four numbers and gradient for each of n C mentions, a sum being a scatter and a
gather, and 6 scalars; then the gathered relations, mention vectors, ids and flags. The entity table and its gradient stay where
they are: no number of entities is in it. `bucketed_over_formula`, of the most devices, is what they receive if the rows come in two buckets over that
formula: compiled for CPUs, the gradient of each bucket is summed over devices by itself, which is as often as there are buckets.

**On paper.** The same formula for `base` in bfloat16 on D chips, against FLOPs by `models.flops`, at half of the peak, with L_el over a
million entities (four products) and L_rel. `serial` is the efficiency if nothing is exchanged while chips compute, `overlapped` if
all can be. Bytes a second that a chip receives in an all-reduce are a whole pod's in Google's documentation over its chips: v4, 1.1 PB/s over
4096; v5e, 51.2 TB/s over 256. A slice too small to have wrapped links has less; more v5e chips than 256 are several pods.
"""

from opql_jax.training import malloc

if __name__ == '__main__':
    malloc.keep_freed_memory()

import argparse
import json
import os
import pathlib

ENTITIES_ON_PAPER, SHARE_OF_PEAK = 1_000_000, 0.5
# device_kind: (bytes a second, chips of a pod).
CHIPS = {'TPU v4': (1.1e15 / 4096, 4096), 'TPU v5 lite': (51.2e12 / 256, 256)}
MODELS = pathlib.Path(__file__).parents[1] / 'gin' / 'models'


def exchanged(encoder, parameters, rows, length, context, devices):
    """The formula: bytes that a device receives in a step over rows [n, length] with C context mentions each."""
    trained = parameters - (encoder.max_length - length) * encoder.hidden_size
    summed = trained + rows * encoder.relation_dim + rows * context * (encoder.entity_dim + 4) + 6
    gathered = rows * (encoder.relation_dim + context * encoder.entity_dim + context + 2)
    return (4 * (2 * summed + gathered) + rows) * (devices - 1) // devices


def on_paper(encoder, parameters, chips, rows, length, context):
    """{device_kind: bytes and times of a step of `rows` rows a chip}."""
    from opql_jax.models.flops import TRAINING_OVER_FORWARD, encoder_flops, peak_flops

    total = rows * chips
    flops = TRAINING_OVER_FORWARD * (
        encoder_flops(encoder, (rows, length), 2 + context) + 2 * rows * total * encoder.relation_dim
    )
    flops += 4 * 2 * total * context * ENTITIES_ON_PAPER / chips * encoder.entity_dim
    received = exchanged(encoder, parameters, total, length, context, chips)
    found = {'received_bytes': received}
    for kind, (bandwidth, pod) in CHIPS.items():
        if chips <= pod:
            compute, wait = flops / (SHARE_OF_PEAK * peak_flops(kind)), received / bandwidth
            found[kind] = {
                'compute_ms': round(1e3 * compute, 2),
                'exchange_ms': round(1e3 * wait, 2),
                'serial': round(compute / (compute + wait), 3),
                'overlapped': round(compute / max(compute, wait), 3),
            }
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--model', default='tiny', help='a size in gin/models')
    parser.add_argument('--devices', default='1,2,4,8', help='increasing')
    parser.add_argument('--rows', type=int, default=64, help='of the strong batch; a multiple of twice the most devices')
    parser.add_argument('--length', type=int, default=48, help='tokens of a row')
    parser.add_argument('--chips', default='8,64,512', help='on paper')
    parser.add_argument('--rows_per_chip', default='32,256', help='on paper')
    parser.add_argument('--calls', type=int, default=5, help='of each way, at most')
    parser.add_argument('--limit', type=float, default=120, help='seconds after which no further round of calls begins')
    parser.add_argument('--json', action='store_true')
    options = parser.parse_args()
    numbers = lambda text: [int(number) for number in text.split(',') if number]
    devices, length = numbers(options.devices), options.length
    # Before JAX starts.
    os.environ['XLA_FLAGS'] = f'--xla_force_host_platform_device_count={devices[-1]}'
    import jax
    import numpy as np
    from hlo import received_bytes
    from timing import medians
    from train_step import CONTEXT, ENTITIES, VOCABULARY, Ours, random_batch

    import gin
    from opql_jax.data.sources.relations import RelationBatch
    from opql_jax.models.encoder import RelationEncoder
    from opql_jax.parallel.mesh import make_mesh

    def encoder_of(model):
        gin.parse_config_file(str(MODELS / f'{model}.gin'))
        return gin.get_configurable(RelationEncoder)(vocab_size=VOCABULARY)

    def parameters_of(encoder):
        tokens, position = np.zeros((1, 8), np.int32), np.zeros(1, np.int32)
        shapes = jax.eval_shape(encoder.init, jax.random.key(0), tokens, position, position)
        return sum(int(np.prod(x.shape)) for x in jax.tree.leaves(shapes))

    show = lambda line: print(json.dumps(line) if options.json else line, flush=True)
    encoder, rng = encoder_of(options.model), np.random.default_rng(0)
    batch_of = lambda rows, length=length: random_batch(rows, length, rng)
    steps = {number: Ours(encoder, ENTITIES, make_mesh(number)) for number in devices}
    batches = {
        'strong': lambda number: batch_of(options.rows),
        'weak': lambda number: batch_of(options.rows // devices[-1] * number),
    }
    ways = {}
    for kind, make in batches.items():
        for number, take in steps.items():
            made = [make(number)]
            ways[kind, number] = lambda take=take, made=made: take(made)
    seconds = medians(ways, options.calls, options.limit)
    for number, take in steps.items():
        received = received_bytes(take.compiled(batch_of(options.rows)), number)
        formula = exchanged(encoder, parameters_of(encoder), options.rows, length, CONTEXT, number)
        if sum(received.values()) != formula:
            raise SystemExit(f'{number} devices receive {received}, which is not {formula} bytes as the formula says')
        line = {'model': options.model, 'rows': options.rows, 'length': length, 'devices': number}
        for kind, work in (('strong', 1), ('weak', number / devices[0])):
            took = seconds[kind, number]
            line[kind] = {'seconds': round(took, 4), 'over_one': round(took / work / seconds[kind, devices[0]], 2)}
        line |= {'received_bytes': sum(received.values()), 'formula_bytes': formula, 'by_kind': received}
        if number == devices[-1]:
            half = RelationBatch(batch_of(options.rows // 2, length // 2).pairs + batch_of(options.rows // 2).pairs)
            line['bucketed_over_formula'] = round(
                sum(received_bytes(take.compiled(half), number).values()) / max(formula, 1), 2
            )
        show(line)
    base = encoder_of('base')
    for chips in numbers(options.chips):
        for rows in numbers(options.rows_per_chip):
            line = {'model': 'base', 'chips': chips, 'rows_per_chip': rows, 'length': 64}
            show(line | {'on_paper': on_paper(base, parameters_of(base), chips, rows, 64, CONTEXT)})


if __name__ == '__main__':
    main()
