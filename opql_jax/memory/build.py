"""Builds a memory from mined pairs: encodes every mention pair and writes the entries shard by shard.

A build killed at any point resumes where it was and gives the same bytes as an undisturbed one. `plan.json` states from
what the memory is being built, so that a resumed build cannot mix two encoders; each finished shard leaves
`shard-00000.json` with the digests of its files; the manifest is written last and then both are removed.
"""

import contextlib
import dataclasses
import hashlib
import json
import time
from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from opql_jax.core import distributed
from opql_jax.core import files as storage
from opql_jax.corpus.sentences import sentence_numbers
from opql_jax.memory import format, segments
from opql_jax.memory.format import Memory, MemoryFormatError

MENTIONS = ('all', 'average')
AVERAGED_MENTIONS = 5  # per pair, as in the paper's open-domain memory
HASHES = ('encoder', 'entity_table', 'vocabulary')
_SEGMENT, _ENTITY_ROWS = 'segment-00000', 'entity_rows-00000.npy'


@dataclasses.dataclass(frozen=True)
class EntryTable:
    """Mention pairs, one per row: who, whom, and where it was read. All columns are [rows] int32.

    Attributes:
        topic, target: entity ids.
        passage: passage id.
        topic_start ... target_sentence_end: character spans in the passage text, half-open, in code points: of the two
            mentions, and of the sentences that hold them.
    """

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

    def __post_init__(self):
        for name, column in self.columns().items():
            if column.shape != self.topic.shape or column.ndim != 1:
                raise MemoryFormatError(f'column {name} has shape {column.shape}, topic has {self.topic.shape}')
            object.__setattr__(self, name, np.ascontiguousarray(column, np.int32))

    def __len__(self) -> int:
        return len(self.topic)

    def columns(self) -> dict[str, np.ndarray]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @classmethod
    def from_pairs(cls, pairs: Mapping[str, np.ndarray], passages: pa.Table) -> 'EntryTable':
        """The table for mined pairs, in their order (so its row ids are the pairs' row ids).

        Args:
            pairs: columns topic, target, passage, topic_mention, target_mention of pairs.parquet; the last two count the
                mentions of the passage.
            passages: columns text, sentence_starts, mentions of passages.parquet.

        Raises:
            MemoryFormatError: a pair that names a passage or a mention that does not exist.
        """
        passage = np.asarray(pairs['passage'])
        mentions = passages['mentions'].combine_chunks()
        starts = passages['sentence_starts'].combine_chunks()
        mention_offsets, start_offsets = (
            np.concatenate([[0], np.cumsum(pc.list_value_length(lists).to_numpy())]) for lists in (mentions, starts)
        )
        flat = mentions.flatten()
        mention_start, mention_end = flat.field('start').to_numpy(), flat.field('end').to_numpy()
        lengths = pc.utf8_length(passages['text']).to_numpy()
        starts = starts.flatten().to_numpy()

        def sentence(position):
            after = sentence_numbers(starts, np.diff(start_offsets), passage, position)
            start = np.where(after > start_offsets[passage], np.append(starts, 0)[after - 1], 0)
            end = np.where(after < start_offsets[passage + 1], np.append(starts, 0)[after], lengths[passage])
            return start, end

        if len(passage) and not (0 <= passage.min() and passage.max() < len(passages)):
            raise MemoryFormatError(
                f'pairs name passages {passage.min()} to {passage.max()}, there are {len(passages)}: delete the prepared directory and run prepare again'
            )
        columns = {'topic': pairs['topic'], 'target': pairs['target'], 'passage': passage}
        for side in ('topic', 'target'):
            mention = np.asarray(pairs[f'{side}_mention'])
            bad = np.flatnonzero((mention < 0) | (mention >= np.diff(mention_offsets)[passage]))
            if len(bad):
                row = bad[0]
                raise MemoryFormatError(
                    f'pair row {row}: {side}_mention {mention[row]} is not in passage {passage[row]}: delete the prepared directory and run prepare again'
                )
            place = mention_offsets[passage] + mention
            start, end = mention_start[place], mention_end[place]
            columns |= {f'{side}_start': start, f'{side}_end': end}
            columns |= {f'{side}_sentence_start': sentence(start)[0], f'{side}_sentence_end': sentence(end - 1)[1]}
        return cls(**columns)


def build(
    directory,
    entries: EntryTable,
    encode: Callable[[np.ndarray], np.ndarray],
    *,
    num_entities: int,
    relation_dim: int,
    hashes: Mapping[str, str],
    mentions: str = 'all',
    seed: int = 0,
    dtype: str = 'float32',
    shard_rows: int = 16384,
    covers: Mapping | None = None,
    embed: Callable[[], np.ndarray] | None = None,
    progress: Callable[[int, int, float, float], None] | None = None,
) -> Memory:
    """Builds a memory, or resumes or just opens it if it was begun or finished with the same inputs.

    Several processes (see `parallel.hosts`) that share the directory take its shards in turn; the first one does the rest.

    Args:
        directory: new, empty, or of an earlier run; on disk or in a bucket.
        entries: the mention pairs, in any order.
        encode: row ids of `entries` [m] int64 -> relations [m, relation_dim]; called once per shard, and must give the
            same values for the same ids.
        num_entities: size of the entity vocabulary.
        relation_dim: d_r.
        hashes: hex digests of the 'encoder' (`params_hash`), 'entity_table' and 'vocabulary'; more may be given. They are
            recorded, and a resumed build must have the same.
        mentions: 'all': an entry for every mention pair, sorted by (topic, target, passage, topic_start, target_start).
            'average': an entry for every (topic, target), the mean of up to 5 of its mention pairs drawn with `seed`.
        seed: for 'average'.
        dtype: of the stored relations: 'float32', 'float16' or 'bfloat16'.
        shard_rows: entries per shard.
        covers: JSON values for the manifest: which text `entries` were mined from and how they were chosen, in words of the
            caller (see `coverage.covered`); not stated if None.
        embed: gives embeddings [new, d_e] of the last entities of the vocabulary, those that the entity table lacks, which
            `Memory.entity_rows` then has; None if it has all of them.
        progress: called after each encoded shard with (mention pairs done, their total, pairs per second, seconds left).

    Returns:
        The finished memory.

    Raises:
        MemoryFormatError: bad arguments or entity ids; a directory with a memory built from something else, or with other
            files; another build running there; relations of the wrong shape or not finite.
        OSError: the disk is full or the directory cannot be written; a later run resumes.
    """
    directory = storage.path(directory)
    _check(entries, num_entities, hashes, mentions, dtype, shard_rows)
    plan = {
        'num_entities': num_entities,
        'relation_dim': relation_dim,
        'dtype': dtype,
        'mentions': mentions,
        'seed': seed,
        'shard_rows': shard_rows,
        'hashes': dict(hashes),
        'pairs_sha256': table_hash(entries),
    }
    if covers is not None:
        plan['covers'] = dict(covers)
    directory.mkdir(parents=True, exist_ok=True)
    with segments.only_writer(directory) if distributed.is_primary() else contextlib.nullcontext():
        finished = distributed.is_primary() and _begin(directory, plan)
        distributed.barrier('the build has begun')
        if not distributed.is_primary():
            finished = _is_of(directory, plan)
        if not finished and (count := distributed.process_count()) > 1:
            write_entries(directory, _SEGMENT, 0, entries, encode, plan, progress, part=(distributed.process_index(), count))
            distributed.barrier('all shards are there')
        if distributed.is_primary():
            if not finished:
                _build(directory, entries, encode, plan, embed, progress)
            for leftover in [directory / format.PLAN, *directory.glob('*/shard-*.json')]:
                leftover.unlink(missing_ok=True)
        distributed.barrier('the memory is there')
    return Memory.open(directory)


def _build(directory, entries, encode, plan, embed, progress):
    """Writes everything that is missing, the manifest last."""
    segment, files, num_mentions = write_entries(directory, _SEGMENT, 0, entries, encode, plan, progress)
    stated = {'num_entries': segment['num_entries'], 'num_mentions': num_mentions}
    if embed is not None:
        rows = np.asarray(embed(), np.float32)
        if rows.ndim != 2 or not np.isfinite(rows).all():
            raise MemoryFormatError(f'embed gave {list(rows.shape)} for the new entities, or they are not finite')
        stated['entity_rows'] = {'file': _ENTITY_ROWS, 'num_entities': len(rows), 'dim': rows.shape[1]}
        files |= segments.write_array(directory, _ENTITY_ROWS, rows)
    segments.write_json(
        directory / format.MANIFEST,
        {'format': format.FORMAT, 'version': format.BUILT_VERSION, **stated, **plan, 'segments': [segment], 'files': files},
    )


def write_entries(directory, name, first_entry, entries, encode, plan, progress=None, part=None):
    """Encodes mention pairs and writes them as one segment, taking over the shards that an earlier run finished.

    Args:
        directory: pathlib.Path of the memory.
        name: of the segment.
        first_entry: id of its first entry.
        entries, encode, progress: see `build`.
        part: see `segments.write`.
        plan: `num_entities`, `relation_dim`, `dtype`, `mentions`, `seed` and `shard_rows`, as `build` takes them.

    Returns:
        (the segment as the manifest lists it, {file: digest}, number of mention pairs used).

    Raises:
        MemoryFormatError: relations of the wrong shape or not finite.
    """
    rows, first = _grouped(entries, plan['mentions'], plan['seed'])
    began, encoded = time.monotonic(), 0

    def shard(start, stop):
        of_shard, begins = rows[first[start] : first[stop]], first[start:stop] - first[start]
        relations = _encode(encode, of_shard, begins, plan)
        entry = first_entry + start + np.repeat(np.arange(stop - start), np.diff(np.append(begins, len(of_shard))))
        return relations, {key: column[of_shard] for key, column in entries.columns().items()} | {'entry': entry}

    def written(start, stop):
        nonlocal encoded
        encoded += int(first[stop] - first[start])
        if progress is not None:
            rate = encoded / max(time.monotonic() - began, 1e-9)
            progress(int(first[stop]), len(rows), rate, (len(rows) - int(first[stop])) / rate / (part[1] if part else 1))

    segment, files = segments.write(
        directory,
        name,
        topic=entries.topic[rows[first[:-1]]],
        target=entries.target[rows[first[:-1]]],
        num_entities=plan['num_entities'],
        first_entry=first_entry,
        shard_rows=plan['shard_rows'],
        shard=shard,
        written=written,
        part=part,
    )
    return segment, files, len(rows)


def _check(entries, num_entities, hashes, mentions, dtype, shard_rows):
    if mentions not in MENTIONS:
        raise MemoryFormatError(f'mentions={mentions!r} is not one of {", ".join(MENTIONS)}')
    if dtype not in format.DTYPES:
        raise MemoryFormatError(f'dtype={dtype!r} is not one of {", ".join(format.DTYPES)}')
    if shard_rows < 1:
        raise MemoryFormatError(f'shard_rows={shard_rows} must be at least 1')
    if missing := set(HASHES) - set(hashes):
        raise MemoryFormatError(f'hashes lacks {", ".join(sorted(missing))}')
    check_entries(entries, num_entities)


def check_entries(entries: EntryTable, num_entities: int) -> None:
    """Raises MemoryFormatError if there are no entries, or one names an entity that is not in the vocabulary."""
    if not len(entries):
        raise MemoryFormatError('there are no pairs to build a memory from: does the prepared text have linked mentions?')
    for name in ('topic', 'target'):
        column = getattr(entries, name)
        bad = np.flatnonzero((column < 0) | (column >= num_entities))
        if len(bad):
            raise MemoryFormatError(
                f'row {bad[0]}: {name} {column[bad[0]]} is not an entity id; the vocabulary has {num_entities} entities'
            )


def _begin(directory, plan) -> bool:
    """Whether the memory is already finished; starts a new build, or checks that an earlier one had the same plan."""
    if not (directory / format.MANIFEST).exists() and not (directory / format.PLAN).exists():
        # In a bucket an empty folder is none.
        there = directory.iterdir() if directory.exists() else ()
        if any(not path.name.startswith(f'.{format.PLAN}.') for path in there):
            raise MemoryFormatError(f'{directory} holds other files and no memory; give a new or empty directory')
        segments.write_json(directory / format.PLAN, plan)
    finished = _is_of(directory, plan)
    for partial in (
        *directory.glob('.*.partial'),
        *directory.glob('*/.*.partial'),
    ):  # of a killed build; no other one is running
        partial.unlink()
    return finished


def _is_of(directory, plan) -> bool:
    """Whether the memory is finished; MemoryFormatError if it, or what there is of it, has another plan."""
    finished = (directory / format.MANIFEST).exists()
    earlier = format.read_manifest(directory) if finished else json.loads((directory / format.PLAN).read_text(encoding='utf-8'))
    differs = [
        f'{name} is {value!r} here and {earlier.get(name)!r} there'
        for name, value in plan.items()
        if value != earlier.get(name)
    ]
    if differs:
        state = 'a finished memory' if finished else 'an unfinished build'
        raise MemoryFormatError(
            f'{directory} holds {state} of something else: {"; ".join(differs)}. '
            'Give another directory, or delete this one to start over'
        )
    return finished


def _grouped(entries, mentions, seed):
    """Which mention pairs make up which entry.

    Returns:
        rows [m] of the table in entry order, and first [N + 1]: entry i is made of rows[first[i]:first[i + 1]].
    """
    order = np.lexsort((entries.target_start, entries.topic_start, entries.passage, entries.target, entries.topic))
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
    """Relations [entries, d_r] of one shard in the stored dtype: means over the rows from each begin to the next."""
    relations = np.asarray(encode(rows), np.float32)
    if relations.shape != (len(rows), plan['relation_dim']):
        raise MemoryFormatError(
            f'encode gave shape {relations.shape} for {len(rows)} rows of relation_dim {plan["relation_dim"]}'
        )
    counts = np.diff(np.append(begins, len(rows))).astype(np.float32)
    with np.errstate(over='ignore'):  # an overflow of the cast is reported below
        means = (np.add.reduceat(relations, begins) / counts[:, None]).astype(format.DTYPES[plan['dtype']])
    bad = np.flatnonzero(~np.isfinite(means.astype(np.float32)).all(axis=1))
    if len(bad):
        raise MemoryFormatError(
            f'the relation of row {rows[begins[bad[0]]]} is not finite in {plan["dtype"]}: '
            'the encoder diverged, or the dtype is too narrow'
        )
    return means


def table_hash(entries: EntryTable) -> str:
    """Hex sha256 of all columns: what a build or an injection was made from."""
    digest = hashlib.sha256()
    for column in entries.columns().values():
        digest.update(column.tobytes())
    return digest.hexdigest()
