"""Checkpoints of t5x as models: what a run states beside them, and their import.

t5x writes `<MODEL_DIR>/checkpoint_<step>`, whose parameters are those of our own checkpoints, with
the padding of E. `state_run` puts the rest beside them: `model.json`, `tokenizer.json` and, in
`opql_run.json`, the lineage.
"""

import re
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from flax import traverse_util

from opql_jax.core import distributed, files
from opql_jax.core.errors import InputError
from opql_jax.core.manifest import FolderFormat, Header, read_manifest, write_manifest
from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.prepared import Prepared
from opql_jax.models.encoder import RelationEncoder
from opql_jax.training import lineage as lineage_lib
from opql_jax.training import model_config
from opql_jax.training.checkpoints import CheckpointError, Checkpoints
from opql_jax.training.objectives import ANSWERING

_PREFIX = 'checkpoint_'


class T5xRun(Header, kw_only=True, forbid_unknown_fields=True):
    """What `opql_run.json` states."""

    # See `lineage.describe_run`; and `batch_size`, the elements that t5x joins to the batch of a
    # step.
    lineage: dict[str, Any]
    text: str  # the parts of the knowledge base that it reads
    memory: str | None  # likewise


_NOUN = 'the MODEL_DIR of t5x.train over gin/t5x'
FORMAT = FolderFormat('opql-t5x-run', 1, _NOUN, 't5x.train', T5xRun, 'opql_run.json')


def state_run(
    model_dir,
    encoder: RelationEncoder,
    prepared: Prepared,
    pair_encoding: str,
    run: dict,
    training: bool,
) -> None:
    """Writes the files beside the checkpoints in MODEL_DIR, or compares the run with them.

    `run` are the fields of `T5xRun`. Without `training` the files must exist, and `batch_size` may
    differ. InputError: the path is relative, or no files and no training. TrainingError: another
    run.
    """
    folder = files.path(model_dir)
    if folder != files.absolute(model_dir):
        raise InputError(
            f'MODEL_DIR={model_dir}: give an absolute path, as checkpoints of t5x need one'
        )
    if (folder / FORMAT.file).exists():
        before, now = read_manifest(folder, FORMAT).lineage, run['lineage']
        lineage_lib.check_same_run(
            before, now if training else {**now, 'batch_size': before['batch_size']}, model_dir
        )
    elif not training:
        raise InputError(
            f'{folder / FORMAT.file}: no such file: give the MODEL_DIR of a '
            'run of t5x.train over gin/t5x'
        )
    elif _checkpoints(folder):
        raise InputError(
            f'{folder} has checkpoints of another run, and no {FORMAT.file}: give a new MODEL_DIR'
        )
    elif distributed.is_primary():
        folder.mkdir(parents=True, exist_ok=True)
        model_config.write(folder, encoder, prepared, pair_encoding)
        write_manifest(folder, FORMAT, run)


def newest_checkpoint(model_dir: str, step: int | None = None) -> str:
    """The folder of a checkpoint of t5x; CheckpointError if there is none.

    Args:
        model_dir: MODEL_DIR of t5x.
        step: of the checkpoint; the newest if None.
    """
    found = _checkpoints(files.absolute(model_dir))
    if not found or (step is not None and step not in found):
        steps = ', '.join(map(str, sorted(found))) or 'none'
        raise CheckpointError(
            f'{model_dir}: no checkpoint of t5x{"" if step is None else f" of step {step}"}, those '
            f'there are: {steps}'
        )
    return str(found[max(found) if step is None else step])


def _checkpoints(folder) -> dict[int, Any]:
    """The complete checkpoints by step; the name of an interrupted one goes on after the step."""
    return {
        int(path.name.removeprefix(_PREFIX)): path
        for path in folder.glob(f'{_PREFIX}*')
        if re.fullmatch(rf'{_PREFIX}\d+', path.name)
    }


def import_checkpoint(
    *, kb: str, model_dir: str, model: str, step: int | None = None, dry_run: bool = False
) -> None:
    """Imports a t5x checkpoint as a model, to build memories with and train on from.

    A model that answers questions becomes the one that the knowledge base answers with, as after
    `train`. The state of the optimizer stays behind: to train on, start from the model (INIT_FROM).

    Args:
        kb: the knowledge base.
        model_dir: MODEL_DIR of `t5x.train`.
        model: the part to be written, which must not exist.
        step: of the checkpoint; the newest if None.
        dry_run: print what would be imported.

    InputError: the part exists, or there is no such run or checkpoint.
    """
    kb_folder = KBFolder(kb)
    target = files.path(kb_folder.part(model, new=True))
    run, config = read_manifest(model_dir, FORMAT), model_config.read(model_dir)
    checkpoint = newest_checkpoint(model_dir, step)
    step, params = int(checkpoint.rpartition(_PREFIX)[2]), read_params(checkpoint)
    params['entity_table'] = params['entity_table'][: config.num_entities]
    if dry_run:
        print(f'# {model_dir}: step {step} of {run.lineage["objective"]}')
        return
    if target.exists():
        raise InputError(f'{target} exists: name a new part, or delete it')
    with distributed.writer(target):
        for name in (model_config.FORMAT.file, 'tokenizer.json'):
            files.write_bytes(target / name, (files.path(model_dir) / name).read_bytes())
        configuration = files.path(model_dir) / 'config.gin'  # that t5x.train left
        meta = {
            'step': step,
            'seed': run.lineage['seed'],
            'seconds': 0.0,  # t5x does not say
            'hardware': distributed.describe_devices(),
            'lineage': {**run.lineage, 'trained_by': 't5x'},
            'gin': configuration.read_text() if configuration.exists() else '',
        }
        with Checkpoints(target) as checkpoints:
            checkpoints.save(step, params, {'count': np.int32(step)}, meta)
    model_config.load(target)
    if run.lineage['objective'] in ANSWERING:
        kb_folder.write(text=run.text, model=model, memory=run.memory)


def read_params(checkpoint: str) -> dict:
    """The parameters of a checkpoint of t5x as arrays in main memory."""
    try:
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as reader:
            state = files.path(checkpoint) / 'state'
            shapes = {'target': reader.metadata(state).item_metadata.tree['target']}
            plain = jax.tree.map(lambda _: ocp.RestoreArgs(restore_type=np.ndarray), shapes)
            args = ocp.args.PyTreeRestore(shapes, restore_args=plain, partial_restore=True)
            params = reader.restore(state, args=args)['target']
    except Exception as error:  # Orbax raises errors of any type
        raise CheckpointError(
            f'{checkpoint} cannot be read ({type(error).__name__}): take an earlier step'
        ) from error
    for name, value in traverse_util.flatten_dict(params, sep='/').items():
        if not np.isfinite(value).all():
            raise CheckpointError(
                f'{checkpoint}: {name} has numbers that are not finite: take an earlier step'
            )
    return params
