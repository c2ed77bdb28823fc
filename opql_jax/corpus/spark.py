"""Splitting documents and mining pairs on a Spark cluster, by the same functions and the same SQL as in one process.

    documents = spark.read.parquet('linked')                    # linking.LINKED and `number`, the place in the corpus
    split = functools.partial(splitting.split_batch, count_tokens=..., max_tokens=122)
    passages = number_passages(map_batches(sort_and_drop(documents, 'number'), split, tables.PASSAGES))
    passages.write.parquet('passages')
    mine_pairs(passages, 'title').write.parquet('pairs')
    mutual_information(passages, min_passages=5).write.parquet('mutual_information')

The workers need this package and, for what a stage uses, its dependencies. pyspark comes with the extra 'spark' and wants
Java 17 or later.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from opql_jax.corpus.pairs import MENTIONS, mention_rows, mutual_information_sql, pairs_sql

# Spark numbers rows as partition << 33 | row of the partition.
_PARTITION_BITS = 33


def map_batches(frame, stage: Callable[[pa.RecordBatch], pa.RecordBatch], schema: pa.Schema):
    """A DataFrame of `stage(batch)` for the record batches of `frame`; partitions and their order stay."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return frame.mapInArrow(lambda batches: map(stage, batches), from_arrow_schema(schema))


def sort_and_drop(frame, column: str):
    """The rows of a DataFrame, sorted by a column, which is then dropped."""
    return frame.orderBy(column).drop(column)


def number_passages(passages):
    """Passages with their ids in a column `passage`: their row numbers in the order of the DataFrame.

    They are persisted, since computing them again could cut them into other partitions.
    """
    from pyspark.sql import functions as F

    passages = passages.withColumn('position', F.monotonically_increasing_id()).persist()
    partition = F.shiftright('position', _PARTITION_BITS)
    counts = sorted(passages.groupBy(partition.cast('int').alias('partition')).count().collect())
    offsets, before = [], 0
    for number, count in counts:
        offsets += [F.lit(number), F.lit(before - (number << _PARTITION_BITS))]
        before += count
    if not offsets:
        return passages.withColumn('passage', F.col('position').cast('int')).drop('position')
    offset = F.create_map(*offsets)[partition.cast('int')]
    return passages.withColumn('passage', (F.col('position') + offset).cast('int')).drop('position')


def mine_pairs(passages, mode: str):
    """`pairs.mine_pairs` of a DataFrame of passages: its rows, in its order.

    Args:
        passages: columns `passage`, the id, and `title_entity` and `mentions` of `tables.PASSAGES`.
        mode: 'title' or 'all'.

    Returns:
        A DataFrame of `tables.PAIRS`.
    """
    return _query(pairs_sql(mode), passages)


def mutual_information(passages, min_passages: int = 1):
    """`pairs.mutual_information` of a DataFrame of passages (see `mine_pairs`), which is counted for it."""
    return _query(mutual_information_sql(passages.count(), min_passages), passages)


def _query(sql: str, passages):
    from pyspark.sql import functions as F

    session = passages.sparkSession
    views = {
        'opql_mentions': map_batches(passages.select('passage', 'mentions'), mention_rows, MENTIONS),
        'opql_titles': passages.where('title_entity >= 0').select('passage', F.col('title_entity').alias('entity')),
    }
    for name, frame in views.items():
        frame.createOrReplaceTempView(name)
    try:
        return session.sql(sql)
    finally:
        for name in views:
            session.catalog.dropTempView(name)
