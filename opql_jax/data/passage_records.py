"""Tokenised passages on disk: random access by id (ArrayRecord, read by Grain without TF).

One record is a little-endian int32 array `[n_tokens, n_mentions, tokens..., starts..., ends...,
entities...]`. Record i is row i of `passages.parquet`.
"""

import errno
import os
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from array_record.python import array_record_module
from tokenizers import Tokenizer

from opql_jax.core import files
from opql_jax.core.errors import InputError
from opql_jax.core.ranges import ranges
from opql_jax.corpus.tables import PREPARED
from opql_jax.data.markup import JoinedPassages, TokenisedPassage, tokenise_passages

FILE_NAME = 'passages.array_record'
RECORDS = pa.schema([('record', pa.binary())])
# Passages read at a time when all are read.
SCAN = 1 << 16


class RecordsError(InputError):
    """A passage record file is missing, truncated or holds something else."""


def encode_passage(passage: TokenisedPassage) -> bytes:
    """One record: two counts, the tokens, and three columns of mentions."""
    header = (len(passage.tokens), len(passage.entities))
    return np.concatenate([header, *passage]).astype('<i4').tobytes()


def sizes_of(records: list[bytes]) -> np.ndarray:
    """Tokens and mentions of each record, [n, 2] int64; RecordsError if its length is another."""
    lengths = np.array([len(record) for record in records], np.int64)
    if (lengths % 4).any() or (lengths < 8).any():
        raise RecordsError(
            f'a record of {lengths[(lengths % 4 > 0) | (lengths < 8)][0]} bytes is not a passage'
        )
    sizes = np.frombuffer(b''.join([r[:8] for r in records]), '<i4').reshape(-1, 2).astype(np.int64)
    wrong = (sizes < 0).any(axis=1) | (lengths // 4 != 2 + sizes[:, 0] + 3 * sizes[:, 1])
    if wrong.any():
        (n, m), found = sizes[wrong][0], lengths[wrong][0] // 4 - 2
        raise RecordsError(f'a record says {n} tokens and {m} mentions but holds {found} numbers')
    return sizes


def decode_passages(records: list[bytes]) -> list[TokenisedPassage]:
    """Inverse of `encode_passage`, as read-only views; RecordsError as of `sizes_of`."""
    sizes = sizes_of(records).tolist()
    values = (np.frombuffer(record, '<i4', offset=8) for record in records)
    return [TokenisedPassage(of[:n], *of[n:].reshape(3, m)) for of, (n, m) in zip(values, sizes)]


def decode_joined(records: list[bytes]) -> JoinedPassages:
    """`decode_passages`, end to end."""
    sizes = sizes_of(records)
    lengths = 2 + sizes[:, 0] + 3 * sizes[:, 1]
    values, begin = np.frombuffer(b''.join(records), '<i4'), np.cumsum(lengths) - lengths
    record, token = ranges(0, sizes[:, 0])
    tokens = values[begin[record] + 2 + token]
    record, mention = ranges(0, sizes[:, 1])
    first = begin[record] + 2 + sizes[record, 0] + mention
    starts, ends, entities = (values[first + field * sizes[record, 1]] for field in range(3))
    return JoinedPassages(tokens, starts, ends, entities, sizes)


def tokenise_batch(batch: pa.RecordBatch, tokenizer: Tokenizer) -> pa.RecordBatch:
    """The records (`RECORDS`) of a batch of `tables.PASSAGES`; reads `text` and `mentions`."""
    spans = ([tuple(m.values()) for m in found] for found in batch['mentions'].to_pylist())
    passages = tokenise_passages(tokenizer, zip(batch['text'].to_pylist(), spans))
    records = pa.array(map(encode_passage, passages), pa.binary())
    return pa.RecordBatch.from_arrays([records], schema=RECORDS)


def write_passages(path: str | os.PathLike, records: Iterable[bytes]) -> int:
    """Writes encoded passages in order, whole or not at all; returns their number."""
    count = 0
    with files.atomic_path(path) as partial:
        try:
            # One record per group, so that reading one passage decodes no other.
            writer = array_record_module.ArrayRecordWriter(os.fspath(partial), 'group_size:1,zstd')
            try:
                for record in records:
                    writer.write(record)
                    count += 1
            finally:
                writer.close()
        except RuntimeError as error:  # of the writer, on a full disk
            # The error carries no errno, only its message.
            number = errno.ENOSPC if os.strerror(errno.ENOSPC) in str(error) else errno.EIO
            raise OSError(number, f'cannot be written ({error})', os.fspath(path)) from error
    return count


class PassageRecords:
    """The passages of a file, by id."""

    def __init__(self, path: str | os.PathLike):
        """Opens a file; raises RecordsError if it is missing, truncated or of another format."""
        self.path = os.fspath(path)
        if not os.path.exists(self.path):
            raise RecordsError(f'{self.path}: no such file; run prepare first')
        # No read-ahead: access is random.
        reader = array_record_module.ArrayRecordReader(self.path, 'readahead_buffer_size:0')
        if not reader.ok():
            raise RecordsError(f'{self.path}: truncated or no ArrayRecord file; {PREPARED.advice}')
        self._reader = reader
        self._count = reader.num_records()

    def __reduce__(self):
        return PassageRecords, (self.path,)  # another process opens the file itself

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, i: int) -> TokenisedPassage:
        return self.read([i])[0]

    def sizes(self) -> tuple[np.ndarray, np.ndarray]:
        """Tokens and mentions of every passage, [len] int32 each; reads the whole file."""
        headers = np.empty((len(self), 2), np.int32)
        for start in range(0, len(self), SCAN):
            found = self._decoded(range(start, min(start + SCAN, len(self))), sizes_of)
            headers[start : start + len(found)] = found
        return headers[:, 0], headers[:, 1]

    def read(self, ids: Iterable[int]) -> list[TokenisedPassage]:
        """Reads passages in any order, fast; IndexError: no such id, RecordsError: damaged."""
        return self._decoded(ids, decode_passages)

    def read_joined(self, ids: Iterable[int]) -> JoinedPassages:
        """`read` of many passages, end to end."""
        return self._decoded(ids, decode_joined)

    def _decoded(self, ids: Iterable[int], decode):
        ids = [int(i) for i in ids]
        if ids and (min(ids) < 0 or max(ids) >= len(self)):
            there = f'{self.path} has passages 0..{len(self) - 1}'
            raise IndexError(f'{there}, not {min(ids)}..{max(ids)}')
        try:
            return decode(self._reader.read(ids) if ids else [])
        except (RuntimeError, RecordsError) as e:
            damage = f'damaged passage records ({e}); {PREPARED.advice}'
            raise RecordsError(f'{self.path}: {damage}') from e
