"""Sets of open questions as SeqIO tasks: what is trained on, what is scored, and the score."""

import importlib.util

import numpy as np
import pytest

import tiny_prepared

seqio = pytest.importorskip('seqio', reason='SeqIO is not installed: pip install -e .[data]')
if importlib.util.find_spec('opql_jax_tasks') is None:
    pytest.skip('opql_jax_tasks is not installed: pip install -e .', allow_module_level=True)

from opql_jax.core.errors import InputError
from opql_jax.corpus.questions import read_questions, write_questions
from opql_jax.data.prepared import Prepared
from opql_jax.data.sources.base import named_leaves
from opql_jax.data.sources.cloze import ClozeSource, EntryIndex
from opql_jax.data.sources.open_questions import OpenQuestionSource
from opql_jax.evaluation import metrics
from opql_jax_tasks import opql, question_sets

STEPS = 4


@pytest.fixture(scope='module')
def prepared(tmp_path_factory):
    return Prepared(tiny_prepared.write(tmp_path_factory.mktemp('prepared')))


@pytest.fixture(autouse=True)
def clean_registry():
    yield
    for registry in (seqio.MixtureRegistry, seqio.TaskRegistry):
        for name in list(registry.names()):
            if name.startswith('opql_'):
                registry.remove(name)


@pytest.fixture(scope='module')
def asked(prepared, tmp_path_factory):
    """A function that writes questions (words, answers, hops) about entity 0 to a file; an int is an entity's answer."""
    folder, keys = tmp_path_factory.mktemp('asked'), prepared.vocab.keys

    def write(name, questions):
        records = [
            {
                'id': str(number),
                'question': f'{keys[0]} {words}',
                'topics': [[0, len(keys[0])]],
                'answers': [keys[a] if isinstance(a, int) else a for a in answers],
                'hops': hops,
            }
            for number, (words, answers, hops) in enumerate(questions)
        ]
        write_questions(folder / name, records)
        return folder / name

    return write


@pytest.fixture(scope='module')
def files(asked):
    """One answer is unknown beside known ones, and one question has none that is known."""
    train = [('met', [1, 2, 3], 1), ('saw', [4, 'Nobody'], 2), ('built', ['Nobody'], 1), ('wrote', [5], 1)]
    test = [('old', ['Nobody', 7], 2), ('new', [8], 1), ('lost', ['Nobody'], 1), ('again ' * 12, [9, 10], 1)]
    return {'train': asked('train.jsonl', train), 'test': asked('test.jsonl', test)}


def dataset(name, split, seed=0):
    converter = seqio.PassThroughFeatureConverter()
    data = seqio.get_dataset(name, None, converter, dataset_split=split, seed=seed)
    return list(data.as_numpy_iterator())


def test_entries_of_a_memory_may_be_given(prepared):
    entries = EntryIndex(prepared.pairs['topic'], prepared.pairs['target'], prepared.pairs['passage'][:, None])
    opql.register('lm_cloze', prepared.directory, num_steps=1, entries=entries, rows=16)
    (batch,) = dataset('opql_lm_cloze', 'train')
    expected = named_leaves(ClozeSource(prepared, entries=entries, rows=16)[0])
    gold = [name for name in batch if name.endswith('/gold')]
    assert max(batch[name].max() for name in gold) >= 0
    for name in gold:
        np.testing.assert_array_equal(batch[name], expected[name])


def test_training_draws_what_the_source_draws(prepared, files):
    task = question_sets.register('opql_webqsp', prepared.directory, files, num_steps=STEPS, rows=2)
    assert task.name == 'opql_webqsp' and task.num_input_examples('train') == STEPS
    for seed in (0, 5):
        questions = read_questions(files['train'], prepared.vocab)
        source = OpenQuestionSource(prepared, questions, rows=2, seed=seed)
        batches = dataset(task.name, 'train', seed)
        assert len(batches) == STEPS
        for step, ours in enumerate(batches):
            theirs = named_leaves(source[step])
            assert ours.pop('hops').tolist() == [theirs.pop('hops')] * 2
            assert ours.keys() == theirs.keys()
            for name, value in ours.items():
                np.testing.assert_array_equal(value, theirs[name])
                assert value.dtype == theirs[name].dtype


def test_each_question_is_asked_once_by_hops(prepared, files):
    question_sets.register('opql_webqsp', prepared.directory, files, num_steps=1, rows=2)
    first, second, third = dataset('opql_webqsp', 'test')
    answers = [[row[row != -1].tolist() for row in batch['questions/0/answers']] for batch in (first, second, third)]
    unknown = question_sets.UNKNOWN
    assert answers == [[[8], [unknown]], [[9, 10], []], [[7, unknown], []]]
    assert [batch['hops'].tolist() for batch in (first, second, third)] == [[1, 1], [1, 1], [2, 2]]
    assert first['questions/0/label'].tolist() == [8, -1] and second['questions/0/label'].tolist() == [9, -1]
    name = prepared.vocab.keys[0]
    text = (
        seqio.TaskRegistry.get('opql_webqsp')
        .output_features['questions/0/texts/tokens']
        .vocabulary.decode(third['questions/0/texts/tokens'][0])
    )
    assert text.startswith('[CLS]') and f'{name} [R1] old [ENT] [R2]'.lower() in text.lower()


def test_an_evaluator_scores_ranked_entities(prepared, files):
    question_sets.register('opql_webqsp', prepared.directory, files, num_steps=1, rows=2)
    ranked = {8: [8, 0, 1, 2, 3, 4], 9: [0, 1, 2, 3, 10, 9], 7: [0, 1, 2, 3, 4, 7], -1: [0, 1, 2, 3, 4, 5]}

    def predict(batches):
        return [
            (index, [ranked[label] for label in batch['questions/0/label']]) for index, batch in batches.as_numpy_iterator()
        ]

    evaluator = seqio.Evaluator(
        'opql_webqsp', question_sets.EvaluatedBatches(), eval_split='test', target_field_name='questions/0/answers'
    )
    found, _ = evaluator.evaluate(compute_metrics=True, predict_fn=predict)
    assert found.result() == {'opql_webqsp': {'hits@1': 0.25, 'hits@5': 0.5, 'hits@10': 0.75, 'answer_coverage': 0.75}}


def test_the_metric_is_that_of_evaluation():
    rng = np.random.default_rng(0)
    n, unknown = 200, question_sets.UNKNOWN
    ranked = np.array([rng.permutation(40)[:12] for _ in range(n)])
    gold = [[*rng.choice(40, rng.integers(0, 4), replace=False).tolist(), *[unknown] * rng.integers(0, 2)] for _ in range(n)]
    gold = [answers or [unknown] for answers in gold]
    scored = metrics.summarise([metrics.score(r.tolist(), [1.0] * len(r), answers) for r, answers in zip(ranked, gold)])
    padded = np.full((n + 10, 8), -1)  # the last rows are unused
    for row, answers in zip(padded, gold):
        row[: len(answers)] = answers
    ranked = np.concatenate([ranked, np.zeros((10, 12), int)])
    found = question_sets.ranked_entities(padded.reshape(7, 30, 8), ranked.reshape(7, 30, 12))
    assert found.pop('answer_coverage') == np.mean([max(answers) >= 0 for answers in gold])
    assert found == {name: scored[name] for name in found} and set(found) == {'hits@1', 'hits@5', 'hits@10'}


def test_sets_of_several_hops_can_be_mixed(prepared, asked):
    short = asked('1.jsonl', [('met', [1], 1)] * 3)
    long = asked('2.jsonl', [('met ' * 9, list(range(20)), 2)] * 3)
    files = {1: {'train': short, 'test': short}, 2: {'train': long, 'test': long}}
    for hops, by_split in files.items():
        question_sets.register(f'opql_metaqa_{hops}hop', prepared.directory, by_split, num_steps=300, rows=2)
    mixture = seqio.MixtureRegistry.add('opql_metaqa', [('opql_metaqa_1hop', 3), ('opql_metaqa_2hop', 1)])
    assert [task.name for task in mixture.tasks] == ['opql_metaqa_1hop', 'opql_metaqa_2hop']
    batches = dataset('opql_metaqa', 'train')
    two = np.array([batch['hops'][0] == 2 for batch in batches])
    assert len(batches) >= 300 and 0.15 < two.mean() < 0.35
    for batch, is_long in zip(batches, two):
        assert batch['questions/0/answers'].shape == (2, 24 if is_long else 8)
        assert (batch['hops'] == 1 + is_long).all()


def test_what_cannot_be_scored_is_named(prepared, asked):
    nothing = asked('nothing.jsonl', [('met', [1], 1), ('saw', [], 1)])
    with pytest.raises(InputError, match='question 1 .* has no answers, so it cannot be scored'):
        question_sets.register('opql_webqsp', prepared.directory, {'test': nothing}, num_steps=1)
    long = asked('long.jsonl', [('saw ' * 200, [1], 1)])
    with pytest.raises(InputError, match='question 0 has 2.. tokens, at most 136 are read'):
        question_sets.register('opql_webqsp', prepared.directory, {'test': long}, num_steps=1)
