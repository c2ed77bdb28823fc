"""The training loop: open the data, restore or initialise the state, step, log, checkpoint."""

import dataclasses
import logging
import math
import time
from collections.abc import Callable, Mapping

import jax
import numpy as np
import optax
from jax.sharding import Mesh

from opql_jax.core import distributed
from opql_jax.core.errors import Preempted
from opql_jax.core.preemption import PreemptionGuard
from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.prepared import Prepared
from opql_jax.data.sources import base
from opql_jax.data.sources.base import named_leaves
from opql_jax.models import released
from opql_jax.models.encoder import REMAT_POLICIES, RelationEncoder
from opql_jax.parallel import fsdp
from opql_jax.parallel import mesh as mesh_lib
from opql_jax.parallel.entity_table import Layout
from opql_jax.training import lineage as lineage_lib
from opql_jax.training import model_config
from opql_jax.training import state as state_lib
from opql_jax.training.checkpoints import Checkpoints
from opql_jax.training.objectives import ANSWERING, Objective, Task
from opql_jax.training.optimizer import adamw, check_update, make_optimizer
from opql_jax.training.progress import Progress, TrainingError
from opql_jax.training.state import TrainState

_log = logging.getLogger(__name__)

# Steps after which the keys of a memory follow the entity table that is trained.
REFRESH_EVERY = 5
# Parts of a batch that an error names.
_MAX_NAMED = 5


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """The settings of a run besides its objective and its encoder.

    Attributes:
        kb: the knowledge base, on disk or in a bucket. Its parts, and the memory of the objective,
            are named as `KBFolder` does.
        text: the prepared text.
        model: the part that is trained; receives checkpoints/, TensorBoard scalars, model.json,
            tokenizer.json.
        num_steps: updates in all.
        learning_rate, warmup_steps, clip_norm, optimizer, schedule: see `make_optimizer`.
        init_from: the model whose parameters training starts from.
        bert_folder: what the encoder starts from: the folder of a Hugging Face BERT, RoBERTa, MPNet
            or ModernBERT, of a released encoder, or of a run over text with other entities; or
            'minilm' or 'default' (see `state.starting_params`).
        orthogonal_w_r: starts with an orthogonal W_r, as with a BERT. Without one it depends on the
            data whether that helps: MetaQA gains, the demo loses.
        seed: of batches, dropout and fresh parameters.
        log_every: steps.
        checkpoint_every, checkpoint_minutes: steps, or time, from one checkpoint to the next,
            whichever comes first; None for no such limit. Time is checked with each report.
            Checkpoints are written in the background.
        keep_checkpoints: how many of the newest to keep; None for all.
        input_processes: that make batches; 0 for threads, see `sources.base.batches`.
        data_devices: devices along the mesh's data axis, in each slice; None for all.
        model_devices: devices along its model axis, which work on the same rows of a batch and
            share E and the encoder's matrices, for more devices than a batch has rows.
        accumulate_steps: parts of a batch that the encoder takes one after the other, and again in
            the backward pass, adding up gradients, so that only one part's activations are held.
            The loss, with all of its negatives, stays that of the whole batch.
        remat: what the backward pass recomputes: 'layers' for all but the input of each layer,
            'dots' for all but the products with parameters; None for nothing.
        slices: groups of devices with fast links inside and slow ones between them, such as the
            hosts of a cluster; each holds E and the memory whole. None for those that the devices
            name: TPU slices; of GPUs, hosts.
        profile_steps: (first, last) step, counted from 1, of which `jax.profiler` writes a trace to
            <model>/profile.
    """

    kb: str
    model: str
    num_steps: int
    text: str = 'text'
    learning_rate: float = 1e-3
    warmup_steps: int = 100
    clip_norm: float = 1.0
    optimizer: Callable[..., optax.GradientTransformation] = adamw
    schedule: optax.Schedule | None = None
    init_from: str | None = None
    bert_folder: str | None = None
    orthogonal_w_r: bool = False
    seed: int = 0
    log_every: int = 50
    checkpoint_every: int | None = 500
    checkpoint_minutes: float | None = None
    keep_checkpoints: int | None = 2
    input_processes: int = 0
    data_devices: int | None = None
    model_devices: int = 1
    accumulate_steps: int = 1
    remat: str | None = None
    slices: int | None = None
    profile_steps: tuple[int, int] | None = None

    @property
    def workdir(self) -> str:
        """The folder of the model."""
        return str(KBFolder(self.kb).part(self.model, new=True))


def train(
    objective: Objective,
    encoder: Callable[..., RelationEncoder],
    config: TrainConfig,
    *,
    on_checkpoint: Callable[[int], Mapping[str, float]] | None = None,
    gin_config: Callable[[], str] = str,
    dry_run: bool = False,
) -> dict:
    """Trains to `config.num_steps`, resuming from the newest checkpoint, if any.

    A model that answers questions then becomes the one that the knowledge base answers with.

    Args:
        objective: what is trained, on which batches.
        encoder: makes the relation encoder, called with the tokenizer's `vocab_size`.
        config: the run's settings.
        on_checkpoint: called with the step after each checkpoint, unless the run was asked to stop;
            returns metrics to log.
        gin_config: returns the operative configuration, which every checkpoint keeps.
        dry_run: print shapes and return without training.

    Returns the mean of every metric over the last logged window. TrainingError: a loss or gradient
    is not finite, at a step that it names; the folder holds another run, or one beyond `num_steps`;
    or optimizer, batch and devices do not go together, which is told before anything is compiled.
    InputError: what training starts from does not fit, or a folder is somebody else's. Preempted: a
    SIGTERM came, and the state was saved.
    """
    # ---------------- Setup ----------------
    started = time.monotonic()
    check_start(config, objective)
    optimizer = optimizer_of(config)
    mesh = mesh_lib.make_mesh(config.data_devices, config.model_devices, config.slices)
    run = Run(objective, encoder, config, mesh)
    task, prepared, encoder = run.task, run.prepared, run.encoder
    layout = Layout(mesh, len(prepared.vocab))
    fresh = lambda: task.init(state_lib.init_params(encoder, len(prepared.vocab), config.seed))
    shapes = jax.eval_shape(lambda: state_lib.init_state(fresh(), task.trainable, optimizer))
    trained, _ = state_lib.split_params(shapes.params, task.trainable)
    check_update(config.optimizer, optimizer, trained, shapes.opt_state)
    state_lib.check_memory(shapes, layout, task.trainable)
    check_batch(task.source[0], mesh, config.accumulate_steps)

    if dry_run:
        starts = run.init_from or config.bert_folder
        params = run.starting_params(config.seed) if starts else jax.eval_shape(fresh)
        print_shapes(params, task)
        print_checkpoints(shapes, config)
        return {}

    # ---------------- Parameters: restored, or initialised ----------------
    folder, answers = KBFolder(config.kb), type(objective).__name__ in ANSWERING
    if answers:
        folder.stated()  # says what is wrong with the manifest now, and not after the training
    with distributed.writer(config.workdir):
        model_config.check_free(config.workdir)
        distributed.barrier('the folder was looked at')
        checkpoints = Checkpoints(config.workdir, keep=config.keep_checkpoints)
        lineage = run.lineage()
        place = lambda tree: state_lib.place(tree, layout, task.trainable)
        start, seconds_before = checkpoints.latest_step() or 0, 0.0
        if start > config.num_steps:
            raise TrainingError(
                f'{config.workdir} is at step {start} already, and num_steps is '
                f'{config.num_steps}: raise it, or use another workdir'
            )
        if start:
            written = model_config.read(config.workdir)
            model_config.check_start(written, encoder, prepared, config.workdir)
            meta = checkpoints.meta(start)
            lineage_lib.check_same_run(meta['lineage'], lineage, config.workdir)
            seconds_before = meta['seconds']
            params, opt_state, _ = checkpoints.restore(shapes.params, shapes.opt_state)
            state = place(TrainState(np.int32(start), params, opt_state))
            _log.info('resuming %s at step %d of %d', config.workdir, start, config.num_steps)
        else:
            params = run.starting_params(config.seed)
            if task.fit:
                params = task.fit(params)
            # The moments of a table that is placed already are made where its rows lie.
            state = place(state_lib.init_state(place(params), task.trainable, optimizer))
            if distributed.is_primary():
                model_config.write(config.workdir, encoder, prepared, run.pair_encoding)

        # ---------------- The loop ----------------
        def save(done):
            meta = {
                'step': done,
                'seed': config.seed,
                'seconds': round(seconds_before + time.monotonic() - started, 1),
                'hardware': distributed.describe_devices(),
                'lineage': lineage,
                'gin': gin_config(),
            }
            whole = shapes.params, shapes.opt_state
            checkpoints.save(done, state.params, state.opt_state, meta, whole)

        processes = config.input_processes
        batches = base.batches(task.source, start, config.num_steps, worker_processes=processes)
        dtype = getattr(encoder, 'dtype', 'float32')
        step_fn = make_train_step(task, optimizer, config.seed, mesh, dtype)
        refresh = None if task.refresh is None else jax.jit(task.refresh)
        searched, last = task.memory, {}
        saved, saved_at = True, time.monotonic()
        with (
            checkpoints,
            PreemptionGuard() as preemption,
            Progress(config, encoder, start, mesh.size) as progress,
        ):
            for step in range(start, config.num_steps):
                # After a checkpoint too, so that a run that goes on from it has the same keys.
                if refresh and (saved or step % REFRESH_EVERY == 0):
                    searched = refresh(task.memory, state.params)
                with progress.timed('data'):
                    batch = next(batches)
                progress.start_step(step, batch)
                state, metrics = step_fn(state, mesh_lib.shard_batch(batch, mesh), searched)
                progress.end_step(step, metrics)

                done = step + 1
                stop = preemption.should_stop(done)
                saved = stop or done == config.num_steps
                saved = saved or checkpoint_is_due(done, time.monotonic() - saved_at, config)
                if saved:
                    last = progress.report(done) or last
                    with progress.timed('checkpoint'), preemption.saving():
                        save(done)
                        if stop or done == config.num_steps or on_checkpoint:
                            checkpoints.wait()
                    saved_at = time.monotonic()
                    # A run that is done is not started again, to be scored then.
                    if on_checkpoint and (not stop or done == config.num_steps):
                        with progress.timed('checkpoint'):
                            scores = on_checkpoint(done)
                        progress.write(done, scores)
                elif done % config.log_every == 0:
                    last = progress.report(done) or last
                if stop and done < config.num_steps:
                    raise Preempted(
                        f'{config.workdir} was asked to stop: step {done} of {config.num_steps} is '
                        'saved, and the same command goes on from it'
                    )
    if answers and distributed.is_primary():
        memory, again = objective.memory_dir or None, start == config.num_steps
        folder.write(text=config.text, model=config.model, memory=memory, again=again)
    return last


def check_start(config: TrainConfig, objective: Objective) -> None:
    """Raises TrainingError if a count is below 1, or where parameters start is unclear."""
    if config.checkpoint_minutes is not None and not config.checkpoint_minutes > 0:
        minutes = config.checkpoint_minutes
        raise TrainingError(f'checkpoint_minutes={minutes}: give more than 0, or None')
    counts = 'num_steps log_every checkpoint_every keep_checkpoints model_devices accumulate_steps'
    for name in counts.split():
        if (value := getattr(config, name)) is not None and value < 1:
            raise TrainingError(f'{name}={value}: give at least 1')
    if not (config.init_from or config.bert_folder or objective.trainable('encoder/')):
        raise TrainingError(
            'the encoder is not trained and starts from nothing: give init_from or bert_folder'
        )
    if config.init_from and config.bert_folder:
        raise TrainingError(
            f'init_from ({config.init_from}) and bert_folder ({config.bert_folder}) both say where '
            'to start: leave out one'
        )
    brings = lambda folder: released.is_released(folder) or model_config.is_model(folder)
    start = config.init_from or config.bert_folder
    if config.orthogonal_w_r and start and (config.init_from or brings(start)):
        raise TrainingError(f'{start} brings its W_r: leave out orthogonal_w_r')


class Run:
    """What a `TrainConfig` names, opened, for the loop here and for that of t5x."""

    def __init__(
        self,
        objective: Objective,
        encoder: Callable[..., RelationEncoder],
        config: TrainConfig,
        mesh: Mesh,
    ):
        """Opens the text, the objective, and what training starts from; raises as `train` does."""
        self.config, folder = config, KBFolder(config.kb)
        self.prepared = Prepared(folder.part(config.text))
        self.init_from = str(folder.part(config.init_from)) if config.init_from else None
        self.objective = objective.located(folder)
        self.encoder = make_encoder(encoder, self.prepared)
        trained = sparing_memory(self.encoder, config)
        self.task = self.objective.build(self.prepared, trained, mesh, config.seed)
        self.pair_encoding = pair_encoding(objective, self.init_from, config.bert_folder)
        self.origin = lineage_lib.read_meta(self.init_from)
        bert = config.bert_folder
        self.bert_hash = state_lib.weights_hash(bert) if bert else None

    def starting_params(self, seed: int | jax.Array):
        """The parameters before the first step, those that are fresh by a seed or key."""
        config, origin = self.config, self.origin
        start = self.encoder, self.prepared, self.init_from, config.bert_folder, seed
        w_r = config.orthogonal_w_r, self.pair_encoding == 'span_pair'
        known = origin['params_hash'] if origin else self.bert_hash
        params = state_lib.starting_params(*start, *w_r, known)
        params = self.task.init(params)
        self.task.check_init(params, origin['lineage'] if origin else {})
        return params

    def lineage(self) -> dict:
        """See `lineage.describe_run`."""
        run = self.task, self.prepared, self.config.seed
        return lineage_lib.describe_run(*run, self.origin, self.bert_hash)


def make_train_step(
    task: Task,
    optimizer: optax.GradientTransformation,
    seed: int,
    mesh: Mesh | None = None,
    dtype: str = 'float32',
):
    """Builds `step(state, batch, memory) -> (state, metrics)`, jitted: loss, gradients, update.

    The buffers of the old state are reused. It is compiled for each structure of batches, so for
    each number of hops. The dropout key of a step is a function of (seed, step), so that a resumed
    run repeats it. The state is placed on `mesh`, or on one device if None; `dtype` is the
    encoder's, in which its matrices are gathered and their gradients summed.
    """

    def step(state: TrainState, batch, memory):
        rng = jax.random.fold_in(jax.random.key(seed), state.step)
        trained, frozen = state_lib.split_params(state.params, task.trainable)

        def loss(trained):
            return task.loss(state_lib.merge_params(trained, frozen), batch, memory, rng)

        whole = fsdp.gather(trained, mesh, dtype) if mesh else trained
        (value, metrics), grads = jax.value_and_grad(loss, has_aux=True)(whole)
        grads = fsdp.scatter(grads, mesh) if mesh else grads
        updates, opt_state = optimizer.update(grads, state.opt_state, trained)
        metrics = {'loss': value, 'grad_norm': optax.tree.norm(grads), **metrics}
        params = state_lib.merge_params(optax.apply_updates(trained, updates), frozen)
        return TrainState(state.step + 1, params, opt_state), metrics

    return jax.jit(step, donate_argnums=0)


def optimizer_of(config: TrainConfig) -> optax.GradientTransformation:
    """The optimizer of a run."""
    rates = config.num_steps, config.learning_rate, config.warmup_steps
    return make_optimizer(*rates, config.clip_norm, config.optimizer, config.schedule)


def pair_encoding(objective: Objective, init_from: str | None, bert_folder: str | None) -> str:
    """How memories will encode pairs with the model; a released encoder reads them off spans."""
    if objective.pair_encoding:
        return objective.pair_encoding
    run = bert_folder if bert_folder and model_config.is_model(bert_folder) else init_from
    if run:
        return model_config.read(run).pair_encoding
    return 'span_pair' if bert_folder and released.is_released(bert_folder) else 'marked_pair'


def make_encoder(encoder: Callable[..., RelationEncoder], prepared: Prepared) -> RelationEncoder:
    """The encoder of a prepared folder's vocabulary; TrainingError if it has no size."""
    try:
        return encoder(vocab_size=prepared.tokenizer.get_vocab_size())
    except TypeError as error:
        raise TrainingError(
            'the encoder has no size, which the files in gin/models give '
            f'({str(error).splitlines()[0]})'
        ) from error


def sparing_memory(encoder: RelationEncoder, config: TrainConfig) -> RelationEncoder:
    """The encoder as trained, with less memory if `config` says so; else TrainingError."""
    if config.accumulate_steps == 1 and config.remat is None:
        return encoder
    if not isinstance(encoder, RelationEncoder):
        raise TrainingError(
            'accumulate_steps and remat are of a transformer, and the encoder is '
            f'{type(encoder).__name__}: leave them out'
        )
    if config.remat not in (None, *REMAT_POLICIES):
        raise TrainingError(
            f'remat={config.remat!r}: give one of {", ".join(map(repr, REMAT_POLICIES))}, or None'
        )
    return encoder.clone(accumulate_steps=config.accumulate_steps, remat=config.remat)


def check_batch(batch, mesh: Mesh, accumulate_steps: int = 1) -> None:
    """Raises TrainingError, naming usable sizes, if a mesh cannot share a batch's parts evenly."""
    devices = mesh_lib.batch_devices(mesh) * accumulate_steps
    rows = {}  # by the part of the batch, such as 'pairs/0'
    for name, array in named_leaves(batch).items():
        if shape := np.shape(array):
            rows[name.rpartition('/')[0] or name] = shape[0]
    uneven = {name: count for name, count in rows.items() if count % devices}
    if not uneven:
        return
    common = math.gcd(*rows.values())
    divisors = [
        str(size // accumulate_steps)
        for size in range(1, common + 1)
        if common % size == size % accumulate_steps == 0
    ]
    others = f' and {len(uneven) - _MAX_NAMED} more' if len(uneven) > _MAX_NAMED else ''
    fewer = lambda n: f'{n - n % devices} or ' if n > devices else ''
    nearest = [
        f'{name} has {n} ({fewer(n)}{n - n % devices + devices} can be)'
        for name, n in uneven.items()
    ]
    sharing, else_ = f'{mesh_lib.batch_devices(mesh)} devices', ''
    if accumulate_steps > 1:
        sharing = f'{sharing} with accumulate_steps={accumulate_steps}'
        else_ = ', or another accumulate_steps'
    fitting = f'take {", ".join(divisors) or "fewer"} devices (data_devices)'
    raise TrainingError(
        f'{sharing} cannot share the rows of a batch evenly: '
        f'{", ".join(nearest[:_MAX_NAMED])}{others}. Counts of an objective are those of the whole '
        f'job: make them, and its `buckets` if it has any, multiples of {devices}; or '
        f'{fitting}{else_}'
    )


def checkpoint_is_due(done: int, seconds: float, config: TrainConfig) -> bool:
    """Whether to save after `done` steps, `seconds` after the last time; equal in all processes."""
    if config.checkpoint_every is not None and done % config.checkpoint_every == 0:
        return True
    if config.checkpoint_minutes is None or done % config.log_every:
        return False
    return bool(distributed.broadcast(seconds >= 60 * config.checkpoint_minutes))


def print_shapes(params, task: Task) -> None:
    """Prints every parameter and every array of the first batch with shape and dtype."""
    trained, frozen = state_lib.split_params(params, task.trainable)
    for title, group in (('trained', trained), ('frozen', frozen)):
        print(f'# {title}: {sum(int(np.prod(x.shape)) for x in group.values()):,} parameters')
        for name, value in sorted(group.items()):
            print(f'{name}  {tuple(value.shape)}  {value.dtype}')
    print('# first batch')
    for name, value in named_leaves(task.source[0]).items():
        print(f'{name}  {np.shape(value)}  {np.asarray(value).dtype}')


def print_checkpoints(shapes: TrainState, config: TrainConfig) -> None:
    """Prints the size of checkpoints, and how many a run writes."""
    leaves = jax.tree.leaves((shapes.params, shapes.opt_state))
    size = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves)
    times = [f'every {config.checkpoint_every:,} steps'] if config.checkpoint_every else []
    times += [f'every {config.checkpoint_minutes:g} minutes'] if config.checkpoint_minutes else []
    print(f'# checkpoints of {size / 1e9:.3g} GB: {" and ".join(times + ["at the end"])}')
    if config.checkpoint_every and not config.checkpoint_minutes:
        count = -(-config.num_steps // config.checkpoint_every)
        print(f'{count:,} of them, {count * size / 1e9:,.3g} GB written')
