"""Spark gives what runs in process gives: stages on passages, and pair mining."""

import contextlib
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from opql_jax.core.errors import InputError
from opql_jax.corpus import linking, pairs, spark, splitting, tables
from opql_jax.data import passage_records
from opql_jax.data.tokenizer import token_counter, train_wordpiece
from opql_jax.datasets.synthetic import pages, world


@pytest.fixture(scope='module')
def session(tmp_path_factory):
    with start('local[1]', tmp_path_factory.mktemp('spark')) as made:
        yield made


@pytest.fixture(scope='module')
def passages():
    """Passages with nested mentions, some about nothing and some without a mention."""
    rng = np.random.default_rng(0)
    row, rows = dict(doc_id='d', title='t', text='x', sentence_starts=[0]), []
    for _ in range(150):
        outer = [(10 * i, 10 * i + 9) for i in range(rng.integers(0, 6))]
        spans = sorted([*outer, *((start + 3, end) for start, end in outer if rng.random() < 0.2)])
        named = [dict(start=a, end=b, entity=int(rng.integers(0, 15))) for a, b in spans]
        rows.append({**row, 'title_entity': int(rng.integers(-1, 8)), 'mentions': named})
    return pa.Table.from_pylist(rows, tables.PASSAGES)


@pytest.fixture(scope='module')
def frame(session, passages):
    ids = pa.array(range(len(passages)), pa.int32())
    return session.createDataFrame(passages.append_column('passage', ids)).repartition(2)


def test_both_engines_mine_the_same_pairs_in_the_same_order(frame, passages):
    wanted = pa.Table.from_batches(pairs.mine_pairs(passages), tables.PAIRS)
    assert len(wanted) > 100
    assert spark.mine_pairs(frame).toArrow().cast(tables.PAIRS).equals(wanted)


def test_both_engines_count_alike_and_take_logarithms_to_the_last_bit(frame, passages):
    wanted = pairs.mutual_information(passages, min_passages=2)
    found = spark.mutual_information(frame, min_passages=2).toArrow()
    assert len(found) == len(wanted['low']) > 50
    for name in ('low', 'high', 'passages'):
        assert found[name].to_numpy().tolist() == wanted[name].tolist()
    np.testing.assert_array_max_ulp(found['pmi'].to_numpy(), wanted['pmi'], maxulp=1)


def test_batches_go_to_workers_whole_and_come_back_in_order_a_few_at_a_time(session):
    drawn = []

    def batches():
        for start in range(20, 30):
            drawn.append(start)
            numbers = pa.array(range(start, start + start % 5), pa.int64())
            yield pa.RecordBatch.from_pydict({'n': numbers})

    # As the tests are no package that a worker has, the function is sent by value.
    reverse = lambda batch: batch.take(pa.array(range(len(batch)), pa.int64())[::-1])
    found = spark.map_ordered(session, reverse, batches())
    assert next(found)['n'].to_pylist() == []
    assert len(drawn) == 2 * session.sparkContext.defaultParallelism
    wanted = [list(range(start, start + start % 5))[::-1] for start in range(21, 30)]
    assert [batch['n'].to_pylist() for batch in found] == wanted


def test_an_error_of_input_on_a_worker_is_raised_here(session):
    def refuse(batch):
        raise InputError('line 13: no such row; take 12')

    with pytest.raises(InputError, match='^line 13: no such row; take 12$'):
        list(spark.map_ordered(session, refuse, [pa.RecordBatch.from_pydict({'n': [1]})]))


def test_the_stages_of_a_cluster_are_those_of_one_machine(session):
    films = world.generate(0, 60)
    documents = list(pages.documents(films))
    tokenizer = train_wordpiece([document.text for document in documents], 600)
    (linked,), _ = linking.link_documents(documents, films.vocab())
    count = token_counter(tokenizer)
    split = functools.partial(splitting.split_batch, count_tokens=count, max_tokens=30)
    tokenise = functools.partial(passage_records.tokenise_batch, tokenizer=tokenizer)
    wanted = split(linked)
    shuffled = np.random.default_rng(0).permutation(len(documents))
    numbers = pa.array(range(len(documents)))
    there = pa.Table.from_batches([linked]).append_column('number', numbers).take(shuffled)
    frame = session.createDataFrame(there).repartition(3).orderBy('number').drop('number')
    numbered = spark.number_passages(spark.map_batches(frame, split, tables.PASSAGES))
    assert numbered.rdd.getNumPartitions() == 2
    found = numbered.toArrow()
    assert found['passage'].to_pylist() == list(range(len(wanted)))
    assert found.drop(['passage']).cast(tables.PASSAGES).to_pylist() == wanted.to_pylist()
    stored = spark.map_batches(numbered, tokenise, passage_records.RECORDS).toArrow()
    assert stored['record'].to_pylist() == tokenise(wanted)['record'].to_pylist()


JAVA = 17
REPO = pathlib.Path(__file__).resolve().parents[2]


def java_version() -> int:
    """The Java that Spark would start, 0 if none."""
    home = os.environ.get('JAVA_HOME')
    java = os.path.join(home, 'bin', 'java') if home else shutil.which('java')
    if not java or not os.path.exists(java):
        return 0
    stated = subprocess.run([java, '-version'], capture_output=True, text=True).stderr
    return int(re.search(r'version "(\d+)', stated)[1])


@contextlib.contextmanager
def start(master: str, folder: pathlib.Path, **settings: str):
    """A session with files in a folder; `settings` of Spark replace these, with `__` for a dot."""
    sql = pytest.importorskip('pyspark.sql', reason="pyspark is not installed: the extra 'spark'")
    if (found := java_version()) < JAVA:
        pytest.skip(f'Spark needs Java {JAVA}, here is {found or "none"}')
    chosen = {
        'spark.ui.enabled': 'false',
        'spark.driver.host': '127.0.0.1',
        'spark.driver.bindAddress': '127.0.0.1',
        'spark.driver.memory': '1g',
        'spark.driver.extraJavaOptions': '-XX:TieredStopAtLevel=1 -XX:+UseSerialGC',
        'spark.local.dir': str(folder),
        'spark.sql.warehouse.dir': str(folder),
        'spark.sql.shuffle.partitions': '2',
        'spark.sql.adaptive.enabled': 'false',  # or so few rows would be put into one partition
        'spark.ui.showConsoleProgress': 'false',
    } | {name.replace('__', '.'): value for name, value in settings.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('SPARK_LOCAL_IP', '127.0.0.1')
        patch.setenv('PYSPARK_PYTHON', sys.executable)
        patch.setenv('PYTHONPATH', str(REPO), prepend=os.pathsep)
        made = sql.SparkSession.builder.master(master).config(map=chosen).getOrCreate()
        try:
            yield made
        finally:
            made.stop()
