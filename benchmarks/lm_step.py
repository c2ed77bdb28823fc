"""A training step of the language model with the memory on and off, and where its time goes.

python benchmarks/lm_step.py --entries 200000 --entities 40000 --size tiny --modes exact,approx
--json

`parts` are differences between steps: the transformer alone (with the loss of its prediction
against E), `linking_loss` (L_el), the entity memory after a layer, and retrieval with each mode of
the search (topics attending over E, search, rescoring, embedding, L_re). Texts are random; the step
is that of `Cloze`: one hidden mention and `--topics` that query; forward, backward and AdamW.
"""

from opql_jax.training import malloc

if __name__ == '__main__':
    malloc.keep_freed_memory()

import functools

import jax
import numpy as np
from timing import TIMING, Size, chosen, make_parser, medians, show
from train_step import VOCABULARY, TrainProgram, make_encoder, make_task

from opql_jax.data.sources.cloze import ClozeBatch
from opql_jax.data.texts import TextBucket, Texts
from opql_jax.memory.sharding import MODES, shard_memory
from opql_jax.parallel import entity_table
from opql_jax.parallel.mesh import make_mesh
from opql_jax.training import state
from opql_jax.training.objectives import Cloze


def random_batch(options, rng) -> ClozeBatch:
    """A batch of one bucket, with every slot used."""
    rows, length, topics = options.rows, options.length, options.topics
    integers = lambda high, *shape: rng.integers(0, high, shape).astype(np.int32)
    positions = np.sort(rng.integers(1, length - 2, (rows, 2 * topics)), axis=1).astype(np.int32)
    texts = Texts(
        tokens=10 + integers(VOCABULARY - 10, rows, length),
        start=positions[:, ::2],
        r1=positions[:, 1::2],
        r2=np.full(rows, length - 1, np.int32),
        used=np.ones((rows, topics), bool),
        gold=integers(options.entries, rows, topics, 4),
        passage=np.arange(rows, dtype=np.int32),
    )
    bucket = TextBucket(
        texts,
        topic=integers(options.entities, rows, topics),
        absent=rng.random((rows, topics)) < 0.5,
        label=integers(options.entities, rows),
        answers=integers(options.entities, rows, 1),
        left_out=np.zeros(rows, np.int32),
    )
    return ClozeBatch((bucket,))


def measure(options) -> tuple[dict[str, float], dict[str, int]]:
    """Median seconds of each step, and the bytes of its state, batch, memory and temporaries."""
    rng, mesh = np.random.default_rng(0), make_mesh()
    fields = {'max_length': options.length, 'dtype': options.dtype}
    encoder = make_encoder(options.size, VOCABULARY, **fields)
    layout = entity_table.Layout(mesh, options.entities)
    topic = np.sort(rng.integers(0, options.entities, options.entries)).astype(np.int32)
    target = rng.integers(0, options.entities, options.entries).astype(np.int32)
    relations = rng.standard_normal((options.entries, encoder.relation_dim), np.float32)
    passages = rng.integers(0, options.entries // 10, (options.entries, 1)).astype(np.int32)
    batch, layer = random_batch(options, rng), encoder.num_layers // 2
    make = functools.partial(Cloze, rows=options.rows, topics=options.topics, k=options.k)
    steps: dict[str, tuple] = {
        'transformer': (make(entity_layer=0, entity_weight=0.0), None),
        'with_linking_loss': (make(entity_layer=0), None),
        'memory_off': (make(entity_layer=layer), None),
    }
    for mode in options.modes:
        # Any path: it is not opened, but says that there is a memory.
        objective = make(entity_layer=layer, memory_dir='memory', mode=mode)
        steps[mode] = (
            objective,
            shard_memory(topic, target, relations, mesh, mode=mode, passages=passages),
        )
    calls, program_bytes = {}, {}
    for name, (objective, memory) in steps.items():
        params = objective.init(encoder, state.init_params(encoder, options.entities, 0))
        task = make_task(objective, functools.partial(objective.loss, encoder, layout))
        program = TrainProgram(task, params, layout, memory)
        analysis = program.compiled(batch).memory_analysis()
        program_bytes[name] = analysis.argument_size_in_bytes + analysis.temp_size_in_bytes
        calls[name] = functools.partial(program, [batch])
    return medians(calls, options.calls, options.limit), program_bytes


def main():
    """Prints one line."""
    parser = make_parser(
        __doc__,
        size=(Size('tiny'), 'in gin/models'),
        entries=(200_000, 'of the memory'),
        entities=(40_000, 'rows of the entity table'),
        rows=(64, 'of a batch'),
        length=(96, 'tokens of a row'),
        topics=(2, 'mentions of a row that query'),
        k=(32, 'entries found for a query'),
        dtype=('float32', "of the transformer's computation"),
        modes=(['exact'], f'of {", ".join(MODES)}'),
        **TIMING,
    )
    options = parser.parse_args()
    seconds, program_bytes = measure(options)
    parts = {
        'transformer': seconds['transformer'],
        'linking_loss': seconds['with_linking_loss'] - seconds['transformer'],
        'entity_memory': seconds['memory_off'] - seconds['with_linking_loss'],
        'retrieval': {mode: seconds[mode] - seconds['memory_off'] for mode in options.modes},
    }
    line = chosen(options, 'size', 'entries', 'entities', 'rows', 'length', 'topics', 'k')
    line |= {'devices': jax.device_count(), 'seconds': seconds, 'parts': parts}
    line['bytes'] = program_bytes
    line['on_over_off'] = {mode: seconds[mode] / seconds['memory_off'] for mode in options.modes}
    show(line, options.json)


if __name__ == '__main__':
    main()
