"""What training tests share: short passages, an encoder of few weights, short runs."""

import collections
import functools
import pathlib

import jax
import numpy as np
import optax
from tensorboardX.proto.event_pb2 import Event, SessionLog

from opql_jax.core.distributed import describe_devices
from opql_jax.core.hashing import leaf_name
from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.prepare import prepare
from opql_jax.data.prepared import Prepared
from opql_jax.datasets.synthetic.reader import Synthetic
from opql_jax.kb.build_memory import build_memory
from opql_jax.models.encoder import RelationEncoder
from opql_jax.parallel.mesh import make_mesh
from opql_jax.training import model_config, objectives
from opql_jax.training.checkpoints import Checkpoints
from opql_jax.training.lineage import describe_run, read_meta
from opql_jax.training.optimizer import make_optimizer
from opql_jax.training.state import init_params, init_state
from opql_jax.training.trainer import TrainConfig, train

import tiny_prepared

_SIZES = dict(hidden_size=16, num_layers=1, num_heads=2, mlp_size=32, max_length=144)
encoder = functools.partial(RelationEncoder, **_SIZES, relation_dim=8, entity_dim=8)

# An optimizer of which several devices make what one makes: Adam would blow the rounding of a
# gradient that is 0 up to a whole step.
PLAIN = dict(
    optimizer=functools.partial(optax.sgd, momentum=0.9), schedule=optax.constant_schedule(0.1)
)


def write_prepared(directory: pathlib.Path, seed: int = 0) -> pathlib.Path:
    return tiny_prepared.write(directory, seed=seed, longest=12)


def run(
    prepared,
    workdir,
    objective=None,
    *,
    encoder=encoder,
    gin_config=str,
    dry_run=False,
    on_checkpoint=None,
    **options,
) -> dict:
    """Trains an objective, or one over entities, for a few steps; `options`: TrainConfig's."""
    settings = dict(num_steps=3, warmup_steps=1, log_every=1) | options
    workdir = pathlib.Path(workdir)
    config = TrainConfig(kb=str(workdir.parent), text=str(prepared), model=workdir.name, **settings)
    how = dict(gin_config=gin_config, dry_run=dry_run, on_checkpoint=on_checkpoint)
    return train(objective or objectives.Entities(rows=16), encoder, config, **how)


def write_memory(prepared, model, memory, **options) -> pathlib.Path:
    where = dict(kb=str(memory.parent), text=str(prepared), model=str(model), memory=memory.name)
    build_memory(**where, **options)
    return memory


def params_of(workdir, step=None) -> dict[str, np.ndarray]:
    with Checkpoints(workdir, read_only=True) as store:
        leaves = jax.tree.leaves_with_path(store.load(step)[0])
    return {leaf_name(path): np.asarray(leaf) for path, leaf in leaves}


def state_of(workdir, step) -> dict[str, np.ndarray]:
    """Every array of a checkpoint, parameters and optimiser state, by path."""
    with Checkpoints(workdir, read_only=True) as store:
        arrays = store._manager.restore(step)
    leaves = jax.tree.leaves_with_path([arrays['params'], arrays['opt_state']])
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def write_untrained(
    prepared, workdir, objective=None, seed=0, spread=1.0, init_from=None, encoder=encoder
) -> pathlib.Path:
    """A workdir as a run (of relations if None) leaves it after step 1, with random parameters;
    `spread` multiplies W_r: fresh relations are so small that all answers weigh nearly the same.
    """
    prepared = Prepared(prepared)
    workdir = pathlib.Path(workdir)
    objective = objective or objectives.Relations(rows=16)
    module = encoder(vocab_size=prepared.tokenizer.get_vocab_size())
    task = objective.build(prepared, module, make_mesh(1), seed)
    params = init_params(module, len(prepared.vocab), seed)
    params['encoder']['w_r']['kernel'] *= spread
    params = task.init(params)
    state = init_state(params, task.trainable, make_optimizer(1))
    workdir.mkdir(parents=True)
    model_config.write(workdir, module, prepared, objective.pair_encoding or 'marked_pair')
    lineage = describe_run(task, prepared, seed, read_meta(init_from))
    meta = {'step': 1, 'seed': seed, 'seconds': 2.5, 'hardware': describe_devices()}
    meta |= {'lineage': lineage, 'gin': f"MODEL = '{workdir.name}'"}
    with Checkpoints(workdir) as checkpoints:
        checkpoints.save(1, state.params, state.opt_state, meta)
    return workdir


def write_world(root: pathlib.Path) -> pathlib.Path:
    """Writes a knowledge base: text, untrained models align and follow, memory; returns it."""
    reader = Synthetic(num_documents=60, num_train=40, num_eval=40)
    prepare(kb=str(root), reader=reader, wordpieces=800, max_tokens=48)
    write_untrained(root / 'text', root / 'align', spread=8.0)
    memory = write_memory(root / 'text', root / 'align', root / 'memory')
    follow = objectives.Follow(memory_dir=str(memory))
    write_untrained(root / 'text', root / 'follow', follow, spread=8.0)
    KBFolder(root).write(text='text', model='follow', memory='memory')
    return root


def scalars(workdir):
    """{tag: {step: value}} of a folder's event files; of a step the last file counts."""
    found = collections.defaultdict(dict)
    for path in sorted(workdir.glob('events.out.tfevents.*')):
        data, start = path.read_bytes(), 0
        while start < len(data):  # length (8 bytes), its checksum (4), the event, its checksum (4)
            size = int.from_bytes(data[start : start + 8], 'little')
            event = Event.FromString(data[start + 12 : start + 12 + size])
            start += size + 16
            if event.session_log.status == SessionLog.START:
                for values in found.values():
                    for step in [step for step in values if step >= event.step]:
                        del values[step]
            for value in event.summary.value:
                found[value.tag][event.step] = value.simple_value
    return found
