"""Every benchmark runs at a tiny size, and prints a JSON object a line with what it measures."""

import importlib.util
import json
import pathlib
import subprocess
import sys

import pytest

from opql_jax.kb.text.index_text import index_text

import films
import records
from forked_binaries import ENVIRONMENT

BENCHMARKS = pathlib.Path(__file__).parents[1] / 'benchmarks'
# What it is run with, and a field of its last line, by the name of a script or of a subject of one;
# of `others` only those run that are installed.
TINY = {
    'calibration': ('{folder}/sets', 'bias'),
    'calibration_sets': ('{folder} --data {data} --sets articles --questions 12', 'questions'),
    'comparisons': ('--questions {folder}/made.jsonl --kb {folder}/kb', 'among_five'),
    'evidence': ('--questions {folder}/asked.jsonl --kb {folder}/kb', 'weights'),
    'input_speed': ('--pieces 800 --entities 300 --batches 1', 'rows_per_second'),
    'others': ('--percent 1 --data {data}', 'over_baseline'),
    'recognition': ('--documents 3 --data {data}/redocred', 'precision'),
    'retrieval': ('--percent 1 --data {data} --out {folder}', 'recall@5'),
    'search memory': ('--rows 2000 --dim 16 --queries 1,3 --k 4 --matrix 64', 'over_exact'),
    'search follow': ('--rows 2000 --dim 16 --queries 1,20 --k 4', 'whole_over_follow'),
    'search index': ('--rows 20000 --dim 16 --queries 1,3 --k 4', 'exact_over_scann'),
    'steps relations': ('--model tiny --rows 16 --length 16 --threads 1', 'ratio'),
    'steps lm': ('--model tiny --entries 300 --entities 50 --rows 8 --length 16', 'on_over_off'),
    'steps saves': ('--model tiny --entities 300 --rows 16 --length 16', 'lost_seconds'),
    'tpu_compile search': (
        '--entries 9000 --entities 300 --relation_dim 64 --entity_dim 64 --queries 8 --k 4',
        'compile_seconds',
    ),
    'tpu_compile lm': (
        '--entries 9000 --entities 300 --relation_dim 64 --entity_dim 64 --k 4 --model minilm '
        '--rows 2 --length 64',
        'compile_seconds',
    ),
}
NEEDS = {
    'search index': ['scann'],
    'steps relations': ['torch', 'transformers'],
    **dict.fromkeys(['tpu_compile search', 'tpu_compile lm'], ['libtpu']),
    **dict.fromkeys(
        'calibration calibration_sets comparisons evidence others recognition retrieval'.split(),
        ['spacy'],
    ),
}


def test_every_benchmark_is_tried():
    helpers = {'hlo', 'timing'}
    tried = {name.split()[0] for name in TINY}
    assert {path.stem for path in BENCHMARKS.glob('*.py')} - helpers == tried


# In CI one of arrays and one of text. `tpu_compile` runs in tests/memory/search_on_tpu_test.py and
# tests/training/step_on_tpu_test.py, too.
QUICK = {'evidence', 'search follow'}


@pytest.mark.parametrize(
    'name', [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in TINY]
)
def test_a_tiny_run_prints_what_it_measures(name, binaries, request, tmp_path):
    for package in NEEDS.get(name, ()):
        if not importlib.util.find_spec(package):
            pytest.skip(f'{package} is not installed')
    options, field = TINY[name]
    prepare = {'calibration': _films, 'comparisons': _comparisons, 'evidence': _evidence}.get(name)
    needs_data = '{data}' in options or name in ('calibration', 'comparisons')
    data = request.getfixturevalue('shared_data') if needs_data else None
    if prepare:
        prepare(tmp_path, data, binaries)
    words = options.format(folder=tmp_path, data=data).split()
    script, *subject = name.split()
    command = [BENCHMARKS / f'{script}.py', *subject, *words, '--json']
    if name == 'steps relations':  # one as its user starts it, with nothing imported yet
        cpu = ENVIRONMENT | {'JAX_PLATFORMS': 'cpu'}
        ran = subprocess.run([sys.executable, *command], env=cpu, capture_output=True, text=True)
    else:
        ran = binaries.script(*command)
    assert ran.returncode == 0, ran.stderr[-3000:]
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert field in lines[-1]


def _evidence(folder, data, binaries):
    """Makes a knowledge base of films, and questions about them and others."""
    index_text([films.write(folder / 'films.jsonl')], folder / 'kb', processes=1)
    asked = {
        'Who directed Night Ferry?': ['ferry'],
        'Where was Clara Holm born?': ['holm'],
        'Who is the mayor of Lima?': [],
        'How tall is Mount Fuji?': [],
    }
    lines = [{'question': text, 'supporting': of} for text, of in asked.items()]
    records.write(folder / 'asked.jsonl', lines)


def _films(folder, data, binaries):
    """Makes a knowledge base of some of MetaQA's films, and questions about them."""
    metaqa, kb = data / 'metaqa', folder / 'sets' / 'films' / '0.kb'
    few = (metaqa / 'passages.jsonl').read_text(encoding='utf-8').splitlines(keepends=True)[:40]
    (folder / 'few.jsonl').write_text(''.join(few), encoding='utf-8')
    index_text([folder / 'few.jsonl'], kb, processes=1)
    titles = {json.loads(passage)['title'] for passage in few}
    lines = (metaqa / '1-hop/dev.txt').read_text(encoding='utf-8').splitlines()
    rows = [line.split('\t') for line in lines]
    about = [row for row in rows if row[0][row[0].index('[') + 1 : row[0].index(']')] in titles]
    plain = lambda question: question.replace('[', '').replace(']', '')
    lines = [{'question': plain(row[0]), 'answers': row[1].split('|')} for row in about[:8]]
    records.write(kb.with_suffix('.jsonl'), lines)


def _comparisons(folder, data, binaries):
    """Makes the questions that compare, and a knowledge base for two of them."""
    made, texts = folder / 'made.jsonl', folder / 'texts.jsonl'
    done = binaries.script(
        BENCHMARKS / 'comparisons.py', '--data', data, '--write', made, '--texts', texts
    )
    assert done.returncode == 0, done.stderr
    asked = records.read(made)
    assert len({record['kind'] for record in asked}) == 5
    few = [record for record in asked if record['kind'] == 'comparison'][:2]
    needed = {name for record in few for name in record['documents']}
    kept = [document for document in records.read(texts) if document['id'] in needed]
    index_text(kept, folder / 'kb', processes=1)
    records.write(made, few)
