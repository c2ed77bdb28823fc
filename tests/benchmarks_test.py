"""Every benchmark runs, at a tiny size, and prints one JSON object a line with what its subject is
measured by.
"""

import importlib.util
import json
import pathlib
import re
import subprocess
import sys

import pytest

from opql_jax.kb.text.index_text import index_text

import films
from forked_binaries import ENVIRONMENT

BENCHMARKS = pathlib.Path(__file__).parents[1] / 'benchmarks'
# What it is run with, and a field of its last line.
TINY = {
    'accelerator': (
        (
            '--rows 2000 --dim 16 --queries 3 --k 4 --matrix 64 --model tiny --lm_size tiny '
            '--entities 60 --step_rows 8,8 --lengths 16,16 --calls 1'
        ),
        'seconds',
    ),
    'ann': ('--rows 20000 --dim 16 --queries 1,3 --k 4', 'exact_over_scann'),
    'calibration': ('', 'bias'),
    'calibration_sets': ('--sets articles --questions 12', 'questions'),
    'comparisons': ('', 'among_five'),
    'evidence': ('', 'weights'),
    'follow': ('--rows 2000 --dim 16 --k 4 --batch 1,20', 'whole_over_follow'),
    'index_text': ('--passages 12', 'documents_per_cpu_second'),
    'input_speed': ('--pieces 800 --entities 300 --batches 1', 'rows_per_second'),
    'lm_step': (
        '--entries 300 --entities 50 --rows 8 --length 16 --k 4 --calls 1 --modes exact,approx',
        'on_over_off',
    ),
    'memory_search': ('--rows 2000 --dim 16 --queries 1,3 --k 4', 'over_exact'),
    # Of the others only those that are installed run.
    'others': ('--percent 1', 'over_baseline'),
    'recognition': ('--documents 3', 'words_per_cpu_second'),
    'retrieval': ('--percent 1', 'recall@5'),
    'saves': (
        '--model tiny --entities 300 --rows 16 --length 16 --steps 1 --saves 1',
        'core_seconds',
    ),
    'tpu_compile': (
        '--model tiny --programs search,build --entries 9000 --entities 300 --relation_dim 64 '
        '--entity_dim 64 --queries 8 --rows 2 --length 16 --k 4',
        'compile_seconds',
    ),
    'train_step': ('--model tiny --rows 16 --length 16 --calls 1', 'ratio'),
}


def test_every_benchmark_is_tried():
    others = {'command_line', 'hlo', 'timing', 'train_program'}
    assert {path.stem for path in BENCHMARKS.glob('*.py')} - others == set(TINY)


# In CI one of arrays and one of text. `tpu_compile` runs in tests/memory/search_on_tpu_test.py and
# tests/training/step_on_tpu_test.py, too.
QUICK = {'follow', 'index_text'}


@pytest.mark.parametrize(
    'name', [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in TINY]
)
def test_a_tiny_run_prints_what_it_measures(name, binaries, request, tmp_path):
    if name == 'ann' and not importlib.util.find_spec('scann'):
        pytest.skip('ScaNN is not installed')
    if name == 'tpu_compile' and not importlib.util.find_spec('libtpu'):
        pytest.skip("the TPU compiler is not installed: pip install -e '.[tpu-aot]'")
    if name in ('train_step', 'accelerator'):
        request.getfixturevalue('transformers')
    if name in OF_TEXT:
        pytest.importorskip('spacy', reason='spaCy is not installed')
    options, field = TINY[name]
    if name in OF_SETS:
        data = request.getfixturevalue('shared_data')
        options += OF_SETS[name](binaries, data, tmp_path)
    elif name == 'evidence':
        options += _asked_of_films(tmp_path)
    command = [BENCHMARKS / f'{name}.py', *options.split(), '--json']
    if name == 'train_step':  # one as its user starts it, with nothing imported yet
        cpu = ENVIRONMENT | {'JAX_PLATFORMS': 'cpu'}
        ran = subprocess.run([sys.executable, *command], env=cpu, capture_output=True, text=True)
    else:
        ran = binaries.script(*command)
    assert ran.returncode == 0, ran.stderr[-3000:]
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert field in lines[-1]


def _write_lines(path, records):
    path.write_text(''.join(json.dumps(record) + '\n' for record in records), encoding='utf-8')
    return path


def _asked_of_films(folder):
    """Makes a knowledge base, and questions of which it answers two; returns the options."""
    index_text([films.write(folder / 'films.jsonl')], folder / 'kb', processes=1)
    asked = [('Who directed Night Ferry?', ['ferry']), ('Where was Clara Holm born?', ['holm'])]
    asked += [('Who is the mayor of Lima?', []), ('How tall is Mount Fuji?', [])]
    records = [{'question': question, 'supporting': supporting} for question, supporting in asked]
    return f'--kb {folder}/kb --questions {_write_lines(folder / "asked.jsonl", records)}'


def _calibration(binaries, data, folder):
    """Makes a knowledge base of a few films and questions about them; returns the options."""
    few = (data / 'metaqa/passages.jsonl').read_text(encoding='utf-8').splitlines()[:40]
    passages = [json.loads(passage) for passage in few]
    index_text(
        [_write_lines(folder / 'few.jsonl', passages)], folder / 'sets/films/0.kb', processes=1
    )
    titles, about = {passage['title'] for passage in passages}, []
    for line in (data / 'metaqa/1-hop/dev.txt').read_text(encoding='utf-8').splitlines():
        question, answers, *_ = line.split('\t')
        before, topic, after = re.split(r'[\[\]]', question)
        if topic in titles:
            about.append({'question': before + topic + after, 'answers': answers.split('|')})
    _write_lines(folder / 'sets/films/0.jsonl', about[:8])
    return f' {folder / "sets"}'


def _comparisons(binaries, data, folder):
    """Makes the questions that compare, and a knowledge base for two of them; returns the options
    that ask these.
    """
    made, texts = folder / 'made.jsonl', folder / 'texts.jsonl'
    done = binaries.script(
        BENCHMARKS / 'comparisons.py', '--data', data, '--write', made, '--texts', texts
    )
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in made.read_text(encoding='utf-8').splitlines()]
    assert len({record['kind'] for record in records}) == 5
    few = [record for record in records if record['kind'] == 'comparison'][:2]
    needed = {name for record in few for name in record['documents']}
    documents = [json.loads(line) for line in texts.read_text(encoding='utf-8').splitlines()]
    documents = [document for document in documents if document['id'] in needed]
    index_text(documents, folder / 'kb', processes=1)
    return f' --questions {_write_lines(made, few)} --kb {folder / "kb"}'


# Those of text need spaCy; those of public sets are made of `shared_data` in a folder.
OF_SETS = {
    'recognition': lambda binaries, data, folder: f' --data {data / "redocred"}',
    'calibration_sets': lambda binaries, data, folder: f' {folder} --data {data}',
    'comparisons': _comparisons,
    'retrieval': lambda binaries, data, folder: f' --data {data} --out {folder}',
    'others': lambda binaries, data, folder: f' --data {data}',
    'calibration': _calibration,
}
OF_TEXT = {'index_text', 'evidence', *OF_SETS}


HLO = """HloModule step

%inner_body (p: s32[]) -> s32[] {
  ROOT %a = s32[] add(%p, %p), backend_config={"estimated_cycles":"5"}
}

%inner_condition (p: s32[]) -> pred[] {
  %limit.1 = u32[] constant(3)
  ROOT %lt.1 = pred[] compare(%p, %limit.1), direction=LT
}

%outer_body (p: s32[]) -> s32[] {
  %w.1 = s32[] while(%p), condition=%inner_condition, body=%inner_body
  ROOT %b = s32[] add(%w.1, %p), backend_config={"estimated_cycles":"10"}
}

%outer_condition (p: s32[]) -> pred[] {
  %limit.2 = s32[]{:T(128)} constant(4)
  ROOT %lt.2 = pred[] compare(%p, %limit.2), direction=LT
}

ENTRY %main (p: s32[]) -> s32[] {
  %w.2 = s32[] while(%p), condition=%outer_condition, body=%outer_body
  %d = s32[] call(%w.2), to_apply=%inner_body
  %e = s32[] conditional(%p, %d, %d), branch_computations={%inner_body, %outer_body}
  ROOT %c = s32[] add(%e, %p), backend_config={"estimated_cycles":"100"}
}
"""


def test_cycles_count_as_often_as_they_are_run(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import hlo

    inner = 5
    outer = 10 + 3 * inner
    assert hlo.estimated_cycles(HLO) == 100 + 4 * outer + inner + max(inner, outer)
