"""Time and memory of the entity loss and its gradients beside the loss with all scores at once, in one run.

python benchmarks/entity_softmax.py --entities 43000,1000000 --dim 128 --mentions 512,1024 --json
"""

import argparse
import json

import jax
import jax.numpy as jnp
import numpy as np
from timing import medians

from opql_jax.parallel import entity_table
from opql_jax.parallel.mesh import make_mesh


def dense(vectors, labels, table):
    """The baseline: scores [M, n] in one array, kept for the backward pass."""
    scores = vectors @ table.T
    label_score = jnp.take_along_axis(scores, labels[:, None], axis=1)[:, 0]
    return jax.nn.logsumexp(scores, axis=1) - label_score, scores.argmax(axis=1) == labels


def measure(entities, dim, mentions, chunk, num_sampled, calls, limit):
    """{way: {seconds, temp_bytes}} of one training loss with gradients to vectors and table; seconds are medians."""
    rng, mesh = np.random.default_rng(0), make_mesh()
    layout = entity_table.Layout(mesh, entities)
    vectors = jnp.asarray(rng.standard_normal((mentions, dim), np.float32))
    labels = jnp.asarray(rng.integers(0, entities, mentions, np.int32))
    table = entity_table.place(rng.standard_normal((entities, dim), np.float32) / np.float32(dim**0.5), layout)
    losses = {
        'dense': lambda v, t: dense(v, labels, t),
        'chunked': lambda v, t: entity_table.softmax_cross_entropy(v, labels, t, layout, chunk),
        'sampled': lambda v, t: entity_table.sampled_softmax_cross_entropy(
            v, labels, t, layout, num_sampled, jax.random.key(0)
        ),
    }

    def compiled(loss_of):
        def mean(vectors, table):
            loss, correct = loss_of(vectors, table)
            return loss.mean(), correct.mean()

        return jax.jit(jax.value_and_grad(mean, argnums=(0, 1), has_aux=True)).lower(vectors, table).compile()

    steps = {name: compiled(loss_of) for name, loss_of in losses.items()}
    seconds = medians({name: lambda step=step: step(vectors, table) for name, step in steps.items()}, calls, limit)
    return {
        name: {'seconds': seconds[name], 'temp_bytes': step.memory_analysis().temp_size_in_bytes}
        for name, step in steps.items()
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--entities', default='43000,1000000')
    parser.add_argument('--dim', type=int, default=128)
    parser.add_argument('--mentions', default='512,1024')
    parser.add_argument('--chunk', type=int, default=entity_table.DEFAULT_CHUNK)
    parser.add_argument('--num_sampled', type=int, default=4096)
    parser.add_argument('--calls', type=int, default=7, help='of each way, at most')
    parser.add_argument('--limit', type=float, default=120, help='seconds after which no further round of calls begins')
    parser.add_argument('--json', action='store_true')
    options = parser.parse_args()
    for entities in map(int, options.entities.split(',')):
        for mentions in map(int, options.mentions.split(',')):
            found = measure(
                entities, options.dim, mentions, options.chunk, min(options.num_sampled, entities), options.calls, options.limit
            )
            base, ratios = found['dense'], {}
            for name in ('chunked', 'sampled'):
                for part in ('seconds', 'temp_bytes'):
                    ratios[f'{name}_over_dense_{part}'] = found[name][part] / base[part]
            line = {'entities': entities, 'dim': options.dim, 'mentions': mentions, 'devices': jax.device_count()}
            line |= {'chunk': options.chunk, 'num_sampled': options.num_sampled} | found | ratios
            print(json.dumps(line) if options.json else line, flush=True)


if __name__ == '__main__':
    main()
