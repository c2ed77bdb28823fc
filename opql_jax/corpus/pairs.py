"""Pair mining: which two mentions of a passage form a (topic, target) pair, and how much two entities have in common.

The queries are plain SQL over two tables, so the same text runs in process here and on a cluster's
SQL engine.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa

from opql_jax.corpus import tables
from opql_jax.corpus.records import CorpusError

MODES = ('title', 'all')
THREADS = 2
BATCH_ROWS = 1 << 20

# mentions(passage, mention, entity, start_at, end_at), titles(passage, entity): the entity each passage is about.
# A pair is a title pair when one side is the first mention of the passage's title entity. Mentions that overlap are no
# pair: masking the outer one would hide the other.
PAIRS_SQL = """
WITH anchors AS (
  SELECT m.passage AS passage, MIN(m.mention) AS mention
  FROM mentions m JOIN titles t ON m.passage = t.passage AND m.entity = t.entity
  GROUP BY m.passage
),
marked AS (
  SELECT m.passage AS passage, m.mention AS mention, m.entity AS entity, m.start_at AS start_at, m.end_at AS end_at,
         CASE WHEN a.mention = m.mention THEN 1 ELSE 0 END AS is_anchor
  FROM mentions m LEFT JOIN anchors a ON m.passage = a.passage
)
SELECT x.entity AS topic, y.entity AS target, x.passage AS passage,
       x.mention AS topic_mention, y.mention AS target_mention,
       CASE WHEN x.is_anchor + y.is_anchor > 0 THEN TRUE ELSE FALSE END AS is_title
FROM marked x JOIN marked y ON x.passage = y.passage AND x.entity <> y.entity
  AND (x.end_at <= y.start_at OR y.end_at <= x.start_at)
{where}
ORDER BY topic, target, passage, topic_mention, target_mention
"""
_WHERE = {'title': 'WHERE x.is_anchor + y.is_anchor > 0', 'all': ''}

# Pointwise mutual information ln(c(x, y) N / (c(x) c(y))): c counts passages, N is their number.
PMI_SQL = """
WITH present AS (
  SELECT DISTINCT passage, entity FROM mentions
),
single AS (
  SELECT entity, CAST(COUNT(*) AS DOUBLE) AS n FROM present GROUP BY entity
),
together AS (
  SELECT x.entity AS low, y.entity AS high, CAST(COUNT(*) AS DOUBLE) AS n
  FROM present x JOIN present y ON x.passage = y.passage AND x.entity < y.entity
  GROUP BY x.entity, y.entity
)
SELECT t.low AS low, t.high AS high, CAST(t.n AS INTEGER) AS passages,
       LN(t.n * {passages} / (a.n * b.n)) AS pmi
FROM together t JOIN single a ON t.low = a.entity JOIN single b ON t.high = b.entity
ORDER BY low, high
"""


def pairs_sql(mode: str) -> str:
    """The query for a mode: 'title' (pairs with the page's title entity) or 'all' (every co-mention)."""
    if mode not in MODES:
        raise CorpusError(f'pair mode {mode!r} is not one of {", ".join(MODES)}')
    return PAIRS_SQL.format(where=_WHERE[mode])


def mine_pairs(passages: pa.Table, mode: str) -> Iterator[pa.RecordBatch]:
    """All directed pair rows of the passages.

    Args:
        passages: `tables.PASSAGES`; the row is the passage id.
        mode: 'title' or 'all'; the rows of 'all' contain those of 'title', marked by `is_title`.

    Yields:
        Batches of `tables.PAIRS`, sorted by (topic, target, passage, topic_mention, target_mention).
        Topic and target always differ and their mentions do not overlap; every pair comes in both directions.
    """
    for batch in _query(pairs_sql(mode), passages):
        yield batch.cast(tables.PAIRS)


def mutual_information(passages: pa.Table) -> dict[str, np.ndarray]:
    """How often and how much above chance every two entities are mentioned in one passage.

    Args:
        passages: `tables.PASSAGES`.

    Returns:
        Columns [pairs], sorted by (low, high): low < high int32, the entities; `passages` int32, how many mention both;
        `pmi` float64, their pointwise mutual information in nats over passages.
    """
    batches = list(_query(PMI_SQL.format(passages=len(passages)), passages))
    kinds = {'low': np.int32, 'high': np.int32, 'passages': np.int32, 'pmi': np.float64}
    return {
        name: np.concatenate([np.zeros(0, kind), *(batch[name].to_numpy() for batch in batches)]).astype(kind)
        for name, kind in kinds.items()
    }


def _query(sql: str, passages: pa.Table) -> Iterator[pa.RecordBatch]:
    mentions, titles = mention_tables(passages)
    # Sorting more rows than memory holds spills to files, which must not land in the working directory.
    with tempfile.TemporaryDirectory() as spill:
        config = {'threads': THREADS, 'temp_directory': os.fspath(spill)}
        with duckdb.connect(':memory:', config=config) as connection:
            connection.register('mentions', mentions)
            connection.register('titles', titles)
            yield from connection.sql(sql).to_arrow_reader(BATCH_ROWS)


def mention_tables(passages: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The two tables the queries read: mentions(passage, mention, entity, start_at, end_at) and titles(passage, entity)."""
    column = passages['mentions'].combine_chunks()
    counts = np.diff(column.offsets.to_numpy())
    passage = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    mention = np.arange(len(passage), dtype=np.int32) - np.repeat(np.cumsum(counts) - counts, counts).astype(np.int32)
    flat = column.flatten()
    places = {'entity': flat.field('entity'), 'start_at': flat.field('start'), 'end_at': flat.field('end')}
    title = passages['title_entity'].to_numpy()
    about = np.flatnonzero(title >= 0).astype(np.int32)
    return (
        pa.table({'passage': passage, 'mention': mention, **places}),
        pa.table({'passage': about, 'entity': title[about]}),
    )
