"""A step of relation pretraining against the same step in PyTorch with transformers.

python benchmarks/train_step.py --model minilm --rows 32 --length 64 --json

A step is forward, backward, clipping and AdamW over an encoder of the same size, with dropout 0.1,
W_r, W_e and an entity table of the same size: L_rel over all rows of a random batch without padding
and L_el of two context mentions per row over all entities. PyTorch runs `BertModel` eagerly with
its fastest attention ('sdpa') and the fused AdamW, on a CPU or on a GPU that it sees. On a CPU both
have the same `--threads` and cores, and keep freed memory, as `opql_jax.train` does. `ratio` is
ours over theirs in sequences per second. FLOPs are those of `opql_jax.models.flops`, times 3; our
last layer is computed only where it is read. `mfu` is of the nominal bfloat16 peak on accelerators,
and on a CPU, per core-second, of the faster of both libraries' products of two matrices.
"""

from opql_jax.training import malloc

if __name__ == '__main__':
    malloc.keep_freed_memory()

import functools
import importlib.util
import os
import pathlib
import time

import jax
import jax.numpy as jnp
import numpy as np
from timing import TIMING, Size, chosen, devices, make_parser, medians, show

import gin
from opql_jax.data import batching
from opql_jax.data.sources.relations import RelationBatch
from opql_jax.models.encoder import RelationEncoder
from opql_jax.models.flops import TRAINING_OVER_FORWARD, encoder_flops, peak_flops
from opql_jax.parallel.entity_table import Layout
from opql_jax.parallel.mesh import make_mesh, shard_batch
from opql_jax.training import state, trainer
from opql_jax.training.objectives import Objective, Relations, Task
from opql_jax.training.optimizer import make_optimizer

MODELS = pathlib.Path(__file__).parents[1] / 'gin' / 'models'
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


def make_encoder(model: str, vocab_size: int, **fields) -> RelationEncoder:
    """The encoder of a size in gin/models."""
    gin.parse_config_file(str(MODELS / f'{model}.gin'))
    return gin.get_configurable(RelationEncoder)(vocab_size=vocab_size, **fields)


def make_task(objective: Objective, loss) -> Task:
    """A task without data for a loss with encoder and layout bound."""
    return Task(source=None, loss=loss, trainable=objective.trainable, lineage={})


class TrainProgram:
    """Takes training steps (forward, backward, AdamW), compiled once for each set of shapes."""

    def __init__(self, task: Task, params, layout: Layout, memory=None):
        """Places parameters as `layout` says; `memory` is passed to the loss."""
        optimizer = make_optimizer(1000)
        place = lambda tree: state.place(tree, layout, task.trainable)
        self.state = place(state.init_state(place(params), task.trainable, optimizer))
        self._step = trainer.make_train_step(task, optimizer, 0, layout.mesh)
        self._mesh, self._memory = layout.mesh, memory
        self._programs: dict = {}

    def compiled(self, batch):
        """The program of a step over batches of these shapes."""
        shapes = tuple(array.shape for array in jax.tree.leaves(batch))
        if shapes not in self._programs:
            sharded = shard_batch(batch, self._mesh)
            self._programs[shapes] = self._step.lower(self.state, sharded, self._memory).compile()
        return self._programs[shapes]

    def __call__(self, batches):
        """Takes a step over each batch; returns the loss of the last."""
        for batch in batches:
            self.state, metrics = self.compiled(batch)(
                self.state, shard_batch(batch, self._mesh), self._memory
            )
        return metrics['loss']


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
        self.autocast = functools.partial(
            torch.autocast, device, torch.bfloat16, enabled=encoder.dtype == 'bfloat16'
        )
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=1e-4, betas=(0.9, 0.98), weight_decay=0.01, fused=True
        )

    def loss(self, batch: RelationBatch):
        """L_rel + L_el, as in `models.losses`."""
        torch, model = self.torch, self.model
        (bucket,) = batch.pairs
        column = lambda name: torch.from_numpy(getattr(bucket, name)).to(self.device)
        tokens, topic, target = column('tokens').long(), column('topic'), column('target')
        entities = column('context_entities').long().flatten()
        states = model['bert'](tokens, attention_mask=(tokens != 0).long()).last_hidden_state
        rows = torch.arange(len(tokens), device=self.device)
        relations = model['w_r'](
            torch.cat([states[rows, column('r1').long()], states[rows, column('r2').long()]], dim=1)
        )
        others = (topic >= 0)[None] & ~torch.eye(len(tokens), dtype=bool, device=self.device)
        positives = (topic[:, None] == topic) & (target[:, None] == target) & others
        log_probs = (relations @ relations.T).masked_fill(~others, -1e30).log_softmax(dim=1)
        count = positives.sum(dim=1)
        loss = -torch.where(positives, log_probs, 0.0).sum(dim=1) / count.clamp(min=1)
        counted = column('anchor') & (topic >= 0) & (count > 0)
        mentions = states[rows[:, None], column('context_positions').long()].flatten(0, 1)
        linking = torch.nn.functional.cross_entropy(
            model['entity_table'](model['w_e'](mentions)),
            entities,
            ignore_index=-1,
            reduction='sum',
        )
        return (loss * counted).sum() / counted.sum().clamp(min=1) + linking / (
            entities >= 0
        ).sum().clamp(min=1)

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

    ours, theirs = jnp.ones((MATRIX, MATRIX)), torch.ones((MATRIX, MATRIX))
    product = jax.jit(lambda m: m @ m)
    return {'jax': lambda: product(ours), 'torch': lambda: theirs @ theirs}


def measure(encoder, entities: int, batch: RelationBatch, calls: int, limit: float) -> dict:
    """Rates of our step and of PyTorch's over a batch, called in turn, and the ratios."""
    kind = jax.devices()[0].device_kind
    cpu = kind == 'cpu'
    steps: dict = {'ours': make_program(encoder, entities, make_mesh())}
    if device := torch_device():
        steps['torch'] = TorchStep(encoder, entities, device)
    functions = {name: functools.partial(step, [batch]) for name, step in steps.items()}
    functions |= products() if cpu else {}
    core_seconds: dict[str, list[float]] = {name: [] for name in functions}

    def timed(name):
        start = time.process_time()
        jax.block_until_ready(functions[name]())
        core_seconds[name].append(time.process_time() - start)

    seconds = medians({name: functools.partial(timed, name) for name in functions}, calls, limit)
    # The first call compiles.
    core_seconds = {name: spent[1:] for name, spent in core_seconds.items()}
    if cpu:
        peak = 2 * MATRIX**3 / min(core_seconds['jax'] + core_seconds['torch'])
    else:
        peak = peak_flops(kind) or float('nan')
    line: dict = {'devices': devices(), 'peak_gflops': round(peak / 1e9, 1)}
    (bucket,) = batch.pairs
    for name in steps:
        # Our last layer is computed only where it is read.
        positions = 2 + CONTEXT if name == 'ours' else None
        flops = TRAINING_OVER_FORWARD * encoder_flops(encoder, bucket.tokens.shape, positions)
        cores = float(np.median(core_seconds[name]))
        spent = cores if cpu else seconds[name] * jax.device_count()
        line[name] = {
            'sequences_per_s': round(len(bucket.tokens) / seconds[name], 2),
            'step_seconds': round(seconds[name], 4),
            'step_core_seconds': round(cores, 4),
            'mfu': round(flops / spent / peak, 3),
            'sequences_per_core_s': round(len(bucket.tokens) / spent, 2),
        }
    if 'torch' in steps:
        ratio = lambda rate: round(line['ours'][rate] / line['torch'][rate], 2)
        line |= {
            'ratio': ratio('sequences_per_s'),
            'ratio_of_core_seconds': ratio('sequences_per_core_s'),
        }
    return line


def confine(threads: int) -> None:
    """Gives this process and both libraries so many cores; call it before JAX starts."""
    os.environ['NPROC'] = str(threads)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
    import torch

    torch.set_num_threads(threads)


def main():
    """Prints one line."""
    parser = make_parser(
        __doc__,
        model=(Size('minilm'), 'in gin/models'),
        rows=(32, 'of a batch'),
        length=(64, 'tokens of a row'),
        dtype=('float32', "of our transformer's computation"),
        threads=(1, 'of both, on a CPU'),
        **TIMING,
    )
    options = parser.parse_args()
    if os.environ.get('JAX_PLATFORMS', 'cpu') == 'cpu':  # an accelerator is used where it is named
        jax.config.update('jax_platforms', 'cpu')
        confine(options.threads)
    batch = random_batch(options.rows, options.length, np.random.default_rng(0))
    encoder = make_encoder(options.model, VOCABULARY, dtype=options.dtype)
    line = chosen(options, 'model', 'rows', 'dtype', 'threads', 'length')
    line |= measure(encoder, ENTITIES, batch, options.calls, options.limit)
    show(line, options.json)


if __name__ == '__main__':
    main()
