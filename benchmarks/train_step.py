"""Relation pretraining beside Hugging Face's BERT in PyTorch: sequences a second and MFU, called in turn in one process.

python benchmarks/train_step.py --model minilm --rows 32 --length 64 --json
python benchmarks/train_step.py --model minilm --rows 64 --job --prepared_dir PREPARED --json

A step is forward, backward, clipping and AdamW over an encoder of the same size, with dropout 0.1, W_r, W_e and an entity table of the
same size: L_rel over all rows of the batch and L_el of two context mentions a row over all entities. Theirs is `BertModel` with its
fastest attention ('sdpa'), the fused AdamW, eager. On a CPU both have the same `--threads` and are confined to as many cores.

Both keep the memory that they free, as `opql_jax.train` does (`training.heap`; that makes PyTorch faster too).

Without `--job` both get the same random batch [rows, length] without padding: the step by itself. With it, the job: pairs of a prepared
folder (a generated one by default), batches made before the clock starts. Ours are those that `Relations` trains on: length
buckets, and every row an anchor whose negatives are the other rows ('shared'). Theirs are the paper's groups, an anchor with 2
positives and 8 hard negatives, padded to the longest row of each batch ('longest', what collators do, the fair baseline) or to
the longest of the corpus ('padded'). `sequences` are rows that hold a pair; `anchors` are rows whose loss is counted, so what a step teaches.
`ratio` is ours over theirs in sequences a second and `ratio_of_anchors` in anchors.

FLOPs are those of `opql_jax.models.flops`, times 3 for training: of ours, whose last layer is computed only where it is read, and of
theirs, where it is computed everywhere. So `mfu` says how well each uses the device for what it computes, and the ratio
of sequences holds the work saved too. The peak is, on accelerators, that of bfloat16 on paper, and on a CPU a product of two 2048 x 2048
float32 matrices in the same call, the fastest of both libraries'. On a CPU MFU and peak are of the core-seconds that the process had, as
other processes may have the rest. A step cannot be faster than FLOPs / peak (`limit_sequences_per_core_s`), and what is no product
(AdamW moves 28 bytes a parameter, dropout, norms) comes on top. Theirs is measured on CPUs only.
"""

from opql_jax.training import malloc

if __name__ == '__main__':
    malloc.keep_freed_memory()

import argparse
import functools
import json
import os
import pathlib
import tempfile
import time

import jax
import jax.numpy as jnp
import numpy as np
from timing import medians

import gin
from opql_jax.data import batching
from opql_jax.data.prepare import prepare
from opql_jax.data.prepared import Prepared
from opql_jax.data.sources.relations import RelationBatch, RelationSettings, RelationSource
from opql_jax.datasets.synthetic.reader import Synthetic
from opql_jax.models.encoder import RelationEncoder
from opql_jax.models.flops import TRAINING_OVER_FORWARD, encoder_flops, peak_flops
from opql_jax.parallel.entity_table import Layout
from opql_jax.parallel.mesh import make_mesh, shard_batch
from opql_jax.training import state, trainer
from opql_jax.training.objectives import Relations, Task

MODELS = pathlib.Path(__file__).parents[1] / 'gin' / 'models'
# That of gin/data/synthetic.gin, with passages of any length.
RECIPE = dict(wordpieces=4000, max_tokens=128, drop_above_rate=1.0)
VOCABULARY, ENTITIES = 30_000, 2_000  # of random batches
CONTEXT, MATRIX = 2, 2048


def random_batch(rows, length, rng):
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
        context_entities=integers(ENTITIES, CONTEXT),
    )
    return RelationBatch((bucket,))


def padded(batch, length=None):
    """A batch as one bucket of rows of a length, that of its longest row if None."""
    parts = [
        bucket._replace(tokens=np.pad(bucket.tokens, [(0, 0), (0, max(batching.BUCKET_LENGTHS) - bucket.tokens.shape[1])]))
        for bucket in batch.pairs
    ]
    bucket = batching.PairBucket(*map(np.concatenate, zip(*parts)))
    longest = length or int((bucket.tokens != 0).sum(axis=1).max())
    return RelationBatch((bucket._replace(tokens=bucket.tokens[:, :longest]),))


class Ours:
    """The project's train step, by hand."""

    def __init__(self, encoder, entities, mesh):
        objective, optimizer = Relations(), trainer.make_optimizer(1000)
        layout, params = Layout(mesh, entities), state.init_params(encoder, entities, 0)
        loss = functools.partial(objective.loss, encoder, layout)
        task = Task(source=None, loss=loss, trainable=objective.trainable, lineage={})
        place = lambda tree: state.place(tree, layout, task.trainable)
        self.state, self.mesh = place(state.init_state(place(params), task.trainable, optimizer)), mesh
        self.step, self.programs = trainer.make_train_step(task, optimizer, 0), {}

    def compiled(self, batch):
        """The program of a step over batches of these shapes."""
        shapes = tuple(value.shape for value in jax.tree.leaves(batch))
        if shapes not in self.programs:
            self.programs[shapes] = self.step.lower(self.state, shard_batch(batch, self.mesh), None).compile()
        return self.programs[shapes]

    def __call__(self, batches):
        for batch in batches:
            self.state, metrics = self.compiled(batch)(self.state, shard_batch(batch, self.mesh), None)
        return metrics['loss']


class Theirs:
    """The same step in PyTorch. Batches have one length."""

    def __init__(self, encoder, entities):
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
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, betas=(0.9, 0.98), weight_decay=0.01, fused=True)

    def loss(self, batch):
        torch, model = self.torch, self.model
        (bucket,) = batch.pairs
        of = lambda name: torch.from_numpy(getattr(bucket, name))
        tokens, topic, target, entities = (
            of('tokens').long(),
            of('topic'),
            of('target'),
            of('context_entities').long().flatten(),
        )
        states = model['bert'](tokens, attention_mask=(tokens != 0).long()).last_hidden_state
        rows = torch.arange(len(tokens))
        relations = model['w_r'](torch.cat([states[rows, of('r1').long()], states[rows, of('r2').long()]], dim=1))
        others = (topic >= 0)[None] & ~torch.eye(len(tokens), dtype=bool)
        positives = (topic[:, None] == topic) & (target[:, None] == target) & others
        log_probs = (relations @ relations.T).masked_fill(~others, -1e30).log_softmax(dim=1)
        count = positives.sum(dim=1)
        loss = -torch.where(positives, log_probs, 0.0).sum(dim=1) / count.clamp(min=1)
        counted = of('anchor') & (topic >= 0) & (count > 0)
        mentions = model['w_e'](states[rows[:, None], of('context_positions').long()]).flatten(0, 1)
        linking = torch.nn.functional.cross_entropy(model['entity_table'](mentions), entities, ignore_index=-1, reduction='sum')
        return (loss * counted).sum() / counted.sum().clamp(min=1) + linking / (entities >= 0).sum().clamp(min=1)

    def __call__(self, batches):
        for batch in batches:
            self.optimizer.zero_grad()
            loss = self.loss(batch)
            loss.backward()
            self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
        return loss.item()


def products():
    """{library: product of two matrices}, the peak that MFU is of where there is none on paper."""
    import torch

    here, there, product = jnp.ones((MATRIX, MATRIX)), torch.ones((MATRIX, MATRIX)), jax.jit(lambda m: m @ m)
    return {'jax': lambda: product(here), 'torch': lambda: there @ there}


def work(encoder, batches, positions):
    """(sequences, anchors, FLOPs, tokens with padding, tokens) of some batches."""
    total = np.zeros(5)
    for batch in batches:
        for bucket in batch.pairs:
            tokens, used = bucket.tokens, bucket.topic >= 0
            flops = TRAINING_OVER_FORWARD * encoder_flops(encoder, tokens.shape, positions)
            total += used.sum(), bucket.anchor.sum(), flops, tokens.size, (tokens[used] != 0).sum()
    return total


def measure(encoder, entities, batches, calls, limit):
    """One line: rates of each way over its batches {'ours', ...: batches}, called in turn, and the ratios."""
    kind = jax.devices()[0].device_kind
    cpu = kind == 'cpu'
    ways = {'ours': Ours(encoder, entities, make_mesh())}
    ways |= {name: Theirs(encoder, entities) for name in batches.keys() - {'ours'}} if cpu else {}
    calls_of, core_seconds = {name: lambda name=name: ways[name](batches[name]) for name in ways}, {}

    def timed(name, call):
        before = time.process_time()
        jax.block_until_ready(call())
        core_seconds.setdefault(name, []).append(time.process_time() - before)

    everything = calls_of | (products() if cpu else {})
    seconds = medians({name: lambda name=name: timed(name, everything[name]) for name in everything}, calls, limit)
    # The first call, which compiles, is not counted.
    cores = {name: float(np.median(spent[1:])) for name, spent in core_seconds.items()}
    peak = peak_flops(kind)
    if cpu:
        peak = 2 * MATRIX**3 / min(min(core_seconds['jax'][1:]), min(core_seconds['torch'][1:]))
    line = {'devices': f'{jax.device_count()} x {kind}', 'peak_gflops': round(peak / 1e9, 1)}
    for name in ways:
        made, anchors, flops, places, tokens = work(encoder, batches[name], 2 + CONTEXT if name == 'ours' else None)
        spent = cores[name] if cpu else seconds[name] * jax.device_count()
        line[name] = {
            'sequences_per_s': round(made / seconds[name], 2),
            'anchors_per_s': round(anchors / seconds[name], 2),
            'step_seconds': round(seconds[name] / len(batches[name]), 4),
            'step_core_seconds': round(cores[name] / len(batches[name]), 4),
            'mfu': round(flops / spent / peak, 3),
            'limit_sequences_per_core_s': round(made * peak / flops, 2),
            'sequences_per_core_s': round(made / spent, 2),
            'share_of_padding': round(1 - tokens / places, 3),
        }
    for name in ways.keys() - {'ours'}:
        by = lambda rate, name=name: round(line['ours'][rate] / line[name][rate], 2)
        end = '_padded' if name == 'padded' else ''
        line |= {f'ratio{end}': by('sequences_per_s'), f'ratio_of_core_seconds{end}': by('sequences_per_core_s')}
        line[f'ratio_of_anchors{end}'] = by('anchors_per_s')
    return line


def job(options, root):
    """(vocabulary, entities, {way: batches}) of a prepared folder."""
    if not options.prepared_dir:
        prepare(output_dir=root, reader=Synthetic(num_documents=options.documents, num_train=1, num_eval=1), **RECIPE)
    prepared = Prepared(options.prepared_dir or root)
    common = dict(rows=options.rows, max_context=CONTEXT)
    ours = RelationSource(prepared, RelationSettings(**common))
    groups = RelationSource(prepared, RelationSettings(sampler='groups', **common))
    ours_made, groups_made = ([source[step] for step in range(options.steps)] for source in (ours, groups))
    longest = max(ours.capacities)
    batches = {
        'ours': ours_made,
        'longest': list(map(padded, groups_made)),
        'padded': [padded(b, longest) for b in groups_made],
    }
    return prepared.tokenizer.get_vocab_size(), len(prepared.vocab), batches


def confine(threads):
    """Gives this process and both libraries so many cores; before JAX starts."""
    os.environ['NPROC'] = str(threads)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
    import torch

    torch.set_num_threads(threads)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--model', default='minilm', help='a size in gin/models')
    parser.add_argument('--rows', type=int, default=32, help='of a batch')
    parser.add_argument('--length', type=int, default=64, help='tokens of a row of a random batch')
    parser.add_argument('--job', action='store_true', help='real lengths')
    parser.add_argument('--prepared_dir')
    parser.add_argument('--documents', type=int, default=300, help='of the generated corpus')
    parser.add_argument('--steps', type=int, default=4, help='of the job, timed together')
    parser.add_argument('--dtype', default='float32', help="of our transformer's computation")
    parser.add_argument('--threads', type=int, default=1, help='of both, on a CPU')
    parser.add_argument('--calls', type=int, default=7, help='of each way, at most')
    parser.add_argument('--limit', type=float, default=120, help='seconds after which no further round of calls begins')
    parser.add_argument('--json', action='store_true')
    options = parser.parse_args()
    if os.environ.get('JAX_PLATFORMS', 'cpu') == 'cpu':  # an accelerator is asked for by name
        jax.config.update('jax_platforms', 'cpu')
        confine(options.threads)
    with tempfile.TemporaryDirectory() as root:
        if options.job:
            vocabulary, entities, batches = job(options, root)
        else:
            batch = random_batch(options.rows, options.length, np.random.default_rng(0))
            vocabulary, entities, batches = VOCABULARY, ENTITIES, {'ours': [batch], 'same_batch': [batch]}
        gin.parse_config_file(str(MODELS / f'{options.model}.gin'))
        encoder = gin.get_configurable(RelationEncoder)(vocab_size=vocabulary, dtype=options.dtype)
        shown = ('model', 'rows', 'dtype', 'threads') + (() if options.job else ('length',))
        line = {name: getattr(options, name) for name in shown}
        line |= measure(encoder, entities, batches, options.calls, options.limit)
    print(json.dumps(line) if options.json else json.dumps(line, indent=1))


if __name__ == '__main__':
    main()
