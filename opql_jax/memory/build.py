"""Builds a memory from mined pairs: encodes each and writes the entries by shards.

A build killed at any point resumes where it was and gives the same bytes as an undisturbed one.
`plan.json` states from what the memory is being built, so that a resumed build cannot mix two
encoders; the manifest is written last, and then the plan and the records of finished shards are
removed.
"""

import dataclasses
import hashlib
import logging
import time
from collections.abc import Callable, Mapping

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from opql_jax.core import distributed, files, locks
from opql_jax.core.arrays import MAX_MAGNITUDE, SCALE_BYTES, bad_row, scales
from opql_jax.core.errors import InputError, check_choice
from opql_jax.core.manifest import MANIFEST, Manifest, is_folder_of, read_manifest, write_manifest
from opql_jax.corpus.sentences import sentence_numbers
from opql_jax.memory import format, segments
from opql_jax.memory import manifest as manifest_lib
from opql_jax.memory.format import Memory
from opql_jax.memory.relations import Halves

_log = logging.getLogger(__name__)

MENTIONS = ('all', 'average')
AVERAGED_MENTIONS = 5  # per pair, as in the paper's open-domain memory
HASHES = ('encoder', 'entity_table', 'vocabulary')
_SEGMENT, _ENTITY_ROWS = 'segment-00000', 'entity_rows-00000.npy'


@dataclasses.dataclass(frozen=True)
class EntryTable:
    """Mention pairs, one per row, [rows] int32 each; spans are code points of the passage."""

    topic: np.ndarray
    target: np.ndarray
    passage: np.ndarray
    topic_start: np.ndarray
    topic_end: np.ndarray
    target_start: np.ndarray
    target_end: np.ndarray
    topic_sentence_start: np.ndarray
    topic_sentence_end: np.ndarray
    target_sentence_start: np.ndarray
    target_sentence_end: np.ndarray

    def __len__(self) -> int:
        return len(self.topic)

    def columns(self) -> dict[str, np.ndarray]:
        """The columns by name, [rows] int32."""
        return {
            field.name: np.ascontiguousarray(getattr(self, field.name), np.int32)
            for field in dataclasses.fields(self)
        }

    def hash(self) -> str:
        """Hex SHA-256 of all columns: what a build or an injection was made from."""
        digest = hashlib.sha256()
        for column in self.columns().values():
            digest.update(column.tobytes())
        return digest.hexdigest()

    @classmethod
    def from_pairs(cls, pairs: Mapping[str, np.ndarray], passages: pa.Table) -> 'EntryTable':
        """The table of some `Prepared.pairs`; InputError: no such mention."""
        passage = np.asarray(pairs['passage'])
        mentions = passages['mentions'].combine_chunks()
        starts = passages['sentence_starts'].combine_chunks()
        mention_offsets, start_offsets = (
            np.concatenate([[0], np.cumsum(pc.list_value_length(lists).to_numpy())])
            for lists in (mentions, starts)
        )
        flat = mentions.flatten()
        mention_start, mention_end = flat.field('start').to_numpy(), flat.field('end').to_numpy()
        lengths = pc.utf8_length(passages['text']).to_numpy()
        starts = starts.flatten().to_numpy()

        def sentence(position):
            after = sentence_numbers(starts, np.diff(start_offsets), passage, position)
            start = np.where(after > start_offsets[passage], np.append(starts, 0)[after - 1], 0)
            end = np.where(
                after < start_offsets[passage + 1], np.append(starts, 0)[after], lengths[passage]
            )
            return start, end

        columns = {'topic': pairs['topic'], 'target': pairs['target'], 'passage': passage}
        for side in ('topic', 'target'):
            mention = np.asarray(pairs[f'{side}_mention'])
            bad = np.flatnonzero((mention < 0) | (mention >= np.diff(mention_offsets)[passage]))
            if len(bad):
                row = bad[0]
                raise InputError(
                    f'pair row {row}: {side}_mention {mention[row]} is not in passage '
                    f'{passage[row]}: delete the prepared directory and run prepare again'
                )
            place = mention_offsets[passage] + mention
            start, end = mention_start[place], mention_end[place]
            columns |= {f'{side}_start': start, f'{side}_end': end}
            columns |= {
                f'{side}_sentence_start': sentence(start)[0],
                f'{side}_sentence_end': sentence(end - 1)[1],
            }
        return cls(**columns)


@dataclasses.dataclass(frozen=True)
class BuildOptions:
    """How a memory is built, and from what; InputError for a value that cannot be."""

    num_entities: int
    relation_dim: int
    # Hex digests of 'encoder' and 'entity_table' (`params_hash`), of the 'vocabulary', and more.
    hashes: Mapping[str, str]
    # 'all': an entry for every mention pair, sorted by (topic, target, passage, topic_start,
    # target_start). 'average': an entry for every (topic, target), the mean of up to 5 of its
    # mention pairs drawn with `seed`.
    mentions: str = 'all'
    seed: int = 0
    # Of the relations: 'float32' (if None) or 'float16'; None for halves, in 8 bits.
    dtype: str | None = None
    shard_rows: int = 16384  # entries per shard
    covers: manifest_lib.Covers | None = None

    def __post_init__(self):
        check_choice('mentions', self.mentions, MENTIONS)
        check_choice('dtype', self.dtype or 'float32', format.ROW_DTYPES)
        if self.shard_rows < 1:
            raise InputError(f'shard_rows={self.shard_rows} must be at least 1')
        if missing := set(HASHES) - set(self.hashes):
            raise InputError(f'hashes lacks {", ".join(sorted(missing))}')


# Relations of rows of an entry table: row ids [m] int64 -> [m, relation_dim], in float32; or the
# halves that they are sums of.
Encode = Callable[[np.ndarray], np.ndarray] | Halves


def build(
    directory,
    entries: EntryTable,
    encode: Encode,
    options: BuildOptions,
    embed: Callable[[], np.ndarray] | None = None,
) -> Memory:
    """Builds a memory, or resumes or opens one begun or finished with the same inputs.

    Several processes (see `core.distributed`) that share the directory, on disk or in a bucket,
    take its shards in turn; the first one does the rest. `encode` gives the relations of `entries`,
    which may be in any order; `embed` embeddings [new, d_e] of the last entities of the vocabulary,
    those that the entity table lacks, which `Memory.entity_rows` then has. InputError: entries or
    relations that cannot be stored so, or a directory that holds something else. OSError: it cannot
    be written; a later run resumes.
    """
    directory = files.path(directory)
    check_entries(entries, options.num_entities)
    stored = {'dtype': options.dtype or 'float32'}
    if isinstance(encode, Halves):
        if options.dtype:
            raise InputError(f'dtype={options.dtype!r}: halves are stored in 8 bits: leave it out')
        stored = {'relations': 'halves', 'dtype': 'int8'}
    name, version = manifest_lib.PLAN_FORMAT.name, manifest_lib.PLAN_FORMAT.version
    fields = dataclasses.asdict(options) | stored | {'pairs_sha256': entries.hash()}
    plan = manifest_lib.BuildPlan(format=name, version=version, files={}, **fields)
    primary = distributed.is_primary()
    with distributed.writer(directory):
        finished = primary and _begin(directory, plan)
        distributed.barrier('the build has begun')
        if not primary:
            finished = _is_finished(directory, plan)
        if not finished:
            _build(directory, entries, encode, plan, embed)
        if primary and is_folder_of(directory, manifest_lib.PLAN_FORMAT):
            segments.remove_records(directory, _SEGMENT)
            (directory / manifest_lib.PLAN).unlink()
        distributed.barrier('the memory is there')
    return Memory.open(directory)


def _build(directory, entries, encode, plan, embed):
    """Writes everything that is missing, the manifest last."""
    segment, digests, num_mentions = write_entries(directory, (_SEGMENT, 0), entries, encode, plan)
    if not distributed.is_primary():
        return
    fields = {'num_entries': segment.num_entries, 'num_mentions': num_mentions}
    fields |= {'next_entry': segment.num_entries, 'segments': [segment], 'history': []}
    fields |= dict.fromkeys(('tombstones', 'entity_rows', 'injected'))
    if embed is not None:
        rows = np.asarray(embed(), np.float32)
        if rows.ndim != 2 or bad_row(rows) is not None:
            raise InputError(
                f'embed gave {list(rows.shape)} for the new entities, or they are not finite'
            )
        fields['entity_rows'] = manifest_lib.EntityRows(_ENTITY_ROWS, len(rows), rows.shape[1])
        digests |= segments.write_array(directory, _ENTITY_ROWS, rows)
    write_manifest(directory, manifest_lib.FORMAT, msgspec.structs.asdict(plan) | fields, digests)


def write_entries(directory, segment_start, entries, encode, plan: manifest_lib.BuildPlan):
    """Encodes mention pairs as one segment, with the shards that an earlier run finished.

    `segment_start` is the name of the segment and the id of its first entry. Of several processes
    each encodes its shards; the first one writes the rest, and returns (the segment as the manifest
    lists it, {file: digest}, number of mention pairs used). InputError: relations of the wrong
    shape or not finite.
    """
    (name, first_entry), processes = segment_start, distributed.process_count()
    rows, first = _grouped(entries, plan.mentions, plan.seed)
    columns = entries.columns()
    halves = None
    if isinstance(encode, Halves):
        halves = Halves(encode.mentions[rows], _checked_halves(encode, plan))
    start_time, encoded = time.monotonic(), 0

    def make_shard(start, stop):
        nonlocal encoded
        shard_rows, begins = rows[first[start] : first[stop]], first[start:stop] - first[start]
        relations = None if halves else _encode(encode, shard_rows, begins, plan)
        counts = np.diff(np.append(begins, len(shard_rows)))
        entry = np.repeat(np.arange(first_entry + start, first_entry + stop), counts)
        of_rows = {key: column[shard_rows] for key, column in columns.items()}
        encoded += len(shard_rows)
        done, rate = int(first[stop]), encoded / max(time.monotonic() - start_time, 1e-9)
        eta = (len(rows) - done) / rate / processes
        _log.info('%d/%d mentions  %.0f/s  ETA %ds', done, len(rows), rate, eta)
        return relations, of_rows | {'entry': entry}

    topic, target = (columns[side][rows[first[:-1]]] for side in ('topic', 'target'))
    ids = np.arange(first_entry, first_entry + len(first) - 1)
    sizes = plan.num_entities, plan.shard_rows
    segment = segments.Segment(name, topic, target, ids, *sizes, halves)
    if processes > 1:
        segments.write(directory, segment, make_shard, (distributed.process_index(), processes))
        distributed.barrier('all shards are there')
        if not distributed.is_primary():
            return None, {}, len(rows)
    return *segments.write(directory, segment, make_shard), len(rows)


def check_entries(entries: EntryTable, num_entities: int) -> None:
    """Raises InputError if there are no entries, or one names an unknown entity."""
    if not len(entries):
        raise InputError(
            'there are no pairs to build a memory from: does the prepared text '
            'have linked mentions?'
        )
    for name in ('topic', 'target'):
        column = getattr(entries, name)
        bad = np.flatnonzero((column < 0) | (column >= num_entities))
        if len(bad):
            raise InputError(
                f'row {bad[0]}: {name} {column[bad[0]]} is not an entity id; the vocabulary has '
                f'{num_entities} entities'
            )


def files_of_build(directory) -> list[str]:
    """The files that a build has written, finished or not, but for its plan and manifest."""
    return [*segments.names_of(directory, _SEGMENT), _ENTITY_ROWS]


def _begin(directory, plan) -> bool:
    """Whether the memory is finished; starts a build, or checks the plan of an earlier one."""
    if not (directory / MANIFEST).exists() and not (directory / manifest_lib.PLAN).exists():
        # In a bucket an empty folder is none.
        partial = f'.{manifest_lib.PLAN}.'
        is_content = lambda path: not (path.name.startswith(partial) or locks.is_lock(path))
        if directory.exists() and any(map(is_content, directory.iterdir())):
            raise InputError(
                f'{directory} holds other files and no memory; give a new or empty directory'
            )
        write_manifest(directory, manifest_lib.PLAN_FORMAT, msgspec.structs.asdict(plan), {})
    finished = _is_finished(directory, plan)
    # Of a killed build; no other one is running.
    if is_folder_of(directory, manifest_lib.PLAN_FORMAT):
        files.remove_partials(directory, MANIFEST, manifest_lib.PLAN, _ENTITY_ROWS, f'{_SEGMENT}/*')
    return finished


def _is_finished(directory, plan) -> bool:
    """Whether the memory is finished; InputError if what is there has another plan."""
    finished = (directory / MANIFEST).exists()
    earlier = (
        manifest_lib.read_manifest(directory)
        if finished
        else read_manifest(directory, manifest_lib.PLAN_FORMAT)
    )
    differs = [
        f'{name} is {value!r} here and {before!r} there'
        for name, value in msgspec.structs.asdict(plan).items()
        if name not in Manifest.__struct_fields__ and value != (before := getattr(earlier, name))
    ]
    if differs:
        state = 'a finished memory' if finished else 'an unfinished build'
        raise InputError(
            f'{directory} holds {state} of something else: {"; ".join(differs)}. '
            'Give another directory, or delete this one to start over'
        )
    return finished


def _grouped(entries, mentions, seed):
    """Rows [m] of the table in entry order, and first [N + 1]: where those of each entry begin."""
    order = np.lexsort(
        (entries.target_start, entries.topic_start, entries.passage, entries.target, entries.topic)
    )
    if mentions == 'all':
        return order, np.arange(len(order) + 1)
    topic, target = entries.topic[order], entries.target[order]
    new = np.append(True, (topic[1:] != topic[:-1]) | (target[1:] != target[:-1]))
    pair = np.cumsum(new) - 1
    # Shuffled within each pair, the first few are a random choice.
    shuffled = np.lexsort((np.random.default_rng(seed).random(len(order)), pair))
    rank = np.arange(len(order)) - np.flatnonzero(new)[pair]
    chosen = np.sort(shuffled[rank < AVERAGED_MENTIONS])
    return order[chosen], np.searchsorted(pair[chosen], np.arange(pair[-1] + 2))


def _encode(encode, rows, begins, plan):
    """Relations [entries, d_r] of one shard, as stored: means from each begin to the next."""
    relations = np.asarray(encode(rows), np.float32)
    if relations.shape != (len(rows), plan.relation_dim):
        raise InputError(
            f'encode gave shape {relations.shape} for {len(rows)} rows of relation_dim '
            f'{plan.relation_dim}'
        )
    if len(begins) < len(rows):
        counts = np.diff(np.append(begins, len(rows))).astype(np.float32)
        relations = np.add.reduceat(relations, begins) / counts[:, None]
    return _stored(relations, plan.dtype, lambda bad: f'relation of row {rows[begins[bad]]}')


def _checked_halves(encode: Halves, plan):
    """`Halves.of`, checked."""

    def of(mentions):
        halves = encode.of(mentions)
        if halves.shape != (len(mentions), 2, plan.relation_dim + SCALE_BYTES):
            raise InputError(
                f'encode gave shape {halves.shape} for {len(mentions)} mentions of relation_dim '
                f'{plan.relation_dim}'
            )
        name_of = lambda bad: f'half relation of mention {mentions[bad]}'
        _stored(scales(halves), 'float32', name_of)
        return halves

    return of


def _stored(rows, dtype, name_of):
    """Rows [n, d] in the stored dtype; InputError names one with numbers that it cannot hold."""
    with np.errstate(over='ignore'):  # an overflow of the cast is reported below
        stored = rows.astype(dtype, copy=False)
    if (bad := bad_row(stored)) is not None:
        raise InputError(
            f'the {name_of(bad)} is not finite in {dtype}, or above {MAX_MAGNITUDE:g}: '
            'the encoder diverged, or the dtype is too narrow'
        )
    return stored
