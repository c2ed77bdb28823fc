"""Mines the (topic, target) pairs of mentions, and entities together more often than by chance.

Both are SQL queries over two tables, written so that DuckDB, which runs them here, and Spark
(`spark`) read them alike: `opql_mentions(passage, mention, entity, start_at, end_at)`, where
`mention` counts from 0 in each passage, and `opql_titles(passage, entity)`, the entity that a
passage is about.
"""

import tempfile
from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa

from opql_jax.corpus import tables

# Memory beyond 80 % of the machine's, or a `memory_limit` given here, spills to disk.
DUCKDB_SETTINGS: dict[str, str | bool | int | float | list[str]] = {'threads': 2}
BATCH_ROWS = 1 << 20

MENTIONS = pa.schema(
    [(name, pa.int32()) for name in ('passage', 'mention', 'entity', 'start_at', 'end_at')]
)

# In a pair with `is_title` one side is the first mention of the passage's title entity. Mentions
# that overlap are no pair: masking the outer one would hide the other.
PAIRS_SQL = """
WITH anchors AS (
  SELECT m.passage AS passage, MIN(m.mention) AS mention
  FROM opql_mentions m JOIN opql_titles t ON m.passage = t.passage AND m.entity = t.entity
  GROUP BY m.passage
),
marked AS (
  SELECT m.passage AS passage, m.mention AS mention, m.entity AS entity, m.start_at AS start_at, m.end_at AS end_at,
         CASE WHEN a.mention = m.mention THEN 1 ELSE 0 END AS is_anchor
  FROM opql_mentions m LEFT JOIN anchors a ON m.passage = a.passage
)
SELECT x.entity AS topic, y.entity AS target, x.passage AS passage,
       x.mention AS topic_mention, y.mention AS target_mention,
       CASE WHEN x.is_anchor + y.is_anchor > 0 THEN TRUE ELSE FALSE END AS is_title
FROM marked x JOIN marked y ON x.passage = y.passage AND x.entity <> y.entity
  AND (x.end_at <= y.start_at OR y.end_at <= x.start_at)
ORDER BY topic, target, passage, topic_mention, target_mention
"""  # noqa: E501

# Pointwise mutual information ln(c(x, y) N / (c(x) c(y))): c counts passages, N is their number.
_PMI = """
WITH present AS (
  SELECT DISTINCT passage, entity FROM opql_mentions
),
single AS (
  SELECT entity, CAST(COUNT(*) AS DOUBLE) AS n FROM present GROUP BY entity
),
together AS (
  SELECT x.entity AS low, y.entity AS high, CAST(COUNT(*) AS DOUBLE) AS n
  FROM present x JOIN present y ON x.passage = y.passage AND x.entity < y.entity
  GROUP BY x.entity, y.entity
  HAVING COUNT(*) >= {min_passages}
)
SELECT t.low AS low, t.high AS high, CAST(t.n AS INTEGER) AS passages,
       LN(t.n * {passages} / (a.n * b.n)) AS pmi
FROM together t JOIN single a ON t.low = a.entity JOIN single b ON t.high = b.entity
ORDER BY low, high
"""


def mutual_information_sql(passages: int, min_passages: int = 1) -> str:
    """The query of `mutual_information` over `passages` passages."""
    return _PMI.format(passages=passages, min_passages=min_passages)


def mine_pairs(passages: pa.Table) -> Iterator[pa.RecordBatch]:
    """Pairs of mentions of two entities that do not overlap, in both directions (paper §2.1).

    `passages` has `title_entity` and `mentions` of `tables.PASSAGES`. Yields batches of
    `tables.PAIRS`, sorted by (topic, target, passage, topic_mention, target_mention).
    """
    for batch in _query(PAIRS_SQL, passages):
        yield batch.cast(tables.PAIRS)


def mutual_information(passages: pa.Table, min_passages: int = 1) -> dict[str, np.ndarray]:
    """Counts the passages that mention two entities, and compares with chance (paper §2.5).

    Of `passages` as in `mine_pairs`; pairs that fewer than `min_passages` mention are left out.
    Returns columns `[pairs]` sorted by (low, high): entities low < high and `passages` that mention
    both, int32; and `pmi` float64, their pointwise mutual information in nats over passages.
    """
    batches = list(_query(mutual_information_sql(len(passages), min_passages), passages))
    dtypes = {'low': np.int32, 'high': np.int32, 'passages': np.int32, 'pmi': np.float64}
    columns = lambda name, dtype: [np.zeros(0, dtype), *(b[name].to_numpy() for b in batches)]
    return {n: np.concatenate(columns(n, dtype)).astype(dtype) for n, dtype in dtypes.items()}


def _query(sql: str, passages: pa.Table) -> Iterator[pa.RecordBatch]:
    mentions, titles = mention_tables(passages)
    # Large sorts spill to files, which must not land in the working directory.
    with tempfile.TemporaryDirectory() as spill:
        settings = DUCKDB_SETTINGS | {'temp_directory': spill}
        with duckdb.connect(':memory:', config=settings) as connection:
            connection.execute('SET enable_progress_bar = false')  # it would go to stdout
            connection.register('opql_mentions', mentions)
            connection.register('opql_titles', titles)
            yield from connection.sql(sql).to_arrow_reader(BATCH_ROWS)


def mention_tables(passages: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The tables that the queries read: opql_mentions and opql_titles."""
    ids = pa.array(np.arange(len(passages), dtype=np.int32))
    column = passages['mentions'].combine_chunks()
    mentions = mention_rows(pa.RecordBatch.from_arrays([ids, column], ['passage', 'mentions']))
    title = passages['title_entity'].to_numpy()
    with_title = np.flatnonzero(title >= 0).astype(np.int32)
    titles = pa.table({'passage': with_title, 'entity': title[with_title]})
    return pa.Table.from_batches([mentions]), titles


def mention_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The `MENTIONS` rows of a batch of passages with their ids and `mentions`."""
    column = batch['mentions']
    counts = np.diff(column.offsets.to_numpy())
    passage = np.repeat(batch['passage'].to_numpy(), counts)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    mention = (np.arange(len(passage)) - first).astype(np.int32)
    flat = column.flatten()
    fields = (flat.field(name) for name in ('entity', 'start', 'end'))
    columns = [pa.array(passage), pa.array(mention), *fields]
    return pa.RecordBatch.from_arrays(columns, schema=MENTIONS)
