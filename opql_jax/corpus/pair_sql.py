"""Pair mining as SQL: which two mentions of a passage form a (topic, target) pair, and how much two entities have in common.

The one text of the queries, for the engine in process (`pairs`) and for that of a cluster (`spark`); it keeps to what both read
alike. The tables are `opql_mentions(passage, mention, entity, start_at, end_at)`, of which `mention` counts from 0 in each passage, and
`opql_titles(passage, entity)`, the entity that a passage is about.
"""

from opql_jax.corpus.documents import CorpusError

MODES = ('title', 'all')

# A pair is a title pair when one side is the first mention of the passage's title entity. Mentions that overlap are no
# pair: masking the outer one would hide the other.
_PAIRS = """
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
{where}
ORDER BY topic, target, passage, topic_mention, target_mention
"""
_WHERE = {'title': 'WHERE x.is_anchor + y.is_anchor > 0', 'all': ''}

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


def pairs_sql(mode: str) -> str:
    """The query for a mode: 'title' (pairs with the page's title entity) or 'all' (every co-mention)."""
    if mode not in MODES:
        raise CorpusError(f'pair mode {mode!r} is not one of {", ".join(MODES)}')
    return _PAIRS.format(where=_WHERE[mode])


def mutual_information_sql(passages: int, min_passages: int = 1) -> str:
    """The query for the mutual information of the pairs that `min_passages` of so many passages mention."""
    return _PMI.format(passages=passages, min_passages=min_passages)
