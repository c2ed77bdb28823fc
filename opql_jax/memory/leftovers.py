"""What updates of a memory leave behind, as noted in `update.json`, and who removes it."""

import contextlib

import msgspec

from opql_jax.core import files, locks
from opql_jax.core.manifest import (
    MANIFEST,
    is_folder_of,
    plan_format,
    plan_update,
    read_manifest,
    write_manifest,
)
from opql_jax.memory import manifest as manifest_lib
from opql_jax.memory import segments

PLAN = plan_format('opql-memory-update', 'a plan of an update', 'update_memory', 'update.json')


def note(directory, manifest):
    """Notes what an update replaces and may write; `manifest` is still to be changed."""
    written = (
        new_name('segment', manifest),
        f'{new_name("tombstones", manifest)}.npy',
        f'{new_name("entity_rows", manifest)}.npy',
    )
    plan_update(directory, PLAN, _top_level(manifest) - {MANIFEST}, written)


def clean(directory, manifest, plan=None):
    """Removes what killed updates left, and what the manifest no longer names unless open.

    The segment of the unfinished injection that `plan` is of stays, but for partial files.
    """
    noted = read_manifest(directory, PLAN).names if is_folder_of(directory, PLAN) else []
    kept = []
    for name in (name for name in noted if name not in _top_level(manifest)):
        files.remove_below(directory, [name])  # whoever reads a file has it open; a folder stays
        if not (directory / name).is_dir():
            continue
        if plan is not None and _read_plan(directory, name) == plan:
            files.remove_partials(directory, f'{name}/*')
            kept.append(name)
        else:
            # A reader may hold it (`Memory.close`); then a later update will find it free.
            with locks.try_exclusive(directory, name) as free:
                if free:
                    _remove_plan(directory, name)
                    segments.remove(directory, name)
                else:
                    kept.append(name)
    for segment in manifest.segments:
        _remove_plan(directory, segment.name)
        segments.remove_records(directory, segment.name)
    if is_folder_of(directory, manifest_lib.PLAN_FORMAT):
        (directory / manifest_lib.PLAN).unlink()
    files.remove_partials(directory, MANIFEST, PLAN.file, *noted)
    if kept and kept != noted:
        write_manifest(directory, PLAN, {'names': kept})
    elif noted and not kept:
        (directory / PLAN.file).unlink()


def _top_level(manifest):
    """The names of the files and folders of a memory."""
    return {MANIFEST, *(name.partition('/')[0] for name in manifest.files)}


def segment_plan(state, origin):
    """States whose an unfinished segment is: the memory's hash before, and what is injected."""
    return {'state': state, 'injected': msgspec.to_builtins(origin)}


def _read_plan(directory, segment):
    """The `segment_plan` of an unfinished segment, None if it has none."""
    with contextlib.suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
        plan = msgspec.json.decode(
            files.read_below(directory, f'{segment}/{manifest_lib.PLAN}'), type=dict
        )
        return plan if plan.keys() == {'state', 'injected'} else None
    return None


def _remove_plan(directory, segment):
    files.remove_partials(directory, f'{segment}/{manifest_lib.PLAN}')
    if _read_plan(directory, segment) is not None:
        files.remove_below(directory, [f'{segment}/{manifest_lib.PLAN}'])


def new_name(kind, manifest):
    """A name that no state of this memory used, lest an old manifest's reader open new files."""
    return f'{kind}-{len(manifest.history):05d}'
