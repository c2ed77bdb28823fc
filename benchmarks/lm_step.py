"""A training step of the language model beside that of the same model with the memory off, in one run, and where its time goes.

python benchmarks/lm_step.py --entries 200000 --entities 40000 --size tiny --modes exact,approx --json

`parts` are differences between steps: the transformer alone (with the loss of its prediction against E), `linking_loss` (L_el), the
entity memory after a layer, and reading by each mode of the search (topics linked to E, search, rescoring, embedding, L_re). Texts are random; the step is that of
`Cloze`: one hidden mention and `--topics` that ask, forward, backward and AdamW.
"""

from opql_jax.training import malloc

if __name__ == '__main__':
    malloc.keep_freed_memory()

import argparse
import functools
import json

import jax
import numpy as np
from timing import medians

from opql_jax.data.sources.cloze import ClozeBatch
from opql_jax.data.texts import TextBucket, Texts
from opql_jax.memory.sharding import MODES, shard_memory
from opql_jax.models.encoder import RelationEncoder
from opql_jax.parallel import entity_table
from opql_jax.parallel.mesh import make_mesh, shard_batch
from opql_jax.training import objectives, state, trainer

SIZES = {
    'tiny': dict(hidden_size=128, num_layers=2, num_heads=2, mlp_size=512, relation_dim=256, entity_dim=64),
    'small': dict(hidden_size=256, num_layers=4, num_heads=4, mlp_size=1024, relation_dim=256, entity_dim=64),
    'base': dict(hidden_size=768, num_layers=12, num_heads=12, mlp_size=3072, relation_dim=512, entity_dim=256),
}
VOCABULARY = 30_000


def batch_of(rows, length, topics, entities, entries, rng):
    """A random batch."""
    places = np.sort(rng.integers(1, length - 2, (rows, 2 * topics)), axis=1).astype(np.int32)
    features = dict(
        tokens=rng.integers(10, VOCABULARY, (rows, length)),
        start=places[:, ::2],
        r1=places[:, 1::2],
        r2=np.full(rows, length - 1),
        topic=rng.integers(0, entities, (rows, topics)),
        gold=rng.integers(0, entries, (rows, topics, 4)),
        passage=np.arange(rows),
        label=rng.integers(0, entities, rows),
        answers=rng.integers(0, entities, (rows, 1)),
    )
    flags = dict(used=np.ones((rows, topics), bool), absent=rng.random((rows, topics)) < 0.5)
    named = {name: value.astype(np.int32) for name, value in features.items()} | flags
    texts = Texts(**{name: named.pop(name) for name in Texts._fields if name in named})
    return ClozeBatch((TextBucket(texts, **named),))


def measure(options):
    """{name: seconds} of one step each, medians, and {name: bytes} that each program holds: state, batch, memory and scratch."""
    rng, mesh = np.random.default_rng(0), make_mesh()
    sizes = SIZES[options.size]
    encoder = RelationEncoder(vocab_size=VOCABULARY, max_length=options.length, **sizes)
    layout = entity_table.Layout(mesh, options.entities)
    topic = np.sort(rng.integers(0, options.entities, options.entries)).astype(np.int32)
    target = rng.integers(0, options.entities, options.entries).astype(np.int32)
    relations = rng.standard_normal((options.entries, sizes['relation_dim']), np.float32)
    passages = rng.integers(0, options.entries // 10, (options.entries, 1)).astype(np.int32)
    batch = batch_of(options.rows, options.length, options.topics, options.entities, options.entries, rng)
    batch = shard_batch(batch, mesh)
    layer = sizes['num_layers'] // 2
    common = dict(rows=options.rows, topics=options.topics, k=options.k)
    ways = {
        'transformer': (objectives.Cloze(entity_layer=0, entity_weight=0.0, **common), None),
        'with_linking_loss': (objectives.Cloze(entity_layer=0, **common), None),
        'memory_off': (objectives.Cloze(entity_layer=layer, **common), None),
    }
    for mode in options.modes:
        # A path that is never opened: what it says is that there is a memory.
        objective = objectives.Cloze(entity_layer=layer, memory_dir='given', mode=mode, **common)
        ways[mode] = objective, shard_memory(topic, target, relations, mesh, mode=mode, passages=passages)
    calls, held_bytes = {}, {}
    for name, (objective, memory) in ways.items():
        params = objective.init(encoder, state.init_params(encoder, options.entities, 0))
        loss = functools.partial(objective.loss, encoder, layout)
        task = objectives.Task(source=None, loss=loss, trainable=objective.trainable, lineage={})
        optimizer = trainer.make_optimizer(1000)
        place = lambda tree, task=task: state.place(tree, layout, task.trainable)
        first = place(state.init_state(place(params), task.trainable, optimizer))
        compiled = trainer.make_train_step(task, optimizer, 0).lower(first, batch, memory).compile()
        sizes_of = compiled.memory_analysis()
        held_bytes[name] = sizes_of.argument_size_in_bytes + sizes_of.temp_size_in_bytes
        held = [first]

        def call(held=held, compiled=compiled, memory=memory):
            held[0], metrics = compiled(held[0], batch, memory)  # the old state's buffers are reused
            return metrics

        calls[name] = call
    return medians(calls, options.calls, options.limit), held_bytes


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--size', default='tiny', choices=SIZES)
    parser.add_argument('--entries', type=int, default=200_000)
    parser.add_argument('--entities', type=int, default=40_000)
    parser.add_argument('--rows', type=int, default=64)
    parser.add_argument('--length', type=int, default=96, help='tokens of a row')
    parser.add_argument('--topics', type=int, default=2)
    parser.add_argument('--k', type=int, default=32)
    parser.add_argument('--modes', default=['exact'], type=lambda modes: modes.split(','), help=f'of {", ".join(MODES)}')
    parser.add_argument('--calls', type=int, default=7, help='of each way, at most')
    parser.add_argument('--limit', type=float, default=120, help='seconds after which no further round of calls begins')
    parser.add_argument('--json', action='store_true')
    options = parser.parse_args()
    seconds, held_bytes = measure(options)
    order = ['transformer', 'with_linking_loss', 'memory_off']
    parts = {'transformer': seconds['transformer']}
    for name, (before, after) in zip(('linking_loss', 'entity_memory'), zip(order, order[1:])):
        parts[name] = seconds[after] - seconds[before]
    parts['reading'] = {mode: seconds[mode] - seconds['memory_off'] for mode in options.modes}
    shown = ('size', 'entries', 'entities', 'rows', 'length', 'topics', 'k')
    line = {name: getattr(options, name) for name in shown} | {'devices': jax.device_count(), 'seconds': seconds}
    line |= {'parts': parts, 'bytes': held_bytes}
    line['on_over_off'] = {mode: seconds[mode] / seconds['memory_off'] for mode in options.modes}
    print(json.dumps(line) if options.json else line, flush=True)


if __name__ == '__main__':
    main()
