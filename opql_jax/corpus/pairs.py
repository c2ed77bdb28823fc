"""Pair mining in process: the queries of `queries` run by DuckDB over passages."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa

from opql_jax.corpus import tables
from opql_jax.corpus.pair_sql import mutual_information_sql, pairs_sql

# Of DuckDB, which spills to disk what exceeds its memory: 80 % of the machine's unless `memory_limit` is among these.
SETTINGS: dict[str, str | bool | int | float | list[str]] = {'threads': 2}
BATCH_ROWS = 1 << 20

MENTIONS = pa.schema([(name, pa.int32()) for name in ('passage', 'mention', 'entity', 'start_at', 'end_at')])


def mine_pairs(passages: pa.Table, mode: str) -> Iterator[pa.RecordBatch]:
    """All directed pair rows of the passages.

    Args:
        passages: the columns `title_entity` and `mentions` of `tables.PASSAGES`; the row is the passage id.
        mode: 'title' or 'all'; the rows of 'all' contain those of 'title', marked by `is_title`.

    Yields:
        Batches of `tables.PAIRS`, sorted by (topic, target, passage, topic_mention, target_mention).
        Topic and target always differ and their mentions do not overlap; every pair comes in both directions.
    """
    for batch in _query(pairs_sql(mode), passages):
        yield batch.cast(tables.PAIRS)


def mutual_information(passages: pa.Table, min_passages: int = 1) -> dict[str, np.ndarray]:
    """How often and how much above chance every two entities are mentioned in one passage.

    Args:
        passages: as in `mine_pairs`.
        min_passages: pairs that fewer passages mention are left out; in a large corpus they are most pairs.

    Returns:
        Columns [pairs], sorted by (low, high): low < high int32, the entities; `passages` int32, how many mention both;
        `pmi` float64, their pointwise mutual information in nats over passages.
    """
    batches = list(_query(mutual_information_sql(len(passages), min_passages), passages))
    kinds = {'low': np.int32, 'high': np.int32, 'passages': np.int32, 'pmi': np.float64}
    return {
        name: np.concatenate([np.zeros(0, kind), *(batch[name].to_numpy() for batch in batches)]).astype(kind)
        for name, kind in kinds.items()
    }


def _query(sql: str, passages: pa.Table) -> Iterator[pa.RecordBatch]:
    mentions, titles = mention_tables(passages)
    # Sorting more rows than memory holds spills to files, which must not land in the working directory.
    with tempfile.TemporaryDirectory() as spill:
        with duckdb.connect(':memory:', config=SETTINGS | {'temp_directory': os.fspath(spill)}) as connection:
            connection.execute('SET enable_progress_bar = false')  # it would go to stdout
            connection.register('opql_mentions', mentions)
            connection.register('opql_titles', titles)
            yield from connection.sql(sql).to_arrow_reader(BATCH_ROWS)


def mention_tables(passages: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The two tables the queries read, opql_mentions and opql_titles, see `queries`."""
    ids = pa.array(np.arange(len(passages), dtype=np.int32))
    column = passages['mentions'].combine_chunks()
    mentions = mention_rows(pa.RecordBatch.from_arrays([ids, column], ['passage', 'mentions']))
    title = passages['title_entity'].to_numpy()
    about = np.flatnonzero(title >= 0).astype(np.int32)
    return pa.Table.from_batches([mentions]), pa.table({'passage': about, 'entity': title[about]})


def mention_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The `MENTIONS` of a batch of passages with the columns `passage`, their ids, and `mentions`; others are not read."""
    column = batch['mentions']
    counts = np.diff(column.offsets.to_numpy())
    passage = np.repeat(batch['passage'].to_numpy(), counts)
    mention = np.arange(len(passage), dtype=np.int32) - np.repeat(np.cumsum(counts) - counts, counts).astype(np.int32)
    flat = column.flatten()
    places = [flat.field(name) for name in ('entity', 'start', 'end')]
    return pa.RecordBatch.from_arrays([pa.array(passage), pa.array(mention), *places], schema=MENTIONS)
