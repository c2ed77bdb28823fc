"""Does training suffer where devices sum their gradients in bfloat16? The same runs with sums in float32 and in bfloat16, from several seeds.

python benchmarks/gradient_sums.py --devices 8 --steps 200 --seeds 0,1,2 --json

Relation pretraining on a generated corpus. Devices are simulated on one: each has its copy of the encoder, encodes its share of the rows,
and gets a gradient of its own. `float32` adds these; `bfloat16` rounds each, adds them one by one and rounds every sum, as a ring of
devices does at worst. E and its gradient are not summed over devices. The encoder computes in float32, so that nothing else is rounded.

A line has the means of loss and accuracies over the last `--window` steps of a run, and the loss over as many steps before half-way.
The seed draws parameters and dropout; batches are the same. The last line has, of the loss, the mean over seeds of what bfloat16 adds, and
the standard deviation over seeds of the runs with float32, which a difference would have to exceed to matter.
"""

import functools
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
import optax
from command_line import integers, make_parser, show
from inputs import generated_corpus
from jax import lax
from train_step import in_one_bucket

from opql_jax.data.sources.relations import RelationSource
from opql_jax.models.encoder import RelationEncoder, init_params
from opql_jax.parallel.entity_table import Layout
from opql_jax.parallel.mesh import make_mesh
from opql_jax.training import objectives, trainer


class CopiedEncoder:
    """An encoder as data-parallel devices have it: parameters [devices, ...], of which each copy encodes its share of the rows."""

    def __init__(self, encoder: RelationEncoder, devices: int):
        self._encoder, self._devices, self.encode = encoder, devices, encoder.encode

    def apply(self, variables, *rows, method, rngs, **options):
        """As `encoder.apply`."""

        def of_a_device(params, key, rows):
            return self._encoder.apply({'params': params}, *rows, method=method, rngs={'dropout': key}, **options)

        shares = jax.tree.map(lambda x: x.reshape(self._devices, -1, *x.shape[1:]), rows)
        keys = jax.random.split(rngs['dropout'], self._devices)
        found = jax.vmap(of_a_device)(variables['params'], keys, shares)
        return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), found)


def add(gradients, dtype: str):
    """The sum [...] float32 of gradients [devices, ...] float32."""
    # Not a cast to bfloat16 and back, which XLA may leave out.
    rounded = (lambda x: lax.reduce_precision(x, 8, 7)) if dtype == 'bfloat16' else lambda x: x
    return functools.reduce(lambda total, x: rounded(total + x), rounded(gradients))


def make_step(encoder: RelationEncoder, entities: int, optimizer, devices: int, dtype: str):
    """`step(params, moments, batch, key) -> (params, moments, metrics)` with gradients summed in `dtype`."""
    loss = functools.partial(objectives.Relations().loss, CopiedEncoder(encoder, devices), Layout(make_mesh(1), entities))

    def step(params, moments, batch, key):
        copies = jax.tree.map(lambda x: jnp.broadcast_to(x, (devices, *x.shape)), params['encoder'])
        copied = {**params, 'encoder': copies}
        (value, metrics), gradients = jax.value_and_grad(loss, has_aux=True)(copied, batch, None, key)
        gradients['encoder'] = jax.tree.map(functools.partial(add, dtype=dtype), gradients['encoder'])
        updates, moments = optimizer.update(gradients, moments, params)
        return optax.apply_updates(params, updates), moments, {'loss': value, **metrics}

    return jax.jit(step, donate_argnums=(0, 1))


def main():
    """Prints a line for each run, and one that compares them."""
    parser = make_parser(__doc__)
    parser.add_argument('--devices', type=int, default=8)
    parser.add_argument('--steps', type=int, default=200)
    parser.add_argument('--seeds', type=integers, default='0,1,2')
    parser.add_argument('--window', type=int, default=40)
    parser.add_argument('--rows', type=int, default=64)
    parser.add_argument('--documents', type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        prepared = generated_corpus(folder, options.documents, max_tokens=48)
        source = RelationSource(prepared, objectives.Relations(rows=options.rows))
        length = max(source.capacities)
        batches = [in_one_bucket(source[step], length) for step in range(options.steps)]
        vocabulary, entities = prepared.tokenizer.get_vocab_size(), len(prepared.vocab)
    rows = len(batches[0].pairs[0].tokens)
    if rows % options.devices:
        parser.error(f'{rows} rows of a batch cannot be shared by {options.devices} devices')
    encoder = RelationEncoder(
        vocab_size=vocabulary,
        hidden_size=64,
        num_layers=2,
        num_heads=4,
        mlp_size=256,
        max_length=length,
        relation_dim=64,
        entity_dim=64,
    )
    optimizer = trainer.make_optimizer(options.steps, 1e-3, warmup_steps=20)
    window, ends = options.window, {}
    for dtype in ('float32', 'bfloat16'):
        step = make_step(encoder, entities, optimizer, options.devices, dtype)
        for seed in options.seeds:
            params = init_params(encoder, entities, seed)
            moments, found = optimizer.init(params), []
            for number, batch in enumerate(batches):
                key = jax.random.fold_in(jax.random.key(seed), number)
                params, moments, metrics = step(params, moments, batch, key)
                found.append(jax.device_get(metrics))
            mean = lambda name, part, found=found: round(float(np.mean([metrics[name] for metrics in found][part])), 4)
            halfway = slice(max(options.steps // 2 - window, 0), options.steps // 2)
            last = {name: mean(name, slice(-window, None)) for name in found[0]}
            ends[dtype, seed] = last['loss']
            show({'sums': dtype, 'seed': seed, 'loss_halfway': mean('loss', halfway), **last}, options.json)
    exact, rounded = ([ends[dtype, seed] for seed in options.seeds] for dtype in ('float32', 'bfloat16'))
    difference = {'bfloat16_adds': round(float(np.mean(np.subtract(rounded, exact))), 4)}
    show({**difference, 'deviation_of_seeds': round(float(np.std(exact, ddof=len(exact) > 1)), 4)}, options.json)


if __name__ == '__main__':
    main()
