"""Orbax checkpoints `{params, opt_state, meta, digests}` by step, for any devices and processes.

They are written in the background, each part of an array by a process that holds it. `meta` holds
what a reader needs besides arrays: the data position (the next step), the model's shape, the hash
of the memory it was trained over, the operative gin configuration, and the hash of itself.
`digests` are those of the parts (`array_digests`).
"""

import hashlib
import json
import math
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from flax import traverse_util

from opql_jax.core import distributed, files
from opql_jax.core.arrays import most_bytes
from opql_jax.core.errors import InputError
from opql_jax.models.encoder import shape_differences
from opql_jax.training import array_digests

# Steps are moved here before they are removed, so that a killed run never leaves half of one.
_TRASH = 'removed'


class CheckpointError(InputError):
    """A checkpoint is missing, or does not fit the model it is loaded into."""


class Checkpoints:
    """A run's checkpoints, each a whole folder or none: `<workdir>/checkpoints/<step>`."""

    def __init__(self, workdir, keep: int | None = 2, read_only: bool = False):
        self.directory = files.absolute(workdir) / 'checkpoints'
        if read_only and not self.directory.is_dir():
            raise CheckpointError(
                f'{self.directory} does not exist: train into {workdir} first, '
                'or name another folder'
            )
        if not files.is_remote(workdir):
            # Orbax opens, and removes, files there by their paths.
            files.refuse_links(workdir, 'checkpoints')
        options = ocp.CheckpointManagerOptions(
            max_to_keep=None if read_only else keep,
            create=not read_only,
            read_only=read_only,
            enable_async_checkpointing=not read_only,
            # Not in a bucket, where nothing can be moved.
            todelete_subdir=None if read_only else _TRASH,
        )
        handlers = {
            'params': ocp.StandardCheckpointHandler(),
            'opt_state': ocp.StandardCheckpointHandler(),
            'meta': ocp.JsonCheckpointHandler(),
            'digests': array_digests.Handler(),
        }
        self._saving: int | None = None  # the step that is written in the background
        try:
            self._manager = ocp.CheckpointManager(
                self.directory, options=options, item_names=tuple(handlers), item_handlers=handlers
            )
        except (ValueError, TypeError, OverflowError, RecursionError) as error:  # damaged metadata
            raise CheckpointError(
                f"{self.directory} cannot be read ({str(error).splitlines()[0][:200]}): a step's "
                'metadata are damaged, or were written by another version. Copy the folder again '
                'from where it was trained.'
            ) from error
        if not read_only:
            self._remove_moved()  # what a killed run left

    def _remove_moved(self):
        if distributed.is_primary() and (self.directory / _TRASH).exists():
            files.rmtree(self.directory / _TRASH)

    def steps(self) -> list[int]:
        """The steps on disk, oldest first."""
        return sorted(self._manager.all_steps())

    def latest_step(self) -> int | None:
        """The newest step on disk, or None."""
        return self._manager.latest_step()

    def save(self, step: int, params, opt_state, meta: dict, shapes=None) -> None:
        """Starts to write the state after `step` updates; all processes call it.

        Returns once the step before is on disk and the arrays are copied to main memory, so that
        they may change. The trees are as they lie on the devices, `meta` are JSON values, and
        `shapes` are (params, opt_state) of `jax.ShapeDtypeStruct` without padding, if any.
        CheckpointError: it, or the step before, cannot be written, such as on a full disk.
        """
        self.wait()
        arrays = {'params': params, 'opt_state': opt_state}
        whole = arrays if shapes is None else dict(zip(arrays, shapes))
        parts = array_digests.parts_of(arrays, whole)
        items = ocp.args.Composite(
            params=ocp.args.StandardSave(params),
            opt_state=ocp.args.StandardSave(opt_state),
            meta=ocp.args.JsonSave({**meta, 'meta_hash': _meta_hash(meta)}),
            digests=array_digests.SaveDigests(parts),
        )
        self._saving = step
        try:
            self._manager.save(step, args=items)
        except Exception as error:
            raise self._not_written(error) from error

    def wait(self) -> None:
        """Returns once the last save is on disk; CheckpointError if it cannot be written."""
        try:
            self._manager.wait_until_finished()
        except Exception as error:
            raise self._not_written(error) from error
        if self._saving is not None:
            self._saving = None
            self._remove_moved()

    def _not_written(self, error: Exception) -> CheckpointError:
        """The error to raise when Orbax, whose own have any type and length, cannot write."""
        reason = ': '.join(str(error).split('\n')[0].split(': ')[-2:])
        step, self._saving = self._saving, None
        return CheckpointError(
            f'{self._name(step)} cannot be written ({type(error).__name__}: {reason}). Those '
            'before it are as they were: make room or mend the folder, and run the same command '
            'again.'
        )

    def _name(self, step: int | None) -> str:
        return f'checkpoint {self.directory / str(step)}'

    def _require_step(self, step: int | None) -> int:
        step = self.latest_step() if step is None else step
        if step is None:
            raise CheckpointError(
                f'no checkpoint in {self.directory}: train first, or name another folder'
            )
        if step not in (steps := self.steps()):
            raise CheckpointError(
                f'{self.directory} has no step {step}; it has {", ".join(map(str, steps))}'
            )
        return step

    def _restore(self, step: int, **items):
        """Items of a step, with its meta data and its digests."""
        items |= dict(meta=ocp.args.JsonRestore(), digests=array_digests.RestoreDigests())
        try:
            return dict(self._manager.restore(step, args=ocp.args.Composite(**items)).items())
        except Exception as error:
            raise self._unreadable(step, error) from error

    def _unreadable(self, step: int, error: Exception | str) -> CheckpointError:
        """The error to raise for what is wrong with a step; Orbax's have any type and length."""
        if not (self.directory / str(step)).exists():
            return CheckpointError(
                f'{self._name(step)} was removed while it was read, by the training that goes on: '
                'use a newer one, or train with a larger keep_checkpoints'
            )
        reason = str(error).split('\n')[0][:200]
        if isinstance(error, Exception):
            reason = f'{type(error).__name__}: {reason}'
        return CheckpointError(
            f'{self._name(step)} cannot be read ({reason}). It is damaged or was written by '
            "another version: delete that step's folder to fall back to an older one, or train "
            'again.'
        )

    def meta(self, step: int | None = None) -> dict:
        """A step's meta data (the newest if None), with `params_hash` and `opt_state_hash`."""
        step = self._require_step(step)
        return self._checked(step, self._restore(step))

    def load(self, step: int | None = None) -> tuple[Any, dict]:
        """Parameters, on a device of this process, and `meta` of one step; training may go on."""
        step = self._require_step(step)
        sharding = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
        saved = self._saved_shapes(step)
        self._check_size(step, saved)
        target = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding), saved
        )
        out = self._restore(step, params=ocp.args.StandardRestore(target))
        meta = self._checked(step, out)
        return out['params'], meta

    def restore(self, params, opt_state, step: int | None = None):
        """`(params, opt_state, meta)` in main memory, of these shapes; else CheckpointError."""
        step = self._require_step(step)
        digests = self._restore(step)['digests']
        shapes = array_digests.shapes_of(self._saved_shapes(step), digests.get('params', {}))
        check_shapes(params, shapes, self._name(step))
        known = digests.get('opt_state', {})
        written = array_digests.shapes_of(self._saved_shapes(step, 'opt_state'), known)
        if difference := array_digests.first_difference(written, known):
            raise self._unreadable(step, f'its digests are of another opt_state: {difference}')
        if difference := array_digests.first_difference(opt_state, known):
            raise CheckpointError(
                f'{self._name(step)} was trained by another optimizer ({difference}): go on with '
                'that one, or train into another folder, from this model by init_from'
            )
        # Given shapes alone, Orbax would restore to the devices that wrote the arrays, which may
        # belong to other processes.
        plain = lambda tree: jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), tree)
        out = self._restore(
            step,
            params=ocp.args.StandardRestore(plain(params)),
            opt_state=ocp.args.StandardRestore(plain(opt_state)),
        )
        meta = self._checked(step, out)
        return out['params'], out['opt_state'], meta

    def _checked(self, step: int, restored: dict) -> dict:
        """The meta data; cuts off padding, and compares digests, as Orbax keeps no checksums."""
        meta, digests = dict(restored['meta'] or {}), restored['digests']
        if meta.pop('meta_hash', None) != _meta_hash(meta):
            raise self._unreadable(step, 'its meta data are not those that were written')
        for item in ('params', 'opt_state'):
            arrays = digests.get(item, {})
            if item in restored:
                restored[item] = array_digests.without_padding(restored[item], arrays)
                if array_digests.differs(restored[item], arrays):
                    raise self._unreadable(step, f'its {item} are not those that were written')
            meta[f'{item}_hash'] = array_digests.identity(arrays)
        params = traverse_util.flatten_dict(restored.get('params') or {}, sep='/')
        for name, array in params.items():
            if not np.isfinite(array).all():
                raise CheckpointError(
                    f'{self._name(step)}: {name} has numbers that are not finite, so nothing can '
                    "be scored with it: use an earlier step, or delete that step's folder and "
                    'train on with a lower learning rate'
                )
        return meta

    def _saved_shapes(self, step: int, item: str = 'params'):
        try:
            saved = self._manager.item_metadata(step)[item]
        except Exception as error:
            raise self._unreadable(step, error) from error
        if saved is None:
            raise self._unreadable(step, f'no {item} in it')
        tree = getattr(saved, 'tree', saved)
        is_array = lambda leaf: hasattr(leaf, 'shape') and hasattr(leaf, 'dtype')
        if not all(map(is_array, jax.tree.leaves(tree))):
            raise self._unreadable(step, 'its metadata are not those of arrays')
        # Orbax joins names to the checkpoint's path, and would read /other/array in its place.
        named = traverse_util.flatten_dict(tree) if item == 'params' else {}
        if paths := sorted('.'.join(name) for name in named if '/' in ''.join(name)):
            raise self._unreadable(step, f'the parameter {paths[0]!r} is a path')
        return tree

    def _check_size(self, step: int, saved) -> None:
        """Raises CheckpointError if a step's parameters are many times as large as its files."""
        if files.is_remote(folder := self.directory / str(step)):
            return  # its files are listed by a server, one request after the other
        length = sum(file.stat().st_size for file in folder.rglob('*') if file.is_file())
        size = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(saved))
        if size > most_bytes(length):
            reason = f'it names parameters of {size} bytes, and has files of {length}'
            raise self._unreadable(step, reason)

    def close(self) -> None:
        """Waits for the last save, see `wait`."""
        try:
            self.wait()
        finally:
            self._manager.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            self.close()
        except CheckpointError:
            if kind is None:  # else what ended the run says more
                raise


def _meta_hash(meta: dict) -> str:
    return hashlib.sha256(json.dumps(meta, sort_keys=True).encode()).hexdigest()


def check_shapes(expected, found, where: str) -> None:
    """Raises CheckpointError naming parameters that are missing, unknown or of another shape."""
    if differences := shape_differences(expected, found):
        raise CheckpointError(
            f'{where} does not fit the model: {differences}. Use the gin files it was trained '
            'with, or another workdir.'
        )
