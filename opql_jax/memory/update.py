"""Changes a memory without retraining: `inject` adds, `delete` takes away, `compact` merges.

An update writes new files, and then the manifest that names them, in one rename: whoever opens the
memory finds the state before or after it, also after a kill. What it replaces, noted in
`update.json`, is removed by it or the next one, but not while somebody has a state open that needs
it. Only what a killed injection has encoded is kept for its repetition.
"""

import contextlib
import copy
import dataclasses
from collections.abc import Callable, Iterable

import msgspec
import numpy as np

from opql_jax.core import distributed, files, locks
from opql_jax.core.arrays import MAX_MAGNITUDE, ArraySchema, bad_row, read_array
from opql_jax.core.errors import InputError
from opql_jax.core.manifest import checked_file, manifest_hash, write_manifest
from opql_jax.corpus.entities import EntityVocab
from opql_jax.memory import leftovers, segments
from opql_jax.memory import manifest as manifest_lib
from opql_jax.memory.build import Encode, EntryTable, check_entries, write_entries
from opql_jax.memory.format import Memory
from opql_jax.memory.relations import Halves


@dataclasses.dataclass(frozen=True)
class Deleted:
    """What `delete` took away: ids of entries, rising, int64."""

    entries: np.ndarray  # [n], those that were living
    # [m], those of them that were averages over other passages' mentions too, which are gone with
    # them. Whoever wants to keep these injects them again, without the deleted passage.
    partly: np.ndarray


@dataclasses.dataclass(frozen=True)
class Injection:
    """What is injected into a memory besides the entries, and on what conditions."""

    vocab: EntityVocab  # all entities of the memory in their order, and perhaps new ones
    encoder_hash: str  # `params_hash` of the encoder, which must be the one that built the memory
    # Ids of the new entities [m] int64, rising -> their embeddings [m, d_e], which
    # `Memory.entity_rows` then has after those of former injections. Needed if there are any.
    embed: Callable[[np.ndarray], np.ndarray] | None = None
    covers: manifest_lib.Covers | None = None  # which text the memory then has; None: as before
    # `Memory.hash` of the state for which the entries were chosen; any if None.
    expected_state: str | None = None


def inject(directory, entries: EntryTable, encode: Encode, injection: Injection) -> Memory:
    """Adds entries for new mention pairs as one more segment, with the options of the build.

    Averaging is over `entries` alone: a pair that the memory has already gets a second entry. An
    injection that is run again goes on where it was killed, or finds its work done. Several
    processes share the work as in `build`. New entries have the ids from `next_entry` on, and
    passage ids go on from those of older ones; there may be none if there are new entities or
    `covers`. `encode` gives their relations, by the encoder and in the form of the memory.

    InputError: what is injected does not fit the memory, or another process changes it, now or
    since it was in the expected state. OSError: it cannot be written; the memory is as it was, and
    a repetition goes on.
    """
    directory, vocab, covers = files.require_local(directory), injection.vocab, injection.covers
    origin = manifest_lib.Injected(entries.hash(), vocab.hash(), covers)
    primary = distributed.is_primary()
    with _writing(directory, origin) as manifest:
        distributed.barrier('the injection has begun')
        if manifest is None:  # now that no other process may change it
            manifest = _successor(manifest_lib.read_manifest(directory))
        if (
            injection.expected_state not in (None, manifest.history[-1])
            and manifest.injected != origin
        ):
            raise InputError(f'{directory} was changed meanwhile: run the injection again')
        _check_origin(directory, manifest, vocab, injection.encoder_hash)
        if isinstance(encode, Halves) != (manifest.relations == 'halves'):
            raise InputError(
                f'{directory} stores relations as {manifest.relations}: what '
                'is injected has to be of that form'
            )
        if len(entries) or (covers is None and len(vocab) == manifest.num_entities):
            check_entries(entries, len(vocab))
        if manifest.injected != origin:
            if primary:
                leftovers.note(directory, manifest)
            new = np.arange(manifest.num_entities, len(vocab))
            if len(new) and injection.embed is None:
                raise InputError(
                    f'the vocabulary has {len(new)} entities more than '
                    f'{directory}: give their embeddings'
                )
            manifest.num_entities = len(vocab)
            manifest.hashes['vocabulary'] = origin.vocabulary
            if len(entries):
                _add_segment(directory, manifest, origin, entries, encode)
            if primary:
                if injection.embed is not None and len(new):
                    manifest.files |= _add_entity_rows(
                        directory, manifest, injection.embed(new), len(new)
                    )
                if covers is not None:
                    manifest.covers = covers
                _commit(directory, manifest, injected=origin)
    distributed.barrier('the memory has the new entries')
    return Memory.open(directory)


def _add_segment(directory, manifest, origin, entries, encode):
    name = leftovers.new_name('segment', manifest)
    if distributed.is_primary():
        plan = leftovers.segment_plan(manifest.history[-1], origin)
        segments.write_json(directory, f'{name}/{manifest_lib.PLAN}', plan)
    distributed.barrier('the segment has been begun')
    start = name, manifest.next_entry
    segment, digests, num_mentions = write_entries(directory, start, entries, encode, manifest)
    if distributed.is_primary():
        manifest.segments.append(segment)
        manifest.files |= digests
        manifest.next_entry += segment.num_entries
        manifest.num_entries += segment.num_entries
        manifest.num_mentions += num_mentions


def _add_entity_rows(directory, manifest, rows, count):
    """Writes the embeddings of injected entities, `rows` for the newest; {file: digest}."""
    rows, earlier = np.asarray(rows, np.float32), manifest.entity_rows
    dim = earlier.dim if earlier else rows.shape[-1]
    if rows.shape != (count, dim) or bad_row(rows) is not None:
        raise InputError(
            f'embed gave {list(rows.shape)} for {count} new entities of width '
            f'{dim}, or they are not finite'
        )
    if earlier:
        file = checked_file(directory, earlier.file, manifest, manifest_lib.FORMAT)
        schema = ArraySchema('float32', (earlier.num_entities, earlier.dim), largest=MAX_MAGNITUDE)
        rows = np.concatenate([read_array(file, schema, {}, manifest_lib.FORMAT.advice), rows])
        del manifest.files[earlier.file]
    name = f'{leftovers.new_name("entity_rows", manifest)}.npy'
    manifest.entity_rows = manifest_lib.EntityRows(name, len(rows), dim)
    return segments.write_array(directory, name, rows)


def delete(
    directory,
    *,
    pairs: Iterable[tuple[int, int]] = (),
    passages: Iterable[int] = (),
    entities: Iterable[int] = (),
    entries: Iterable[int] = (),
    dry_run: bool = False,
) -> Deleted:
    """Deletes every entry that meets one of the conditions; those gone already change nothing.

    `pairs` are (topic, target) ids, in that direction only, and `entities` are neither topic nor
    target of any entry afterwards. An entry that averages mentions goes as a whole with one of a
    deleted passage; `Deleted.partly` says what else was lost. `dry_run` only says what would be
    deleted.

    InputError: no condition; an id that no entity or entry ever had; or another process changing
    this memory. OSError: it cannot be written; the memory is as it was.
    """
    directory = files.require_local(directory)
    pairs, passages = _integers('pairs', pairs, (2,)), _integers('passages', passages)
    entities, entries = _integers('entities', entities), _integers('entries', entries)
    if not any(map(len, (pairs, passages, entities, entries))):
        raise InputError('nothing to delete: give pairs, passages, entities or entries')
    # Only looking, it takes no lock and leaves what a killed injection has done.
    state = (
        contextlib.nullcontext(_successor(manifest_lib.read_manifest(directory)))
        if dry_run
        else _writing(directory)
    )
    with state as manifest, contextlib.closing(Memory.open(directory)) as memory:
        _check_below(pairs, manifest.num_entities, 'an entity id', 'num_entities')
        _check_below(entities, manifest.num_entities, 'an entity id', 'num_entities')
        _check_below(entries, manifest.next_entry, 'an entry id', 'next_entry')
        _check_below(passages, 2**31, 'a passage id', 'the largest')
        n = manifest.num_entities
        gone = np.isin(
            memory.topic.astype(np.int64) * n + memory.target, pairs[:, 0] * n + pairs[:, 1]
        )
        gone |= np.isin(memory.topic, entities) | np.isin(memory.target, entities)
        gone |= np.isin(memory.ids, entries)
        partly = np.zeros(0, np.int64)
        if len(passages):
            read = memory.read_from(passages)
            mentions = memory.mentions(memory.rows(read))
            partly = np.unique(mentions['entry'][~np.isin(mentions['passage'], passages)])
            gone[memory.rows(read)] = True
        ids = np.sort(memory.ids[gone])
        if len(ids) and not dry_run:
            leftovers.note(directory, manifest)
            dead = ids
            if earlier := manifest.tombstones:
                dead = np.union1d(ids, memory.deleted)
                del manifest.files[earlier.file]
            name = f'{leftovers.new_name("tombstones", manifest)}.npy'
            manifest.files |= segments.write_array(directory, name, dead)
            manifest.tombstones = manifest_lib.Tombstones(name, len(dead))
            manifest.num_entries -= len(ids)
            _commit(directory, manifest)
    return Deleted(ids, partly)


def compact(directory) -> Memory:
    """Merges all segments, once checked, without deleted entries; ids stay. Errors as `delete`."""
    directory = files.require_local(directory)
    with _writing(directory) as manifest:
        if len(manifest.segments) > 1 or manifest.tombstones:
            with contextlib.closing(Memory.open(directory)) as memory:
                memory.verify()
                leftovers.note(directory, manifest)
                _merge(directory, manifest, memory)
    return Memory.open(directory)


def _merge(directory, manifest, memory):
    num_mentions, halves = 0, memory.halves()

    def make_shard(start, stop):
        nonlocal num_mentions
        rows = np.arange(start, stop)
        mentions = memory.mentions(rows)
        num_mentions += len(mentions['entry'])
        return None if halves else memory.relations(rows), mentions

    entity_rows = manifest.entity_rows
    manifest.files = {entity_rows.file: manifest.files[entity_rows.file]} if entity_rows else {}
    manifest.segments, manifest.tombstones = [], None
    if len(memory):
        columns = memory.topic, memory.target, memory.ids
        sizes = manifest.num_entities, manifest.shard_rows
        name = leftovers.new_name('segment', manifest)
        merged = segments.Segment(name, *columns, *sizes, halves)
        segment, digests = segments.write(directory, merged, make_shard)
        manifest.segments = [segment]
        manifest.files |= digests
    manifest.num_mentions = num_mentions
    _commit(directory, manifest)


@contextlib.contextmanager
def _writing(directory, injecting=None):
    """Yields the next state's manifest while nobody else changes the memory; cleans up.

    `injecting` is the origin of an injection, of which an earlier attempt is not cleaned up. It may
    have several processes, and those that are not the primary one get None.
    """
    manifest_lib.read_manifest(directory)  # so that what is no memory is reported as such
    with locks.writer(directory) if injecting is None else distributed.writer(directory):
        if injecting is not None and not distributed.is_primary():
            yield None
            return
        manifest = manifest_lib.read_manifest(directory)
        plan = injecting and leftovers.segment_plan(manifest_hash(manifest), injecting)
        leftovers.clean(directory, manifest, plan)
        try:
            yield _successor(manifest)
        except InputError:
            leftovers.clean(directory, manifest)
            raise
        leftovers.clean(directory, manifest_lib.read_manifest(directory))


def _successor(manifest):
    """A copy of a manifest, its hash added to its history, to become that of the next state."""
    successor = copy.deepcopy(manifest)
    successor.history.append(manifest_hash(manifest))
    return successor


def _commit(directory, manifest, injected=None):
    """Replaces the manifest; `injected` makes a repetition of an injection known as such."""
    manifest.injected = injected
    write_manifest(directory, manifest_lib.FORMAT, msgspec.structs.asdict(manifest), manifest.files)


def _check_origin(directory, manifest, vocab, encoder_hash):
    built = manifest.hashes
    if encoder_hash != built['encoder']:
        raise InputError(
            f'{directory} was built with the encoder {built["encoder"]}, but the pairs to inject '
            f'would be encoded by {encoder_hash}: use the encoder of the memory, or build a memory '
            'with the present one'
        )
    count = manifest.num_entities
    if len(vocab) < count or vocab.hash(count) != built['vocabulary']:
        raise InputError(
            f'{directory} has a vocabulary of {count} entities, hash '
            f'{built["vocabulary"]}, with which the given one of {len(vocab)} '
            'does not begin: put new entities after those of the memory'
        )


def _integers(name, ids, width=()):
    """Ids of a caller as an int64 array: [n], or [n, 2] if `width` is (2,)."""
    try:
        array = np.asarray(ids if isinstance(ids, np.ndarray) else list(ids))
    except (TypeError, ValueError) as error:  # no sequence, or a ragged one
        raise InputError(f'{name}={ids!r} is not a list of ids') from error
    if not array.size:
        return np.zeros((0, *width), np.int64)
    if array.dtype.kind not in 'iu' or array.shape[1:] != width:
        raise InputError(f'{name} must be {"pairs of ids" if width else "ids"}, not {ids!r}')
    return array.astype(np.int64)


def _check_below(ids, bound, noun, limit):
    bad = ids[(ids < 0) | (ids >= bound)]
    if bad.size:
        raise InputError(f'{bad[0]} is not {noun} ({limit} is {bound})')
