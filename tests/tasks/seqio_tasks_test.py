"""SeqIO tasks give the batches of an objective, and sets of questions as they are scored."""

import importlib.util

import numpy as np
import pytest

import records
import tiny_prepared

seqio = pytest.importorskip('seqio', reason='SeqIO is not installed: pip install -e .[data]')
if importlib.util.find_spec('opql_jax_tasks') is None:
    pytest.skip('opql_jax_tasks is not installed: pip install -e .', allow_module_level=True)

import tensorflow as tf

from opql_jax.corpus.questions import write_questions
from opql_jax.data.prepared import Prepared
from opql_jax.data.sources import base
from opql_jax.data.sources.base import named_leaves
from opql_jax.data.sources.each_question import UNKNOWN
from opql_jax.training import objectives
from opql_jax_tasks import opql
from opql_jax_tasks.vocabulary import WordPieceVocabulary

STEPS = 6
OBJECTIVES = {
    'entities': lambda asked: objectives.Entities(rows=16),
    'relations': lambda asked: objectives.Relations(rows=32, sampler='groups', max_context=3),
    'align': lambda asked: objectives.Align(topics=4, rows_per_topic=4),
    'align_passages': lambda asked: objectives.AlignPassages(passages=16, topics=4, questions=16),
    'follow': lambda asked: objectives.Follow(splits=('1-hop/train', '2-hop/train'), questions=4),
    'lm_cloze': lambda asked: objectives.Cloze(rows=16, topics=3),
    'lm_names': lambda asked: objectives.LinkNames(rows=16, questions=asked),
    'lm_questions': lambda asked: objectives.AnswerQuestions(questions=asked, rows=4, text_rows=8),
}


@pytest.fixture(scope='module')
def directory(tmp_path_factory):
    return tiny_prepared.write(tmp_path_factory.mktemp('prepared'))


@pytest.fixture(scope='module')
def prepared(directory):
    return Prepared(directory)


@pytest.fixture(scope='module')
def asked(directory):
    return str(records.write_from_splits(Prepared(directory), directory / 'asked.jsonl'))


@pytest.fixture(autouse=True)
def clean_registry():
    yield
    for registry in (seqio.MixtureRegistry, seqio.TaskRegistry):
        for name in list(registry.names()):
            registry.remove(name)


def dataset(name, seed, split='train', converter=None, **options):
    converter = converter or seqio.PassThroughFeatureConverter()
    return seqio.get_dataset(name, None, converter, dataset_split=split, seed=seed, **options)


@pytest.mark.parametrize('kind', OBJECTIVES)
def test_elements_are_the_batches_of_the_objective_for_a_seed(directory, asked, kind):
    objective = OBJECTIVES[kind](asked)
    opql.register(kind, objective, directory)
    for seed in (0, 5):
        made = base.batches(objective.source(Prepared(directory), seed), 0, STEPS)
        found = dataset(kind, seed).take(STEPS).as_numpy_iterator()
        for element, batch in zip(found, made, strict=True):
            theirs = named_leaves(batch)
            assert element.keys() == theirs.keys() | {'targets'}
            for name, value in theirs.items():
                np.testing.assert_array_equal(element[name], np.atleast_1d(value), err_msg=name)
                assert element[name].dtype == value.dtype


def test_the_defaults_of_get_dataset_work_and_epochs_differ(directory):
    """Draws at random are shuffled already; a pass over eight questions is two steps."""
    opql.register('follow', objectives.Entities(rows=16), directory)  # whose place the next takes
    objective = objectives.Follow(splits=('1-hop/train',), questions=4)
    task = opql.register('follow', objective, directory)
    first, second = list(task.get_dataset(seed=1).batch(5).take(2).as_numpy_iterator())
    assert not np.array_equal(first['questions/tokens'], second['questions/tokens'])
    plain = next(iter(task.get_dataset(seed=1, shuffle=False).batch(5).as_numpy_iterator()))
    np.testing.assert_array_equal(plain['questions/tokens'], first['questions/tokens'])


def test_the_vocabulary_is_the_tokenizer(directory):
    vocabulary, words = WordPieceVocabulary(directory), 'the old river'
    ids = Prepared(directory).tokenizer.encode(words, add_special_tokens=False).ids
    assert vocabulary.encode(words) == ids and vocabulary.decode(ids) == words
    encoded = tf.data.Dataset.from_tensors(words).map(vocabulary.encode_tf)
    assert [found.tolist() for found in encoded.as_numpy_iterator()] == [ids]
    (said,) = encoded.map(vocabulary.decode_tf).as_numpy_iterator()
    assert said.decode() == words and vocabulary == WordPieceVocabulary(directory)


@pytest.fixture(scope='module')
def sets(prepared, tmp_path_factory):
    """(training, evaluation) files about entity 0; of some answers none is known, of some one."""
    keys, folder = [*prepared.vocab.keys, 'Nobody'], tmp_path_factory.mktemp('asked')
    train = [('met', [1, 2, 3], 1), ('saw', [4, -1], 2), ('built', [-1], 1), ('wrote', [5], 1)]
    test = [('old', [-1, 7], 2), ('new', [8], 1), ('lost', [-1], 1), ('again ' * 12, [9, 10], 1)]
    for name, questions in (('train.jsonl', train), ('test.jsonl', test)):
        lines = [
            records.question_record(
                str(number), f'[{keys[0]}] {words}', *(keys[a] for a in answers), hops=hops
            )
            for number, (words, answers, hops) in enumerate(questions)
        ]
        write_questions(folder / name, lines)
    return str(folder / 'train.jsonl'), str(folder / 'test.jsonl')


def register(prepared, sets, kind='lm', name='opql', **options):
    train, test = sets
    objective = {
        'lm': objectives.AnswerQuestions(questions=train, rows=2, text_rows=8),
        'follow': objectives.Follow(splits=('1-hop/train', '2-hop/train'), questions=2),
    }[kind]
    return opql.register(name, objective, prepared.directory, questions=[test], rows=2, **options)


def elements(name='opql', split='validation', converter=None, **options):
    converter = converter or opql.EvaluatedBatches()
    return dataset(name, options.pop('seed', None), split, converter).as_numpy_iterator()


@pytest.mark.parametrize('kind', ['lm', 'follow'])
def test_each_question_is_asked_once_by_hops(prepared, sets, kind):
    task = register(prepared, sets, kind)
    batches = first, second, third = list(elements(converter=seqio.PassThroughFeatureConverter()))
    answers = [[row[row != -1].tolist() for row in batch['targets']] for batch in batches]
    assert answers == [[[8], [UNKNOWN]], [[9, 10], []], [[7, UNKNOWN], []]]
    assert [batch['hops'].tolist() for batch in batches] == [[1], [1], [2]]
    assert first['id'].tolist() == [b'1', b'2'] and second['id'].tolist() == [b'3', b'']
    name = prepared.vocab.keys[0]
    assert third['question'].tolist() == [f'[{name}] old'.encode(), b'']
    tokens = 'questions/0/texts/tokens' if kind == 'lm' else 'questions/tokens'
    text = task.output_features[tokens].vocabulary.decode(third[tokens][0])
    topic = name if kind == 'lm' else '[ENT]'  # which a follower knows
    assert f'{topic} [R1] old [ENT] [R2]'.lower() in text.lower()
    in_vocabulary = lambda rows: [row[row >= 0].tolist() for row in rows]
    for batch in batches:
        known = batch['questions/0/answers' if kind == 'lm' else 'questions/answers']
        assert in_vocabulary(known) == in_vocabulary(batch['targets'])
    if kind == 'lm':
        assert first['questions/0/label'].tolist() == [8, -1]
        assert second['questions/0/label'].tolist() == [9, -1]


def test_a_model_gets_no_text(prepared, sets):
    register(prepared, sets)
    for batch in elements():
        assert not {'id', 'question'} & batch.keys()
        assert all(value.dtype.kind in 'ifb' for value in batch.values())


def test_an_evaluator_scores_ranked_entities(prepared, sets):
    register(prepared, sets)
    ranked = {8: [8, 0, 1, 2, 3, 4], 9: [0, 1, 2, 3, 10, 9]}
    ranked |= {7: [0, 1, 2, 3, 4, 7], -1: [0, 1, 2, 3, 4, 5]}
    answer = lambda batch: [ranked[label] for label in batch['questions/0/label']]
    predict = lambda batches: [(i, answer(batch)) for i, batch in batches.as_numpy_iterator()]
    evaluator = seqio.Evaluator('opql', opql.EvaluatedBatches(), eval_split='validation')
    found, _ = evaluator.evaluate(compute_metrics=True, predict_fn=predict)
    hits = {'hits@1': 0.25, 'hits@5': 0.5, 'hits@10': 0.75}
    assert found.result() == {'opql': hits | {'answer_coverage': 0.75}}
