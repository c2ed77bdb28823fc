"""Time and memory of the entity loss (L_el) with its gradients, against a loss that computes all scores at once.

python benchmarks/entity_softmax.py --entities 43000,1000000 --dim 128 --mentions 512,1024 --json

`chunked` scores the rows of E chunk by chunk, `sampled` estimates the softmax from `--num_sampled` entities. Each line has their
seconds and temporary bytes, and both over those of `dense`.
"""

import jax
import jax.numpy as jnp
import numpy as np
from command_line import add_timing, integers, make_parser, show
from timing import medians

from opql_jax.parallel import entity_table
from opql_jax.parallel.mesh import make_mesh


def dense_cross_entropy(vectors, labels, table):
    """The baseline: scores [M, n] in one array, kept for the backward pass."""
    scores = vectors @ table.T
    label_score = jnp.take_along_axis(scores, labels[:, None], axis=1)[:, 0]
    return jax.nn.logsumexp(scores, axis=1) - label_score, scores.argmax(axis=1) == labels


def measure(options, entities: int, mentions: int) -> dict:
    """{loss: {seconds, temp_bytes}} of one loss with its gradients to vectors and table; seconds are medians."""
    rng, mesh = np.random.default_rng(0), make_mesh()
    layout, num_sampled = entity_table.Layout(mesh, entities), min(options.num_sampled, entities)
    vectors = jnp.asarray(rng.standard_normal((mentions, options.dim), np.float32))
    labels = jnp.asarray(rng.integers(0, entities, mentions, np.int32))
    table = rng.standard_normal((entities, options.dim), np.float32) / np.float32(options.dim**0.5)
    table = entity_table.place(table, layout)
    losses = {
        'dense': lambda v, t: dense_cross_entropy(v, labels, t),
        'chunked': lambda v, t: entity_table.softmax_cross_entropy(v, labels, t, layout, options.chunk),
        'sampled': lambda v, t: entity_table.sampled_softmax_cross_entropy(
            v, labels, t, layout, num_sampled, jax.random.key(0)
        ),
    }

    def compiled(loss_function):
        def mean(vectors, table):
            loss, correct = loss_function(vectors, table)
            return loss.mean(), correct.mean()

        return jax.jit(jax.value_and_grad(mean, argnums=(0, 1), has_aux=True)).lower(vectors, table).compile()

    steps = {name: compiled(loss_function) for name, loss_function in losses.items()}
    calls = {name: lambda step=step: step(vectors, table) for name, step in steps.items()}
    seconds = medians(calls, options.calls, options.limit)
    temp_bytes = {name: step.memory_analysis().temp_size_in_bytes for name, step in steps.items()}
    return {name: {'seconds': seconds[name], 'temp_bytes': temp_bytes[name]} for name in steps}


def main():
    """Prints a line for each number of entities and of mentions."""
    parser = make_parser(__doc__)
    parser.add_argument('--entities', type=integers, default='43000,1000000')
    parser.add_argument('--dim', type=int, default=128)
    parser.add_argument('--mentions', type=integers, default='512,1024')
    parser.add_argument('--chunk', type=int, default=entity_table.DEFAULT_CHUNK, help='rows of E scored at a time')
    parser.add_argument('--num_sampled', type=int, default=4096)
    add_timing(parser)
    options = parser.parse_args()
    for entities in options.entities:
        for mentions in options.mentions:
            costs = measure(options, entities, mentions)
            line = {'entities': entities, 'dim': options.dim, 'mentions': mentions, 'devices': jax.device_count()}
            line |= {'chunk': options.chunk, 'num_sampled': options.num_sampled} | costs
            for name in ('chunked', 'sampled'):
                for cost in ('seconds', 'temp_bytes'):
                    line[f'{name}_over_dense_{cost}'] = costs[name][cost] / costs['dense'][cost]
            show(line, options.json)


if __name__ == '__main__':
    main()
