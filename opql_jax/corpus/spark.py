"""Documents and pairs on a Spark cluster, by the same functions and SQL as in one process.

`map_ordered` runs a stage over batches that this process has, as `opql index --engine spark` does.
For a corpus that only the cluster holds:

    documents = spark.read.parquet('linked')  # linking.LINKED and `number`, the place in the corpus
    split = functools.partial(splitting.split_batch, count_tokens=..., max_tokens=122)
    documents = documents.orderBy('number').drop('number')
    passages = number_passages(map_batches(documents, split, tables.PASSAGES))
    passages.write.parquet('passages')
    mine_pairs(passages).write.parquet('pairs')
    mutual_information(passages, min_passages=5).write.parquet('mutual_information')

The workers need this package and, for what a stage uses, its dependencies. pyspark comes with the
extra 'spark' and wants Java 17 or later.
"""

import contextlib
import functools
import importlib.util
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from opql_jax.core.errors import InputError
from opql_jax.corpus.pairs import MENTIONS, PAIRS_SQL, mention_rows, mutual_information_sql

# Spark numbers rows as partition << 33 | row of the partition.
_PARTITION_BITS = 33
# Batches that are handed out at a time, for each task that the cluster runs at once.
_AHEAD = 2


@contextlib.contextmanager
def session(name: str) -> Iterator:
    """A Spark session, or that which is there; InputError: no pyspark, or no start of Spark."""
    if not importlib.util.find_spec('pyspark'):
        raise InputError('pyspark is not installed: run `pip install opql_jax[spark]`')
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    os.environ.setdefault('PYSPARK_PYTHON', sys.executable)
    before = SparkSession.getActiveSession()
    try:
        made = before or SparkSession.builder.appName(name).getOrCreate()
    except PySparkException as error:
        raise InputError(f'Spark does not start: it needs Java 17 or later ({error})') from error
    try:
        yield made
    finally:
        if before is None:
            made.stop()


def map_ordered(
    session, function: Callable[[pa.RecordBatch], pa.RecordBatch], batches: Iterable[pa.RecordBatch]
) -> Iterator:
    """Yields `function(batch)` for every batch, in order, or raises the function's InputErrors."""
    context = session.sparkContext
    batches, call = iter(batches), functools.partial(_call, function)
    while group := list(itertools.islice(batches, _AHEAD * context.defaultParallelism)):
        for result in context.parallelize(group, len(group)).map(call).collect():
            if isinstance(result, InputError):
                raise result
            yield result


def _call(function: Callable, batch: pa.RecordBatch) -> pa.RecordBatch | InputError:
    try:
        return function(batch)
    except InputError as error:
        return error  # Spark would try again, and raise an error of its own


def map_batches(frame, stage: Callable[[pa.RecordBatch], pa.RecordBatch], schema: pa.Schema):
    """A DataFrame of `stage(batch)` for `frame`'s record batches; partitions keep their order."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return frame.mapInArrow(lambda batches: map(stage, batches), from_arrow_schema(schema))


def number_passages(passages):
    """Passages with a column `passage`, their row numbers; persisted, or they might change."""
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


def mine_pairs(passages):
    """`pairs.mine_pairs` of a DataFrame of passages with ids `passage`: `tables.PAIRS` rows."""
    return _query(PAIRS_SQL, passages)


def mutual_information(passages, min_passages: int = 1):
    """`pairs.mutual_information` of a DataFrame of passages (see `mine_pairs`)."""
    return _query(mutual_information_sql(passages.count(), min_passages), passages)


def _query(sql: str, passages):
    from pyspark.sql import functions as F

    session = passages.sparkSession
    mentions = map_batches(passages.select('passage', 'mentions'), mention_rows, MENTIONS)
    about = passages.where('title_entity >= 0')
    titles = about.select('passage', F.col('title_entity').alias('entity'))
    views = {'opql_mentions': mentions, 'opql_titles': titles}
    for name, frame in views.items():
        frame.createOrReplaceTempView(name)
    try:
        return session.sql(sql)
    finally:
        for name in views:
            session.catalog.dropTempView(name)
