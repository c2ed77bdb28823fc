"""SeqIO tasks give the batches that an objective is trained on, and sets of questions as they are
asked and scored.
"""

import importlib.util

import numpy as np
import pytest

import question_records
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
from opql_jax.evaluation import metrics
from opql_jax.evaluation.metrics import means
from opql_jax.training import objectives
from opql_jax_tasks import opql
from opql_jax_tasks.metrics import ranked_entities
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
    return str(question_records.write_from_splits(Prepared(directory), directory / 'asked.jsonl'))


@pytest.fixture(autouse=True)
def clean_registry():
    yield
    for registry in (seqio.MixtureRegistry, seqio.TaskRegistry):
        for name in list(registry.names()):
            registry.remove(name)


def dataset(name, seed, split='train', converter=None, **options):
    converter = converter or seqio.PassThroughFeatureConverter()
    return seqio.get_dataset(name, None, converter, dataset_split=split, seed=seed, **options)


def check_equal(element, batch):
    """An element has the arrays of a batch, and the targets."""
    theirs = named_leaves(batch)
    assert element.keys() == theirs.keys() | {'targets'}
    for name, value in theirs.items():
        np.testing.assert_array_equal(element[name], np.atleast_1d(value), err_msg=name)
        assert element[name].dtype == value.dtype


@pytest.mark.parametrize('kind', OBJECTIVES)
def test_elements_are_the_batches_of_the_objective_for_a_seed(directory, asked, kind):
    objective = OBJECTIVES[kind](asked)
    opql.register(kind, objective, directory)
    for seed in (0, 5):
        made = base.batches(objective.source(Prepared(directory), seed), 0, STEPS)
        found = dataset(kind, seed).take(STEPS).as_numpy_iterator()
        for element, batch in zip(found, made, strict=True):
            check_equal(element, batch)


@pytest.mark.parametrize('kind', OBJECTIVES)
def test_a_task_states_its_features(directory, asked, kind):
    task = opql.register(kind, OBJECTIVES[kind](asked), directory)
    for split in ('train', 'validation'):
        spec = dataset(kind, 0, split).element_spec
        assert set(task.output_features) <= set(spec)
        assert all(value.shape.is_fully_defined() for value in spec.values())
        for name, feature in task.output_features.items():
            assert feature.dtype == spec[name].dtype and feature.rank == spec[name].shape.rank
            assert isinstance(feature.vocabulary, WordPieceVocabulary) == name.endswith('/tokens')
    assert task.output_features['targets'].vocabulary.keys == Prepared(directory).vocab.keys


def test_elements_that_are_joined_are_the_shards_of_a_step(directory):
    objective = objectives.Relations(rows=32)
    source = objective.source(Prepared(directory), 3)
    opql.register('two', objective, directory, batch_size=2)
    elements = list(dataset('two', 3).take(4).as_numpy_iterator())
    for i, element in enumerate(elements):
        check_equal(element, source.shard(i % 2, 2)[i // 2])
    for index in range(2):  # of two processes, each with one element of a step
        of_process = dataset('two', 3, shard_info=seqio.ShardInfo(index, 2)).take(2)
        pairs = zip(of_process.as_numpy_iterator(), elements[index::2], strict=True)
        for element, expected in pairs:
            np.testing.assert_array_equal(element['pairs/0/tokens'], expected['pairs/0/tokens'])


def test_the_defaults_of_get_dataset_work_and_epochs_differ(directory):
    """SeqIO shuffles by default, which draws at random already have; a pass over eight questions is
    two steps.
    """
    opql.register('follow', objectives.Entities(rows=16), directory)  # whose place the next takes
    objective = objectives.Follow(splits=('1-hop/train',), questions=4)
    task = opql.register('follow', objective, directory)
    first, second = list(task.get_dataset(seed=1).batch(5).take(2).as_numpy_iterator())
    assert not np.array_equal(first['questions/tokens'], second['questions/tokens'])
    plain = next(iter(task.get_dataset(seed=1, shuffle=False).batch(5).as_numpy_iterator()))
    np.testing.assert_array_equal(plain['questions/tokens'], first['questions/tokens'])


def test_an_iterator_is_saved_and_restored(directory, tmp_path):
    opql.register('entities', objectives.Entities(rows=16), directory)
    begun, resumed = (iter(dataset('entities', 2, num_epochs=None).batch(1)) for _ in range(2))
    for _ in range(3):
        next(begun)
    tf.train.Checkpoint(ds=begun).write(str(tmp_path / 'iterator'))
    tf.train.Checkpoint(ds=resumed).read(str(tmp_path / 'iterator')).assert_consumed()
    found, expected = (next(one)['mentions/0/tokens'] for one in (resumed, begun))
    np.testing.assert_array_equal(found, expected)


def test_align_is_evaluated_on_other_questions(directory, asked):
    objective = objectives.Align(topics=4, rows_per_topic=4)
    opql.register('align', objective, directory, questions=[asked])
    of_train = [q.topic_entity for q in Prepared(directory).questions('1-hop/train')]
    known, others = set(of_train[:8]), set(of_train[8:])
    topics = {split: set() for split in ('train', 'validation')}
    for split, found in topics.items():
        for element in dataset('align', 0, split).take(5).as_numpy_iterator():
            found.update(element['questions/topic'].tolist())
    assert topics['validation'] <= known | {-1} and topics['train'] & (others - known)


def test_the_vocabulary_is_the_tokenizer(directory):
    vocabulary, words = WordPieceVocabulary(directory), 'the old river'
    ids = Prepared(directory).tokenizer.encode(words, add_special_tokens=False).ids
    assert vocabulary.encode(words) == ids and vocabulary.decode(ids) == words
    encoded = tf.data.Dataset.from_tensors(words).map(vocabulary.encode_tf)
    assert [found.tolist() for found in encoded.as_numpy_iterator()] == [ids]
    (said,) = encoded.map(vocabulary.decode_tf).as_numpy_iterator()
    assert said.decode() == words and vocabulary == WordPieceVocabulary(directory)


# Sets of questions.


@pytest.fixture(scope='module')
def ask(prepared, tmp_path_factory):
    """A function that writes questions (words, answers, hops) about entity 0 to a file; an int is
    an entity's answer.
    """
    folder, keys = tmp_path_factory.mktemp('asked'), prepared.vocab.keys

    def write(name, questions):
        about = {'topics': [[0, len(keys[0])]]}
        known = lambda answers: [keys[a] if isinstance(a, int) else a for a in answers]
        records = [
            {'id': str(number), 'question': f'{keys[0]} {words}', **about}
            | {'answers': known(answers), 'hops': hops}
            for number, (words, answers, hops) in enumerate(questions)
        ]
        write_questions(folder / name, records)
        return str(folder / name)

    return write


@pytest.fixture(scope='module')
def sets(ask):
    """(training, evaluation): of the latter one answer is unknown beside a known one, one question
    has none that is known.
    """
    train = [('met', [1, 2, 3], 1), ('saw', [4, 'Nobody'], 2)]
    train += [('built', ['Nobody'], 1), ('wrote', [5], 1)]
    test = [('old', ['Nobody', 7], 2), ('new', [8], 1)]
    test += [('lost', ['Nobody'], 1), ('again ' * 12, [9, 10], 1)]
    return ask('train.jsonl', train), ask('test.jsonl', test)


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


def test_the_metric_is_that_of_evaluation():
    rng = np.random.default_rng(0)
    n = 200
    ranked = np.array([rng.permutation(40)[:12] for _ in range(n)])
    gold = [
        [
            *rng.choice(40, rng.integers(0, 4), replace=False).tolist(),
            *[UNKNOWN] * rng.integers(0, 2),
        ]
        for _ in range(n)
    ]
    gold = [answers or [UNKNOWN] for answers in gold]
    scored = means(
        metrics.score(r.tolist(), [1.0] * len(r), answers) for r, answers in zip(ranked, gold)
    )
    padded = np.full((n + 10, 8), -1)  # the last rows are unused
    for row, answers in zip(padded, gold):
        row[: len(answers)] = answers
    ranked = np.concatenate([ranked, np.zeros((10, 12), int)])
    found = ranked_entities(padded.reshape(7, 30, 8), ranked.reshape(7, 30, 12))
    assert found.pop('answer_coverage') == np.mean([max(answers) >= 0 for answers in gold])
    assert found == {name: scored[name] for name in found}
    assert set(found) == {'hits@1', 'hits@5', 'hits@10'}


def test_sets_of_several_hops_can_be_mixed(prepared, ask):
    short = ask('1.jsonl', [('met', [1], 1)] * 3)
    long = ask('2.jsonl', [('met ' * 9, list(range(20)), 2)] * 3)
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
