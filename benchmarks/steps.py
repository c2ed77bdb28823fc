"""Training steps against PyTorch's, with and without a memory, and their input and checkpoints.

python benchmarks/steps.py relations --rows 32 --length 64 --threads 1 --json
python benchmarks/steps.py lm --model tiny --rows 64 --length 96 --entities 40000 --json
python benchmarks/steps.py saves --model base --rows 4 --entities 100000 --folder /mnt/runs --json
python benchmarks/steps.py input --json

A step is forward, backward, clipping and AdamW over a random batch of so many `rows` of `length`
tokens, with dropout 0.1. `model` is a file of gin/models, `dtype` of our transformer. Of a CPU all
cores are used, or so many `threads`; an accelerator where JAX_PLATFORMS names it: cuda,cpu.

relations  Relation pretraining against the same step in PyTorch with transformers, over an encoder,
           W_r, W_e and an entity table of the same size: L_rel over all rows, without padding, and
           L_el of two context mentions per row over all entities. PyTorch runs `BertModel` eagerly
           with its fastest attention ('sdpa') and the fused AdamW. On a CPU both keep freed memory,
           as `opql_jax.train` does. `ratio` is theirs over ours in seconds. `mfu`, of accelerators,
           is of the nominal bfloat16 peak, by the FLOPs of `opql_jax.models.flops` times 3.
lm         The language model (`Cloze`): one hidden mention, two topics that query `entries`.
           `on_over_off` are seconds with a memory, by the mode of its search, over those without.
saves      Relation pretraining with a checkpoint among the steps: `waited_seconds` until the state
           is copied, so that training may go on; `lost_seconds` also what steps took longer until
           it was whole on disk; `share` is that of an interval of 20 minutes.
input      `milliseconds` of CPU time that a batch of 512 rows takes a core at the paper's shapes,
           by objective. The text is generated: as many full `pieces` as entities, with at least as
           many mentions as hyperlinks give Wikipedia.
"""

from opql_jax.training import malloc

if __name__ == '__main__':
    malloc.keep_freed_memory()

import functools
import os
import pathlib
import statistics
import tempfile
import time
import types
from collections.abc import Callable, Iterator

# PyTorch wants a part of the memory.
os.environ.setdefault('XLA_PYTHON_CLIENT_PREALLOCATE', 'false')

import jax
import numpy as np
from timing import chosen, medians, milliseconds, over, run, torch_device

import gin
from opql_jax.core.distributed import describe_devices
from opql_jax.data import batching, passage_records
from opql_jax.data.lm_markup import TextBatch, TextBucket, Texts
from opql_jax.data.markup import TokenisedPassage
from opql_jax.data.sources.cloze import ClozeSource, EntryIndex
from opql_jax.data.sources.entities import EntitySource
from opql_jax.data.sources.relations import RelationBatch, RelationSettings, RelationSource
from opql_jax.data.tokenizer import SpecialIds
from opql_jax.memory.sharding import MODES, shard_memory
from opql_jax.models.encoder import RelationEncoder, init_params
from opql_jax.models.flops import TRAINING_OVER_FORWARD, encoder_flops, peak_flops
from opql_jax.parallel.entity_table import Layout
from opql_jax.parallel.mesh import make_mesh, shard_batch
from opql_jax.training import state, trainer
from opql_jax.training.checkpoints import Checkpoints
from opql_jax.training.objectives import Cloze, Objective, Relations, Task
from opql_jax.training.optimizer import make_optimizer

MODELS = pathlib.Path(__file__).parents[1] / 'gin' / 'models'
VOCABULARY, CONTEXT = 30_000, 2  # words, and context mentions of a row
TOPICS, K = 2, 32  # of the language model: mentions of a row that query, and entries found
# Minutes between checkpoints; steps before one, whose median is the usual time.
MINUTES, STEPS = 20, 5
# Of input: tokens of a piece, rows of a batch, and batches.
TOKENS, ROWS, BATCHES = 122, 512, 10


def relation_batch(rows: int, length: int, entities: int) -> RelationBatch:
    """A batch of one bucket, with two mentions of each pair and no padding."""
    rng, pair = np.random.default_rng(0), np.arange(rows, dtype=np.int32) // 2
    integers = lambda high, *shape: rng.integers(0, high, (rows, *shape)).astype(np.int32)
    tokens, r1, r2 = 10 + integers(VOCABULARY - 10, length), integers(length), integers(length)
    context = integers(length, CONTEXT), integers(entities, CONTEXT)
    anchor = np.ones(rows, bool)
    return RelationBatch((batching.PairBucket(tokens, r1, r2, pair, pair, anchor, *context),))


def cloze_batch(rows: int, length: int, topics: int, entities: int, entries: int) -> TextBatch:
    """A batch of one bucket, with every slot used."""
    rng = np.random.default_rng(0)
    integers = lambda high, *shape: rng.integers(0, high, (rows, *shape)).astype(np.int32)
    positions = np.sort(rng.integers(1, length - 2, (rows, 2 * topics)), axis=1).astype(np.int32)
    tokens, gold = 10 + integers(VOCABULARY - 10, length), integers(entries, topics, 4)
    places = positions[:, ::2], positions[:, 1::2], np.full(rows, length - 1, np.int32)
    used, passage = np.ones((rows, topics), bool), np.arange(rows, dtype=np.int32)
    texts = Texts(tokens, *places, used, gold, passage)
    topic, absent = integers(entities, topics), rng.random((rows, topics)) < 0.5
    answers = integers(entities), integers(entities, 1), np.zeros(rows, np.int32)
    return TextBatch((TextBucket(texts, topic, absent, *answers),))


def make_encoder(model: str, **fields) -> RelationEncoder:
    """The encoder of a size in gin/models."""
    gin.parse_config_file(str(MODELS / f'{model}.gin'))
    return gin.get_configurable(RelationEncoder)(vocab_size=VOCABULARY, **fields)


def make_task(objective: Objective, encoder: RelationEncoder, layout: Layout) -> Task:
    """The task of an objective, without data."""
    loss = functools.partial(objective.loss, encoder, layout)
    return Task(source=None, loss=loss, trainable=objective.trainable, lineage={})


def make_params(objective: Objective, encoder: RelationEncoder, entities: int) -> dict:
    """The parameters that an objective starts from."""
    params = init_params(encoder, entities, 0)
    return objective.init(encoder, params) if isinstance(objective, Cloze) else params


class Step:
    """Training steps over one batch."""

    def __init__(self, objective, encoder: RelationEncoder, entities: int, batch, memory=None):
        layout = Layout(make_mesh(), entities)
        task, optimizer = make_task(objective, encoder, layout), make_optimizer(1000)
        place = lambda tree: state.place(tree, layout, task.trainable)
        params = place(make_params(objective, encoder, entities))
        self.state = place(state.init_state(params, task.trainable, optimizer))
        self._step = trainer.make_train_step(task, optimizer, 0, layout.mesh)
        self._mesh, self._batch, self._memory = layout.mesh, batch, memory

    def __call__(self):
        """Takes a step; returns the loss."""
        batch = shard_batch(self._batch, self._mesh)
        self.state, metrics = self._step(self.state, batch, self._memory)
        return metrics['loss']


# ---- Relations ----


class TorchStep:
    """Steps of relation pretraining in PyTorch, over one batch of one bucket."""

    def __init__(self, encoder: RelationEncoder, entities: int, batch: RelationBatch, device: str):
        import torch
        import transformers

        config = transformers.BertConfig(
            vocab_size=encoder.vocab_size,
            hidden_size=encoder.hidden_size,
            num_hidden_layers=encoder.num_layers,
            num_attention_heads=encoder.num_heads,
            intermediate_size=encoder.mlp_size,
            max_position_embeddings=encoder.max_length,
            hidden_dropout_prob=encoder.dropout_rate,
            attention_probs_dropout_prob=encoder.dropout_rate,
            attn_implementation='sdpa',
        )
        project, hidden = functools.partial(torch.nn.Linear, bias=False), encoder.hidden_size
        parts = {
            'bert': transformers.BertModel(config, add_pooling_layer=False),
            'w_r': project(2 * hidden, encoder.relation_dim),
            'w_e': project(hidden, encoder.entity_dim),
            'entity_table': project(encoder.entity_dim, entities),
        }
        self.torch, self.device = torch, torch.device(device)
        self.model = torch.nn.ModuleDict(parts).train().to(self.device)
        enabled = encoder.dtype == 'bfloat16'
        self.autocast = lambda: torch.autocast(device, torch.bfloat16, enabled=enabled)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=1e-4, betas=(0.9, 0.98), weight_decay=0.01, fused=True
        )
        (self.bucket,) = batch.pairs

    def loss(self):
        """L_rel + L_el, as in `models.losses`, of a batch in which every slot is used."""
        torch, model = self.torch, self.model
        column = lambda name: torch.from_numpy(getattr(self.bucket, name)).to(self.device).long()
        tokens, topic, target = map(column, ('tokens', 'topic', 'target'))
        states = model['bert'](tokens, attention_mask=(tokens != 0).long()).last_hidden_state
        rows = torch.arange(len(tokens), device=self.device)
        of_pair = [states[rows, column(marker)] for marker in ('r1', 'r2')]
        relations = model['w_r'](torch.cat(of_pair, dim=1))
        others = ~torch.eye(len(tokens), dtype=bool, device=self.device)
        positives = (topic[:, None] == topic) & (target[:, None] == target) & others
        log_probs = (relations @ relations.T).masked_fill(~others, -1e30).log_softmax(dim=1)
        count = positives.sum(dim=1)
        loss = -torch.where(positives, log_probs, 0.0).sum(dim=1) / count.clamp(min=1)
        mentions = states[rows[:, None], column('context_positions')].flatten(0, 1)
        scores = model['entity_table'](model['w_e'](mentions))
        entities = column('context_entities').flatten()
        linking = torch.nn.functional.cross_entropy(scores, entities)
        return loss.sum() / (count > 0).sum() + linking

    def __call__(self):
        """Takes a step; returns the loss."""
        self.optimizer.zero_grad()
        with self.autocast():
            loss = self.loss()
        loss.backward()
        self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.item()


def relation_step(options) -> tuple[RelationEncoder, RelationBatch, Step]:
    """The encoder and the batch of relation pretraining, and its step."""
    encoder = make_encoder(options.model, dtype=options.dtype)
    batch = relation_batch(options.rows, options.length, options.entities)
    return encoder, batch, Step(Relations(), encoder, options.entities, batch)


def measure_relations(options) -> dict:
    """Seconds of our step and of PyTorch's, called in turn, and their ratio."""
    encoder, batch, step = relation_step(options)
    steps: dict[str, Callable] = {'ours': step}
    if device := torch_device():
        steps['torch'] = TorchStep(encoder, options.entities, batch, device)
    seconds = medians(steps, calls=10, limit=120)
    line: dict = {'step_seconds': {name: round(spent, 4) for name, spent in seconds.items()}}
    if peak := peak_flops(jax.devices()[0].device_kind):
        # Our last layer is computed only where it is read.
        flops = encoder_flops(encoder, (options.rows, options.length), 2 + CONTEXT)
        flops *= TRAINING_OVER_FORWARD / jax.device_count()
        line['mfu'] = round(flops / seconds['ours'] / peak, 3)
    return line | ({'ratio': over(seconds, 'ours')['torch']} if device else {})


# ---- The language model ----


def measure_language_model(options) -> dict:
    """Seconds of a step without a memory, and with one in each mode of its search."""
    rng, entities, entries = np.random.default_rng(0), options.entities, options.entries
    encoder = make_encoder(options.model, max_length=options.length, dtype=options.dtype)
    topic = np.sort(rng.integers(0, entities, entries)).astype(np.int32)
    target = rng.integers(0, entities, entries).astype(np.int32)
    relations = rng.standard_normal((entries, encoder.relation_dim), np.float32)
    passages = rng.integers(0, entries // 10, (entries, 1)).astype(np.int32)
    batch = cloze_batch(options.rows, options.length, TOPICS, entities, entries)
    objective = functools.partial(
        Cloze, rows=options.rows, topics=TOPICS, k=K, entity_layer=encoder.num_layers // 2
    )
    steps = {'memory_off': Step(objective(), encoder, entities, batch)}
    for mode in MODES:
        memory = shard_memory(topic, target, relations, make_mesh(), mode=mode, passages=passages)
        # Any path: it is not opened, but says that there is a memory.
        with_memory = objective(memory_dir='memory', mode=mode)
        steps[mode] = Step(with_memory, encoder, entities, batch, memory)
    seconds = medians(steps, calls=7, limit=120)
    on = over(seconds, 'memory_off')
    return {'entries': entries, 'step_seconds': seconds, 'on_over_off': on}


# ---- Checkpoints ----


def measure_saves(options) -> dict:
    """Seconds lost to the second checkpoint: the first one makes the folder."""
    *_, step = relation_step(options)

    def timed(function):
        started = time.perf_counter()
        jax.block_until_ready(function())
        return time.perf_counter() - started

    step()  # which compiles
    with tempfile.TemporaryDirectory(dir=options.folder) as folder, Checkpoints(folder, 1) as kept:
        for number in (1, 2):
            usual = statistics.median(timed(step) for _ in range(STEPS))
            parts = step.state.params, step.state.opt_state
            waited = timed(lambda: kept.save(number, *parts, {'step': number}))
            lost = waited
            while not (kept.directory / str(number)).exists():
                lost += timed(step) - usual
            kept.wait()
    told = {'gigabytes': sum(leaf.nbytes for leaf in jax.tree.leaves(step.state)) / 1e9}
    told |= {'step_seconds': usual, 'waited_seconds': waited, 'lost_seconds': lost}
    told['share'] = lost / (60 * MINUTES)
    return {name: round(value, 5) for name, value in told.items()}


# ---- Input ----


def made_text(folder: pathlib.Path, pieces: int, rng) -> types.SimpleNamespace:
    """A prepared text as sources read it: full pieces with 2 to 20 mentions of skewed entities."""
    passages, pairs = [], []
    for number in range(pieces):
        count = int(np.clip(rng.poisson(8), 2, 20))
        starts = np.sort(rng.choice(TOKENS // 3, count, replace=False)).astype(np.int32) * 3
        found = (pieces * rng.random(count) ** 3).astype(np.int32)
        tokens = rng.integers(10, VOCABULARY, TOKENS, dtype=np.int32)
        ends = starts + rng.integers(1, 4, count, dtype=np.int32)
        passages.append(TokenisedPassage(tokens, starts, ends, found))
        i, j = (axis.ravel() for axis in np.mgrid[:count, :count])
        kept = found[i] != found[j]
        pairs.append(np.stack([found[i], found[j], np.full(count * count, number), i, j])[:, kept])
    passage_records.write_passages(folder / 'text', map(passage_records.encode_passage, passages))
    table = np.concatenate(pairs, axis=1)
    table = table[:, np.lexsort((table[1], table[0]))].astype(np.int32)
    columns = dict(zip(('topic', 'target', 'passage', 'topic_mention', 'target_mention'), table))
    return types.SimpleNamespace(
        records=passage_records.PassageRecords(folder / 'text'),
        special=SpecialIds(pad=0, unk=1, cls=2, sep=3, ent=5, r1=6, r2=7),
        pairs=columns,
    )


def made_entries(columns, rng) -> EntryIndex:
    """A memory of half of the pairs, each read in up to five pieces."""
    key = columns['topic'].astype(np.int64) << 32 | columns['target']
    _, first = np.unique(key, return_index=True)
    first = first[rng.random(len(first)) < 0.5]
    passages = rng.choice(columns['passage'], (len(first), 5))
    passages[:, 0] = columns['passage'][first]
    return EntryIndex(columns['topic'][first], columns['target'][first], passages)


def measure_input(options) -> dict:
    """CPU time of a batch of each objective."""
    rng, buckets, spent = np.random.default_rng(0), ((128, ROWS),), {}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        text = made_text(pathlib.Path(folder), options.pieces, rng)
        settings = RelationSettings('groups', 'mentions', ROWS, buckets=buckets, max_context=16)
        entries, longer = made_entries(text.pairs, rng), ((144, ROWS),)
        sources = {
            'entities': EntitySource(text, ROWS, buckets=buckets),
            'relations': RelationSource(text, settings),
            'lm_cloze': ClozeSource(text, entries=entries, rows=ROWS, topics=16, buckets=longer),
        }
        for name, source in sources.items():
            source[0]
            started = time.process_time()
            for step in range(BATCHES):
                source[step]
            spent[name] = (time.process_time() - started) / BATCHES
    return {'milliseconds': milliseconds(spent)}


SUBJECTS = {
    'relations': measure_relations,
    'lm': measure_language_model,
    'saves': measure_saves,
    'input': measure_input,
}


def lines(options) -> Iterator[dict]:
    """The line of a subject."""
    if os.environ.get('JAX_PLATFORMS', 'cpu') == 'cpu':  # an accelerator is used where it is named
        jax.config.update('jax_platforms', 'cpu')
        if options.threads:  # before JAX starts
            os.environ['NPROC'] = str(options.threads)
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-options.threads :])
            import torch

            torch.set_num_threads(options.threads)
    line = chosen(options, 'subject', 'model', 'rows', 'length', 'entities', 'dtype', 'threads')
    yield line | {'devices': describe_devices()} | SUBJECTS[options.subject](options)


if __name__ == '__main__':
    sizes = {'rows': 32, 'length': 64, 'entities': 2_000, 'entries': 200_000}
    others = {'pieces': 20_000, 'dtype': 'float32', 'threads': 0, 'folder': str}
    run(__doc__, dict.fromkeys(SUBJECTS, lines), model='minilm', **sizes, **others)
