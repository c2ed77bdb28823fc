"""A step of relation pretraining against the same step in PyTorch with transformers.

python benchmarks/train_step.py --model minilm --rows 32 --length 64 --json
python benchmarks/train_step.py --model minilm --rows 64 --job --kb KB --json

A step is forward, backward, clipping and AdamW over an encoder of the same size, with dropout 0.1, W_r, W_e and an entity table of
the same size: L_rel over all rows of the batch and L_el of two context mentions per row over all entities. PyTorch runs `BertModel`
eagerly with its fastest attention ('sdpa') and the fused AdamW. On a CPU both have the same `--threads` and are confined to as many
cores. Both keep freed memory, as `opql_jax.train` does (`training.malloc`), which makes PyTorch faster too.

Without `--job` both get the same random batch [rows, length] without padding, which measures the step itself. With `--job` they train
on pairs of a prepared folder (a generated one by default), with batches made beforehand. 'ours' are the batches of `Relations`:
length buckets in which every row is an anchor whose negatives are the other rows ('shared'). PyTorch gets the paper's groups, an
anchor with 2 positives and 8 hard negatives, padded to the longest row of each batch ('longest', what collators do and the fair
baseline) or to the longest row of the corpus ('padded'). `sequences` are rows that hold a pair; `anchors` are rows whose loss counts,
the measure of what a step teaches. `ratio` is ours over theirs in sequences per second, `ratio_of_anchors` in anchors.

FLOPs are those of `opql_jax.models.flops`, times 3 for training; our last layer is computed only where it is read, theirs everywhere.
So `mfu` tells how well each uses the device for what it computes, and the ratio of sequences includes the work that was saved. The
peak is the nominal bfloat16 peak on accelerators, and on a CPU the faster of both libraries' products of two 2048 x 2048 float32
matrices, measured in the same run. On a CPU, MFU and peak are per core-second of the process, since other processes may use the rest.
A step cannot be faster than FLOPs / peak (`limit_sequences_per_core_s`); what is no product (AdamW moves 28 bytes per parameter,
dropout, norms) comes on top. PyTorch is measured on a CPU, and on a GPU that it sees, there with the same `--dtype`.
"""

from opql_jax.training import malloc

if __name__ == '__main__':
    malloc.keep_freed_memory()

import functools
import importlib.util
import os
import tempfile
import time
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from command_line import add_timing, make_parser, show
from inputs import generated_corpus, make_encoder
from timing import medians
from train_program import TrainProgram, make_task

from opql_jax.data import batching
from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.prepared import Prepared
from opql_jax.data.sources.relations import RelationBatch, RelationSettings, RelationSource
from opql_jax.models.flops import TRAINING_OVER_FORWARD, encoder_flops, peak_flops
from opql_jax.parallel.entity_table import Layout
from opql_jax.parallel.mesh import make_mesh
from opql_jax.training import state
from opql_jax.training.objectives import Relations

VOCABULARY, ENTITIES = 30_000, 2_000  # of random batches
CONTEXT, MATRIX = 2, 2048


def random_batch(rows: int, length: int, rng, entities: int = ENTITIES) -> RelationBatch:
    """A batch of one bucket, with two mentions of each pair and no padding."""
    integers = lambda high, *shape: rng.integers(0, high, (rows, *shape)).astype(np.int32)
    pair = np.arange(rows, dtype=np.int32) // 2
    bucket = batching.PairBucket(
        tokens=10 + integers(VOCABULARY - 10, length),
        r1=integers(length),
        r2=integers(length),
        topic=pair,
        target=pair,
        anchor=np.ones(rows, bool),
        context_positions=integers(length, CONTEXT),
        context_entities=integers(entities, CONTEXT),
    )
    return RelationBatch((bucket,))


def in_one_bucket(batch: RelationBatch, length: int | None = None) -> RelationBatch:
    """A batch with all rows padded to a length, that of its longest row if None."""
    width = max(bucket.tokens.shape[1] for bucket in batch.pairs)
    widen = lambda tokens: np.pad(tokens, [(0, 0), (0, width - tokens.shape[1])])
    parts = [bucket._replace(tokens=widen(bucket.tokens)) for bucket in batch.pairs]
    bucket = batching.PairBucket(*map(np.concatenate, zip(*parts)))
    length = length or int((bucket.tokens != 0).sum(axis=1).max())
    tokens = bucket.tokens[:, :length]
    return RelationBatch((bucket._replace(tokens=np.pad(tokens, [(0, 0), (0, length - tokens.shape[1])])),))


def make_program(encoder, entities: int, mesh) -> TrainProgram:
    """The project's step of relation pretraining."""
    objective, layout = Relations(), Layout(mesh, entities)
    task = make_task(objective, functools.partial(objective.loss, encoder, layout))
    return TrainProgram(task, state.init_params(encoder, entities, 0), layout)


def torch_device() -> str | None:
    """The device on which PyTorch can be compared with JAX, if any."""
    platform = jax.default_backend()
    if platform != 'gpu' or not importlib.util.find_spec('torch'):
        return 'cpu' if platform == 'cpu' else None
    import torch

    return 'cuda' if torch.cuda.is_available() else None


class TorchStep:
    """The same step in PyTorch, over batches of one bucket."""

    def __init__(self, encoder, entities, device: str):
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
        project = lambda inputs, outputs: torch.nn.Linear(inputs, outputs, bias=False)
        self.torch, hidden = torch, encoder.hidden_size
        self.model = torch.nn.ModuleDict(
            {
                'bert': transformers.BertModel(config, add_pooling_layer=False),
                'w_r': project(2 * hidden, encoder.relation_dim),
                'w_e': project(hidden, encoder.entity_dim),
                'entity_table': project(encoder.entity_dim, entities),
            }
        ).train()
        self.device = torch.device(device)
        self.model.to(self.device)
        self.autocast = functools.partial(torch.autocast, device, torch.bfloat16, enabled=encoder.dtype == 'bfloat16')
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, betas=(0.9, 0.98), weight_decay=0.01, fused=True)

    def loss(self, batch: RelationBatch):
        """L_rel + L_el, as in `models.losses`."""
        torch, model = self.torch, self.model
        (bucket,) = batch.pairs
        column = lambda name: torch.from_numpy(getattr(bucket, name)).to(self.device)
        tokens, topic, target, entities = (
            column('tokens').long(),
            column('topic'),
            column('target'),
            column('context_entities').long().flatten(),
        )
        states = model['bert'](tokens, attention_mask=(tokens != 0).long()).last_hidden_state
        rows = torch.arange(len(tokens), device=self.device)
        relations = model['w_r'](torch.cat([states[rows, column('r1').long()], states[rows, column('r2').long()]], dim=1))
        others = (topic >= 0)[None] & ~torch.eye(len(tokens), dtype=bool, device=self.device)
        positives = (topic[:, None] == topic) & (target[:, None] == target) & others
        log_probs = (relations @ relations.T).masked_fill(~others, -1e30).log_softmax(dim=1)
        count = positives.sum(dim=1)
        loss = -torch.where(positives, log_probs, 0.0).sum(dim=1) / count.clamp(min=1)
        counted = column('anchor') & (topic >= 0) & (count > 0)
        mentions = model['w_e'](states[rows[:, None], column('context_positions').long()]).flatten(0, 1)
        linking = torch.nn.functional.cross_entropy(model['entity_table'](mentions), entities, ignore_index=-1, reduction='sum')
        return (loss * counted).sum() / counted.sum().clamp(min=1) + linking / (entities >= 0).sum().clamp(min=1)

    def __call__(self, batches):
        """Takes a step over each batch; returns the loss of the last."""
        for batch in batches:
            self.optimizer.zero_grad()
            with self.autocast():
                loss = self.loss(batch)
            loss.backward()
            self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
        return loss.item()


def products() -> dict:
    """By library: a function that multiplies two matrices, whose rate is the peak of a CPU."""
    import torch

    ours, theirs, product = jnp.ones((MATRIX, MATRIX)), torch.ones((MATRIX, MATRIX)), jax.jit(lambda m: m @ m)
    return {'jax': lambda: product(ours), 'torch': lambda: theirs @ theirs}


class Work(NamedTuple):
    """The work in some batches."""

    sequences: int
    anchors: int
    flops: float
    padded_tokens: int
    tokens: int


def work_of(encoder, batches, positions: int | None) -> Work:
    """The work of training on batches, with the last layer computed at so many `positions` per row."""
    total = np.zeros(len(Work._fields))
    for batch in batches:
        for bucket in batch.pairs:
            tokens, used = bucket.tokens, bucket.topic >= 0
            flops = TRAINING_OVER_FORWARD * encoder_flops(encoder, tokens.shape, positions)
            total += used.sum(), bucket.anchor.sum(), flops, tokens.size, (tokens[used] != 0).sum()
    return Work(*total.tolist())


def measure(encoder, entities: int, batches: dict[str, list[RelationBatch]], calls: int, limit: float) -> dict:
    """Rates of our step over the batches 'ours' and of PyTorch's over all others, called in turn, and the ratios."""
    kind = jax.devices()[0].device_kind
    cpu = kind == 'cpu'
    steps: dict = {'ours': make_program(encoder, entities, make_mesh())}
    if device := torch_device():
        steps |= {name: TorchStep(encoder, entities, device) for name in batches.keys() - {'ours'}}
    functions = {name: functools.partial(step, batches[name]) for name, step in steps.items()}
    functions |= products() if cpu else {}
    core_seconds: dict[str, list[float]] = {name: [] for name in functions}

    def timed(name):
        start = time.process_time()
        jax.block_until_ready(functions[name]())
        core_seconds[name].append(time.process_time() - start)

    seconds = medians({name: functools.partial(timed, name) for name in functions}, calls, limit)
    core_seconds = {name: spent[1:] for name, spent in core_seconds.items()}  # the first call compiles
    if cpu:
        peak = 2 * MATRIX**3 / min(core_seconds['jax'] + core_seconds['torch'])
    else:
        peak = peak_flops(kind) or float('nan')
    line: dict = {'devices': f'{jax.device_count()} x {kind}', 'peak_gflops': round(peak / 1e9, 1)}
    for name in steps:
        work = work_of(encoder, batches[name], 2 + CONTEXT if name == 'ours' else None)
        cores = float(np.median(core_seconds[name]))
        spent = cores if cpu else seconds[name] * jax.device_count()
        line[name] = {
            'sequences_per_s': round(work.sequences / seconds[name], 2),
            'anchors_per_s': round(work.anchors / seconds[name], 2),
            'step_seconds': round(seconds[name] / len(batches[name]), 4),
            'step_core_seconds': round(cores / len(batches[name]), 4),
            'mfu': round(work.flops / spent / peak, 3),
            'limit_sequences_per_core_s': round(work.sequences * peak / work.flops, 2),
            'sequences_per_core_s': round(work.sequences / spent, 2),
            'share_of_padding': round(1 - work.tokens / work.padded_tokens, 3),
        }
    for name in steps.keys() - {'ours'}:
        ratio = lambda rate, name=name: round(line['ours'][rate] / line[name][rate], 2)
        suffix = '_padded' if name == 'padded' else ''
        line[f'ratio{suffix}'] = ratio('sequences_per_s')
        line[f'ratio_of_core_seconds{suffix}'] = ratio('sequences_per_core_s')
        line[f'ratio_of_anchors{suffix}'] = ratio('anchors_per_s')
    return line


def job(options, folder: str):
    """The vocabulary size and the number of entities of a prepared folder, and batches by name, see `measure`."""
    if options.kb:
        prepared = Prepared(KBFolder(options.kb).part('text'))
    else:
        prepared = generated_corpus(folder, options.documents, max_tokens=128)
    settings = functools.partial(RelationSettings, rows=options.rows, max_context=CONTEXT)
    ours, groups = (RelationSource(prepared, settings(sampler=sampler)) for sampler in ('shared', 'groups'))
    our_batches, group_batches = ([source[step] for step in range(options.steps)] for source in (ours, groups))
    batches = {
        'ours': our_batches,
        'longest': [in_one_bucket(batch) for batch in group_batches],
        'padded': [in_one_bucket(batch, max(ours.capacities)) for batch in group_batches],
    }
    return prepared.tokenizer.get_vocab_size(), len(prepared.vocab), batches


def confine(threads: int) -> None:
    """Gives this process and both libraries so many cores; call it before JAX starts."""
    os.environ['NPROC'] = str(threads)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
    import torch

    torch.set_num_threads(threads)


def main():
    """Prints one line."""
    parser = make_parser(__doc__)
    parser.add_argument('--model', default='minilm', help='a size in gin/models')
    parser.add_argument('--rows', type=int, default=32, help='of a batch')
    parser.add_argument('--length', type=int, default=64, help='tokens of a row of a random batch')
    parser.add_argument('--job', action='store_true', help='rows of real lengths')
    parser.add_argument('--kb', help='a knowledge base, whose text is trained on')
    parser.add_argument('--documents', type=int, default=300, help='of the generated corpus')
    parser.add_argument('--steps', type=int, default=4, help='of the job, timed together')
    parser.add_argument('--dtype', default='float32', help="of our transformer's computation")
    parser.add_argument('--threads', type=int, default=1, help='of both, on a CPU')
    add_timing(parser)
    options = parser.parse_args()
    if os.environ.get('JAX_PLATFORMS', 'cpu') == 'cpu':  # an accelerator is used where it is named
        jax.config.update('jax_platforms', 'cpu')
        confine(options.threads)
    with tempfile.TemporaryDirectory() as folder:
        if options.job:
            vocabulary, entities, batches = job(options, folder)
        else:
            batch = random_batch(options.rows, options.length, np.random.default_rng(0))
            vocabulary, entities, batches = VOCABULARY, ENTITIES, {'ours': [batch], 'same_batch': [batch]}
        encoder = make_encoder(options.model, vocabulary, dtype=options.dtype)
        shown = ('model', 'rows', 'dtype', 'threads') + (() if options.job else ('length',))
        line = {name: getattr(options, name) for name in shown}
        line |= measure(encoder, entities, batches, options.calls, options.limit)
    show(line, options.json)


if __name__ == '__main__':
    main()
