"""A Spark session for tests, on the loopback and without its web pages."""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

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
