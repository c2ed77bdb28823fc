"""Every binary as its user runs it, and every gin file; recipes/rows_test.py trains with them."""

import json
import re
import shutil

import pytest

from opql_jax.corpus.questions import bracketed, read_questions
from opql_jax.data.prepared import Prepared
from opql_jax.training import objectives

import records
import tiny_training
from forked_binaries import ENCODER, ROOT
from gin_files import GIN
from records import write_from_splits

# What `opql ask` prints: weight, entity, topic, target and sentence.
FACT = re.compile(r'^ +(\d\.\d+)  (.+)\n {12}\[(.+) → (.+), in “.+”\]  (.+)$', re.M)


def snapshot(folder):
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob('*')}


@pytest.fixture(scope='module')
def kb(world, tmp_path_factory):
    """A copy of a knowledge base, with untrained models of all kinds, and files of questions."""
    kb = shutil.copytree(world, tmp_path_factory.mktemp('binaries') / 'kb')
    of_text = objectives.TextRelations(relations=0, pairs=2, unrelated=0, sentence_weight=0.0)
    models = {'entities': objectives.Entities(), 'relations': None, 'text_relations': of_text}
    for name, objective in models.items():
        tiny_training.write_untrained(kb / 'text', kb / name, objective)
    write_from_splits(Prepared(kb / 'text'), kb / 'open.jsonl', hops=(1,), count=2)
    write_from_splits(Prepared(kb / 'text'), kb / 'asked.jsonl', hops=(2,), count=7)
    (kb / 'mine.txt').write_text('who starred in the films directed by [Nobody]\tNobody Else\n')
    sentences = [
        {'text': f'{a} {relation} {b} .', 'sub_text': a, 'rel': relation, 'obj_text': b}
        for a, relation, b in map(
            str.split, ('Ann made Emma', 'Jo made Lucy', 'Rome near Bonn', 'York near Ulm')
        )
    ]
    records.write(kb / 'labelled.jsonl', sentences)
    read = {'source': 'a', 'question': 'who met Emma', 'passages': ['Ann met Emma']}
    records.write(kb / 'examples.jsonl', [read | {'answers': [[0, 0, 3]], 'supports': [1]}])
    return kb


@pytest.fixture
def succeed(binaries):
    def succeed(binary, *flags):
        done = binaries(binary, *flags)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return succeed


def test_scoring_the_output_of_infer_equals_answering_the_file(kb, succeed, tmp_path):
    asked = f'--gin.KB={kb}', f'--gin.QUESTIONS={kb / "asked.jsonl"}'
    output = f'--gin.OUTPUT={tmp_path / "a.jsonl"}'
    succeed('infer', '--gin_file=gin/runs/infer.gin', *asked, output)
    evaluate = ['eval', '--gin_file=gin/runs/eval.gin', *asked]
    answered = succeed(*evaluate, f'--gin.OUTPUT_DIR={tmp_path / "answered"}')
    given = f'--gin.PREDICTIONS={tmp_path / "a.jsonl"}', f'--gin.OUTPUT_DIR={tmp_path / "scored"}'
    scored = succeed(*evaluate, *given, '--gin.SHOW=1')
    found, metrics = ((tmp_path / of / 'metrics.json').read_text() for of in ('answered', 'scored'))
    assert found == metrics
    (metrics,) = json.loads(metrics).values()
    assert metrics['questions'] == 7 and f'{metrics["hits@1"]:.4f}' in answered
    first = read_questions(kb / 'asked.jsonl', Prepared(kb / 'text').vocab)[0]
    assert bracketed(first) in scored and 'hop 2 (answer)' in scored


def test_new_text_is_added_asked_about_and_deleted(kb, succeed, tmp_path):
    for part in ('text', 'align', 'memory', 'follow'):
        shutil.copytree(kb / part, tmp_path / 'kb' / part)
    shutil.copy(kb / 'manifest.json', tmp_path / 'kb')
    topic = Prepared(kb / 'text').vocab.names[0]
    text = f'Zorblax was made by {topic} in a week.'
    new = [{'id': 'new', 'title': 'Zorblax', 'text': text}]
    corpus, here = records.write(tmp_path / 'new.jsonl', new), f'--gin.KB={tmp_path / "kb"}'
    into = ['--gin.EXTENDS=text', '--gin.TEXT=more']
    succeed('prepare', '--gin_file=gin/data/jsonl.gin', f'--gin.CORPUS={corpus}', here, *into)
    update = ['update_memory', '--gin_file=gin/runs/update_memory.gin', here]
    succeed(*update, '--gin.ACTION=inject', '--gin.TEXT=more')
    ask = ['cli', 'ask', str(tmp_path / 'kb'), 'by [Zorblax]']
    assert FACT.findall(succeed(*ask)) == [('1.000', topic, 'Zorblax', topic, text)]
    of_it = ['--document=new', '--pair', f'{topic}|Zorblax']
    assert succeed(*update, '--gin.ACTION=delete', *of_it) == 'deleted 2 entries\n'
    succeed(*update, '--gin.ACTION=compact')
    assert 'nothing: no entry of the memory has these topics' in succeed(*ask)


@pytest.mark.parametrize('binary', sorted({binary for binary, *_ in GIN.values()}))
def test_help_tells_the_flags_gin_files_and_parameters_of_a_binary(binaries, binary):
    done = binaries(binary, '--help')
    assert done.returncode == 0, done.stderr
    folder = 'MODEL_DIR' if binary == 'fewshot' else 'KB'
    for text in (f'python -m opql_jax.{binary} ', '--[no]dry_run', f'--gin.{folder}=', '\nArgs:\n'):
        assert text in done.stdout, text


def test_every_gin_file_is_run_by_the_test_below():
    paths = (ROOT / 'gin').rglob('*.gin')
    names = {str(path.relative_to(ROOT / 'gin').with_suffix('')) for path in paths}
    # included; of t5x's binaries: t5x_model_test; of recipes: recipes/rows_test.
    elsewhere = ('train', 't5x/', 'experiments/')
    assert {name for name in names if not name.startswith(elsewhere)} == set(GIN)


@pytest.mark.parametrize('name', GIN)
def test_a_dry_run_prints_configuration_and_shapes_and_writes_nothing(kb, binaries, name):
    binary, flags, shown = GIN[name]
    flags = [flag.replace('{kb}', str(kb)) for flag in flags]
    encoder = ENCODER if binary == 'train' and name.startswith('runs/') else []
    before = snapshot(kb)
    done = binaries(binary, *encoder, f'--gin_file=gin/{name}.gin', '--dry_run', *flags)
    assert done.returncode == 0, done.stderr
    assert snapshot(kb) == before
    for macro, value in re.findall(r'--gin\.([A-Z_]+)=(\S+)', ' '.join(flags)):
        assert re.search(rf"^{macro} = '?{re.escape(value)}'?$", done.stdout, re.MULTILINE), macro
    for text in ['# operative configuration\n', *shown]:
        assert text in done.stdout
