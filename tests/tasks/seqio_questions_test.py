"""Sets of questions as SeqIO tasks: what is asked, and how it is scored."""

import importlib.util

import numpy as np
import pytest

import tiny_prepared

seqio = pytest.importorskip('seqio', reason='SeqIO is not installed: pip install -e .[data]')
if importlib.util.find_spec('opql_jax_tasks') is None:
    pytest.skip('opql_jax_tasks is not installed: pip install -e .', allow_module_level=True)

from opql_jax.corpus.questions import write_questions
from opql_jax.data.prepared import Prepared
from opql_jax.data.sources.each_question import UNKNOWN
from opql_jax.evaluation import metrics
from opql_jax.training import objectives
from opql_jax_tasks import opql
from opql_jax_tasks.metrics import ranked_entities


@pytest.fixture(scope='module')
def prepared(tmp_path_factory):
    return Prepared(tiny_prepared.write(tmp_path_factory.mktemp('prepared')))


@pytest.fixture(autouse=True)
def clean_registry():
    yield
    for registry in (seqio.MixtureRegistry, seqio.TaskRegistry):
        for name in list(registry.names()):
            registry.remove(name)


@pytest.fixture(scope='module')
def asked(prepared, tmp_path_factory):
    """A function that writes questions (words, answers, hops) about entity 0 to a file; an int is an entity's answer."""
    folder, keys = tmp_path_factory.mktemp('asked'), prepared.vocab.keys

    def write(name, questions):
        about = {'topics': [[0, len(keys[0])]]}
        known = lambda answers: [keys[a] if isinstance(a, int) else a for a in answers]
        records = [
            {'id': str(number), 'question': f'{keys[0]} {words}', **about, 'answers': known(answers), 'hops': hops}
            for number, (words, answers, hops) in enumerate(questions)
        ]
        write_questions(folder / name, records)
        return str(folder / name)

    return write


@pytest.fixture(scope='module')
def sets(asked):
    """(training, evaluation): of the latter one answer is unknown beside a known one, one question has none that is known."""
    train = [('met', [1, 2, 3], 1), ('saw', [4, 'Nobody'], 2), ('built', ['Nobody'], 1), ('wrote', [5], 1)]
    test = [('old', ['Nobody', 7], 2), ('new', [8], 1), ('lost', ['Nobody'], 1), ('again ' * 12, [9, 10], 1)]
    return asked('train.jsonl', train), asked('test.jsonl', test)


def register(prepared, sets, kind='lm', name='opql', **options):
    train, test = sets
    objective = {
        'lm': objectives.AnswerQuestions(questions=train, rows=2, text_rows=8),
        'follow': objectives.Follow(splits=('1-hop/train', '2-hop/train'), questions=2),
    }[kind]
    return opql.register(name, objective, prepared.directory, questions=[test], rows=2, **options)


def elements(name='opql', split='validation', converter=None, **options):
    data = seqio.get_dataset(name, None, converter or opql.EvaluatedBatches(), dataset_split=split, **options)
    return data.as_numpy_iterator()


@pytest.mark.parametrize('kind', ['lm', 'follow'])
def test_each_question_is_asked_once_by_hops(prepared, sets, kind):
    task = register(prepared, sets, kind)
    first, second, third = elements(converter=seqio.PassThroughFeatureConverter())
    answers = [[row[row != -1].tolist() for row in batch['targets']] for batch in (first, second, third)]
    assert answers == [[[8], [UNKNOWN]], [[9, 10], []], [[7, UNKNOWN], []]]
    assert [batch['hops'].tolist() for batch in (first, second, third)] == [[1], [1], [2]]
    assert first['id'].tolist() == [b'1', b'2'] and second['id'].tolist() == [b'3', b'']
    name = prepared.vocab.keys[0]
    assert third['question'].tolist() == [f'[{name}] old'.encode(), b'']
    tokens = 'questions/0/texts/tokens' if kind == 'lm' else 'questions/tokens'
    text = task.output_features[tokens].vocabulary.decode(third[tokens][0])
    topic = name if kind == 'lm' else '[ENT]'  # which a follower knows
    assert f'{topic} [R1] old [ENT] [R2]'.lower() in text.lower()
    for batch in (first, second, third):
        known = batch['questions/0/answers' if kind == 'lm' else 'questions/answers']
        assert [row[row >= 0].tolist() for row in known] == [row[row >= 0].tolist() for row in batch['targets']]
    if kind == 'lm':
        assert first['questions/0/label'].tolist() == [8, -1] and second['questions/0/label'].tolist() == [9, -1]


def test_a_model_gets_no_text(prepared, sets):
    register(prepared, sets)
    for batch in elements():
        assert not {'id', 'question'} & batch.keys() and all(value.dtype.kind in 'ifb' for value in batch.values())


def test_an_evaluator_scores_ranked_entities(prepared, sets):
    register(prepared, sets)
    ranked = {8: [8, 0, 1, 2, 3, 4], 9: [0, 1, 2, 3, 10, 9], 7: [0, 1, 2, 3, 4, 7], -1: [0, 1, 2, 3, 4, 5]}

    predict = lambda batches: [(i, [ranked[label] for label in b['questions/0/label']]) for i, b in batches.as_numpy_iterator()]
    evaluator = seqio.Evaluator('opql', opql.EvaluatedBatches(), eval_split='validation')
    found, _ = evaluator.evaluate(compute_metrics=True, predict_fn=predict)
    assert found.result() == {'opql': {'hits@1': 0.25, 'hits@5': 0.5, 'hits@10': 0.75, 'answer_coverage': 0.75}}


def test_the_metric_is_that_of_evaluation():
    rng = np.random.default_rng(0)
    n = 200
    ranked = np.array([rng.permutation(40)[:12] for _ in range(n)])
    gold = [[*rng.choice(40, rng.integers(0, 4), replace=False).tolist(), *[UNKNOWN] * rng.integers(0, 2)] for _ in range(n)]
    gold = [answers or [UNKNOWN] for answers in gold]
    scored = metrics.summarise([metrics.score(r.tolist(), [1.0] * len(r), answers) for r, answers in zip(ranked, gold)])
    padded = np.full((n + 10, 8), -1)  # the last rows are unused
    for row, answers in zip(padded, gold):
        row[: len(answers)] = answers
    ranked = np.concatenate([ranked, np.zeros((10, 12), int)])
    found = ranked_entities(padded.reshape(7, 30, 8), ranked.reshape(7, 30, 12))
    assert found.pop('answer_coverage') == np.mean([max(answers) >= 0 for answers in gold])
    assert found == {name: scored[name] for name in found} and set(found) == {'hits@1', 'hits@5', 'hits@10'}


def test_sets_of_several_hops_can_be_mixed(prepared, asked):
    short = asked('1.jsonl', [('met', [1], 1)] * 3)
    long = asked('2.jsonl', [('met ' * 9, list(range(20)), 2)] * 3)
    for hops, train in {1: short, 2: long}.items():
        objective = objectives.AnswerQuestions(questions=train, rows=2, text_rows=0)
        opql.register(f'metaqa_{hops}hop', objective, prepared.directory)
    mixture = seqio.MixtureRegistry.add('metaqa', [('metaqa_1hop', 3), ('metaqa_2hop', 1)])
    assert [task.name for task in mixture.tasks] == ['metaqa_1hop', 'metaqa_2hop']
    batches = [batch for batch, _ in zip(elements('metaqa', 'train', seed=0), range(300))]
    two = np.array([batch['hops'][0] == 2 for batch in batches])
    assert 0.15 < two.mean() < 0.35
    for batch, is_long in zip(batches, two):
        assert batch['questions/0/answers'].shape == (2, 24 if is_long else 8)
