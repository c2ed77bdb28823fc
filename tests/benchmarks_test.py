"""Every benchmark runs at a tiny size, and prints a JSON object a line with what it measures."""

import json
import pathlib
import subprocess
import sys

import pytest

from opql_jax.kb.text.index_text import index_text

import films
import records
from examples import examples
from forked_binaries import ENVIRONMENT

BENCHMARKS = pathlib.Path(__file__).parents[1] / 'benchmarks'
# A script or a subject of one, a field of its last line, and what it is run with.
TINY = {
    name: (field, options)
    for name, field, options in examples("""
    calibration weights | bias | --folder {folder}/sets
    calibration sets | questions | --folder {folder} --data {data} --sets articles --questions 12
    calibration ranking | recall@5 | --folder {folder} --data {data} --questions 3 --documents 12
    comparisons ask | among_five | --questions {folder}/made.jsonl --kb {folder}/kb
    others | over_baseline | --percent 1 --data {data}
    recognition | precision | --documents 3 --data {data}/redocred
    retrieval | begin | --percent 1 --data {data} --out {folder}
    search memory | over_exact | --rows 2000 --dim 16 --queries 1,3 --k 4 --matrix 64
    search follow | whole_over_follow | --rows 2000 --dim 16 --queries 1,20 --k 4
    search index | exact_over_scann | --rows 20000 --dim 16 --queries 1,3 --k 4
    steps relations | ratio | --model tiny --rows 16 --length 16 --threads 1
    steps lm | on_over_off | --model tiny --entries 300 --entities 50 --rows 8 --length 16
    steps input | milliseconds | --pieces 800
    steps saves | lost_seconds | --model tiny --entities 300 --rows 16 --length 16
    tpu_compile search | estimated_cycles | {tpu} --relation_dim 64 --queries 8
    tpu_compile lm | estimated_cycles | {tpu} --relation_dim 64 --model minilm --rows 2 --length 64
    """)
}
TPU = '--entries 9000 --entities 300 --entity_dim 64 --k 4'
NEEDS = {'search index': 'scann', 'tpu_compile search': 'libtpu', 'tpu_compile lm': 'libtpu'}


def test_every_benchmark_is_tried():
    tried = {name.split()[0] for name in TINY}
    assert {path.stem for path in BENCHMARKS.glob('*.py')} - {'timing'} == tried


# In CI one of arrays and one of text.
QUICK = {'calibration weights', 'search follow'}


@pytest.mark.parametrize(
    'name', [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in TINY]
)
def test_a_tiny_run_prints_what_it_measures(name, binaries, films_kb, request, tmp_path):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    field, options = TINY[name]
    prepare = {'weights': _films, 'ask': _comparisons}
    prepare = prepare.get(name.split()[-1])
    needs_data = '{data}' in options or name == 'comparisons ask'
    data = request.getfixturevalue('shared_data') if needs_data else None
    if prepare:
        prepare(tmp_path, data, binaries)
    words = options.format(folder=tmp_path, data=data, tpu=TPU, films=films_kb).split()
    script, *subject = name.split()
    command = [BENCHMARKS / f'{script}.py', *subject, *words, '--json']
    if name == 'steps relations':  # one as its user starts it, with nothing imported yet
        cpu = ENVIRONMENT | {'JAX_PLATFORMS': 'cpu'}
        ran = subprocess.run([sys.executable, *command], env=cpu, capture_output=True, text=True)
    else:
        ran = binaries.script(*command)
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert field in [json.loads(line) for line in ran.stdout.splitlines()][-1]


def _films(folder, data, binaries):
    kb = folder / 'sets' / 'films' / '0.kb'
    kb.parent.mkdir(parents=True)
    index_text([films.write(folder / 'films.jsonl')], kb, processes=1)
    asked = {'Who directed Night Ferry?': ['Clara Holm'], 'Where was Clara Holm born?': ['Tarn']}
    lines = [{'question': text, 'answers': of} for text, of in asked.items()]
    records.write(kb.with_suffix('.jsonl'), lines)


def _comparisons(folder, data, binaries):
    made, texts = folder / 'made.jsonl', folder / 'texts.jsonl'
    options = '--data', data, '--questions', made, '--texts', texts
    done = binaries.script(BENCHMARKS / 'comparisons.py', 'make', *options)
    assert done.returncode == 0, done.stderr
    asked = records.read(made)
    assert len({record['kind'] for record in asked}) == 5
    few = [record for record in asked if record['kind'] == 'comparison'][:2]
    needed = {name for record in few for name in record['documents']}
    kept = [document for document in records.read(texts) if document['id'] in needed]
    index_text(kept, folder / 'kb', processes=1)
    records.write(made, few)
