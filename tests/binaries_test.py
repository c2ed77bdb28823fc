"""Every binary run as its user runs it, from text to answers, and every gin file."""

import itertools
import json
import re
import shutil
import subprocess
import sys
import types

import pytest

from opql_jax.corpus.questions import bracketed, read_questions, to_record, write_questions
from opql_jax.data.prepared import Prepared
from opql_jax.datasets.synthetic.questions import questions
from opql_jax.datasets.synthetic.world import generate
from opql_jax.training import objectives

import records
import tiny_training
from forked_binaries import ENCODER, ENVIRONMENT, ROOT
from gin_files import GIN
from question_records import question_record

DOCUMENTS = 60
# What `opql ask` prints: weight, entity, topic, target and sentence.
FACT = re.compile(r'^ +(\d\.\d+)  (.+)\n {12}\[(.+) → (.+), in “.+”\]  (.+)$', re.M)


def train(stage, kb, *flags):
    """The flags of a run of one or two small steps."""
    size = {
        'entities': 'objectives.Entities.rows=16',
        'relations': 'objectives.Relations.rows=16',
        'align': 'objectives.Align.rows=16',
        'follow': 'objectives.Follow.questions=8',
        'lm_questions': 'objectives.AnswerQuestions.rows=8',
    }[stage]
    files = [*ENCODER, f'--gin_file=gin/runs/{stage}.gin']
    return [*files, f'--gin.{size}', kb, '--gin.STEPS=2', *flags]


def snapshot(folder):
    """Every path below a folder, with size and time of change."""
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob('*')}


@pytest.fixture(scope='module')
def chain(binaries, tmp_path_factory):
    """All binaries in turn over a generated world, the first as `python -m opql_jax.prepare`."""

    def run(binary, *flags):
        """Runs a binary, which must succeed; returns what it printed."""
        if binary == 'prepare':
            command = [sys.executable, '-m', 'opql_jax.prepare', *map(str, flags)]
            options = {'cwd': ROOT, 'env': ENVIRONMENT, 'timeout': 300}
            done = subprocess.run(command, capture_output=True, text=True, **options)
        else:
            done = binaries(binary, *flags)
        assert done.returncode == 0, done.stderr
        return done.stdout

    root = tmp_path_factory.mktemp('chain')
    kb, build = f'--gin.KB={root}', '--gin_file=gin/runs/build_memory.gin'
    run('prepare', '--gin_file=gin/data/synthetic.gin', kb, f'--gin.DOCUMENTS={DOCUMENTS}')
    run('train', *train('entities', kb))
    run('train', *train('relations', kb, '--gin.INIT_FROM=entities'))
    run('build_memory', build, kb, '--gin.MODEL=relations', '--gin.MEMORY=memory_relations')
    run('train', *train('align', kb))
    run('build_memory', build, kb)

    file = root / 'asked.jsonl'
    world = generate(0, DOCUMENTS)
    first = lambda split, hops, n: itertools.islice(questions(world, split, hops), n)
    asked = [to_record(question, world.vocab()) for question in first('dev', 2, 6)]
    unknown = 'who starred in the films directed by [Nobody Known]'
    asked.insert(2, question_record('unknown', unknown, 'Nobody Else', hops=2))
    write_questions(file, asked)
    (root / 'mine.txt').write_text(f'{unknown}\tNobody Else\n')
    sentences = [
        {'text': f'{a} {relation} {b} .', 'sub_text': a, 'rel': relation, 'obj_text': b}
        for a, relation, b in map(
            str.split, ('Ann made Emma', 'Jo made Lucy', 'Rome near Bonn', 'York near Ulm')
        )
    ]
    records.write(root / 'labelled.jsonl', sentences)
    read = {'source': 'a', 'question': 'who met Emma', 'passages': ['Ann met Emma']}
    read |= {'answers': [[0, 0, 3]], 'supports': [1]}
    records.write(root / 'examples.jsonl', [read])
    known = [to_record(question, world.vocab()) for question in first('train', 1, 2)]
    write_questions(root / 'open.jsonl', known)
    without = ['--gin.MEMORY=None', '--gin.INIT_FROM=align', '--gin.ENTITY_LAYER=0']
    without += [f'--gin.QUESTIONS={root / "open.jsonl"}']
    run('train', *train('lm_questions', kb, *without))
    text_relations = objectives.TextRelations(
        relations=0, pairs=2, unrelated=0, sentence_weight=0.0
    )
    tiny_training.write_untrained(root / 'text', root / 'text_relations', text_relations)
    run('train', *train('follow', kb, "--gin.objectives.Follow.splits=('2-hop/train',)"))
    flags, evaluate = [f'--gin.QUESTIONS={file}'], ['eval', '--gin_file=gin/runs/eval.gin', kb]
    run('infer', '--gin_file=gin/runs/infer.gin', kb, *flags, f'--gin.OUTPUT={root / "mine.jsonl"}')
    scored = [f'--gin.PREDICTIONS={root / "mine.jsonl"}', f'--gin.OUTPUT_DIR={root / "scored"}']
    score = run(*evaluate, *flags, *scored, '--gin.SHOW=1')
    question = bracketed(read_questions(file, Prepared(root / 'text').vocab)[0])
    printed = {'score': score, 'ask': run('cli', 'ask', str(root), question, '--hops', '2')}
    told = {'questions': asked, 'question': question, **printed}
    return types.SimpleNamespace(root=root, kb=kb, asked=flags, **told)


def test_scoring_the_output_of_infer_equals_answering_the_file(chain, binaries, tmp_path):
    evaluate = ['eval', '--gin_file=gin/runs/eval.gin', chain.kb, *chain.asked]
    answered = binaries(*evaluate, f'--gin.OUTPUT_DIR={tmp_path}')
    assert answered.returncode == 0, answered.stderr
    metrics = json.loads((tmp_path / 'metrics.json').read_text())
    assert metrics == json.loads((chain.root / 'scored/metrics.json').read_text())
    (scored,) = metrics.values()
    assert (scored['questions'], scored['unknown_topics']) == (len(chain.questions), 1)
    assert f'{scored["hits@1"]:.4f}' in answered.stdout
    assert not list((chain.root / 'scored').glob('*.predictions.jsonl'))
    # --gin.SHOW=1.
    assert chain.question in chain.score and 'hop 2 (answer)' in chain.score
    before = snapshot(chain.root)
    infer = ['infer', '--gin_file=gin/runs/infer.gin', chain.kb, *chain.asked]
    again = binaries(*infer, f'--gin.OUTPUT={chain.root / "mine.jsonl"}')
    assert again.returncode == 0 and 'is already complete' in again.stderr
    assert snapshot(chain.root) == before


def test_new_text_is_added_asked_about_and_deleted(chain, binaries, tmp_path):
    def succeed(binary, *flags):
        done = binaries(binary, *flags)
        assert done.returncode == 0, done.stderr
        return done.stdout

    for part in ('text', 'align', 'memory', 'follow'):
        shutil.copytree(chain.root / part, tmp_path / 'kb' / part)
    shutil.copy(chain.root / 'manifest.json', tmp_path / 'kb')
    kb = f'--gin.KB={tmp_path / "kb"}'
    corpus = tmp_path / 'new.jsonl'
    topic = re.search(r'\[(.*)\]', chain.question).group(1)
    text = f'Zorblax was made by {topic} in a week.'
    records.write(corpus, [{'id': 'new', 'title': 'Zorblax', 'text': text}])
    into = ['--gin.EXTENDS=text', '--gin.TEXT=more']
    succeed('prepare', '--gin_file=gin/data/jsonl.gin', f'--gin.CORPUS={corpus}', kb, *into)
    update = ['update_memory', '--gin_file=gin/runs/update_memory.gin', kb]
    inject = [*update, '--gin.ACTION=inject', '--gin.TEXT=more']
    succeed(*inject)
    ask = ['cli', 'ask', str(tmp_path / 'kb'), 'by [Zorblax]']
    assert FACT.findall(succeed(*ask)) == [('1.000', topic, 'Zorblax', topic, text)]
    new = ['--document=new', '--pair', f'{topic}|Zorblax']
    deleted = succeed(*update, '--gin.ACTION=delete', *new)
    assert deleted == 'deleted 2 entries\n'
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
def test_a_dry_run_prints_configuration_and_shapes_and_writes_nothing(chain, binaries, name):
    binary, flags, shown = GIN[name]
    flags = [flag.replace('{kb}', str(chain.root)) for flag in flags]
    encoder = ENCODER if binary == 'train' and name.startswith('runs/') else []
    before = snapshot(chain.root)
    done = binaries(binary, *encoder, f'--gin_file=gin/{name}.gin', '--dry_run', *flags)
    assert done.returncode == 0, done.stderr
    assert snapshot(chain.root) == before
    for macro, value in re.findall(r'--gin\.([A-Z_]+)=(\S+)', ' '.join(flags)):
        assert re.search(rf"^{macro} = '?{re.escape(value)}'?$", done.stdout, re.MULTILINE), macro
    for text in ['# operative configuration\n', *shown]:
        assert text in done.stdout
