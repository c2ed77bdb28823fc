"""Objectives behind t5x's model interface: same losses and gradients; CI tries one of them."""

import functools
import inspect

import jax
import numpy as np
import pytest
import seqio
import t5x_interface
from flax import traverse_util

from opql_jax import t5x_model
from opql_jax.corpus.questions import read_questions
from opql_jax.data.prepared import Prepared
from opql_jax.data.sources.base import named_leaves
from opql_jax.evaluation import predictions
from opql_jax.evaluation.evaluate import evaluate_predictions
from opql_jax.parallel.mesh import make_mesh
from opql_jax.training import objectives, state, trainer
from opql_jax_tasks.metrics import ranked_entities

import question_records
import tiny_training

STEPS, STAGES = 4, ('relations', 'follow', 'align', 'cloze', 'questions')


@pytest.fixture(scope='module')
def world(tmp_path_factory):
    """A knowledge base: a text, a model, its memory, a file of open questions."""
    root = tmp_path_factory.mktemp('world')
    prepared = tiny_training.write_prepared(root / 'text')
    tiny_training.write_untrained(prepared, root / 'model', spread=8.0)
    tiny_training.write_memory(prepared, root / 'model', root / 'memory')
    question_records.write_from_splits(Prepared(prepared), root / 'asked.jsonl', hops=(2, 1))
    return root


@pytest.fixture(autouse=True)
def clean_registry():
    yield
    for name in list(seqio.TaskRegistry.names()):
        seqio.TaskRegistry.remove(name)


def make_objective(name, world, **options):
    memory, asked = 'memory', str(world / 'asked.jsonl')
    splits = tuple(f'{hops}-hop/train' for hops in (1, 2))
    return {
        'relations': lambda: objectives.Relations(rows=16, **options),
        'align': lambda: objectives.Align(rows=16, topics=4, rows_per_topic=4),
        'follow': lambda: objectives.Follow(
            **{'splits': splits, 'max_hops': 2} | options, memory_dir=memory, questions=8, k=8
        ),
        'cloze': lambda: objectives.Cloze(memory_dir=memory, rows=8, k=4),
        'questions': lambda: objectives.AnswerQuestions(
            memory_dir=memory, rows=8, k=4, text_rows=8, max_hops=2, questions=asked
        ),
    }[name]()


@functools.cache
def make_model(name, world):
    return open_model(make_objective(name, world), world)


def open_model(objective, world, init_from='model', **settings):
    """A model that starts from another."""
    config = trainer.TrainConfig(kb=str(world), model='', num_steps=STEPS, init_from=init_from)
    settings |= {'mesh': make_mesh(1)}
    return t5x_model.T5xModel(objective, tiny_training.encoder, config, **settings)


def reference_loss(model, dropout):
    """`loss(params, batch, rng)` of the model's task on batches of sources."""
    return jax.jit(
        lambda params, batch, rng: model.task.loss(
            params, batch, model.task.memory, rng if dropout else None
        )
    )


def start(model):
    variables = model.get_initial_variables(jax.random.key(0), {})
    return variables['params']


def by_hops(model):
    """A batch of each number of hops."""
    batches = [model.task.source[step] for step in range(STEPS)]
    return {getattr(batch, 'hops', 1): batch for batch in batches}


def stacked(*batches):
    """The elements of a task as t5x batches them."""
    elements = list(map(named_leaves, batches))
    stack = lambda name: np.stack([np.atleast_1d(element[name]) for element in elements])
    return {name: stack(name) for name in elements[0]}


def plain(tree):
    return traverse_util.flatten_dict(tree, sep='/')


@pytest.mark.parametrize(['method', 'parameters'], t5x_interface.methods_of_models().items())
def test_methods_are_those_of_t5xs_models(method, parameters):
    assert ' '.join(inspect.signature(getattr(t5x_model.T5xModel, method)).parameters) == parameters


def check_metrics(metrics, loss, scalars):
    """The metrics that are not empty are the loss and those of the objective."""
    values = {key: float(metric.compute()) for key, metric in metrics.items() if metric.count}
    expected = {'loss': float(loss)} | {key: float(value) for key, value in scalars.items()}
    assert values == pytest.approx(expected, rel=1e-5, abs=1e-6)


def check_gradient(model, batches):
    """Loss, metrics and gradient are those of the stage; what is frozen has no gradient."""
    params, rng, reference = start(model), jax.random.key(3), reference_loss(model, True)
    of_t5x = jax.jit(jax.value_and_grad(model.loss_fn, has_aux=True))
    trained, frozen = state.split_params(params, model.task.trainable)
    for batch in batches:
        (loss, metrics), grads = of_t5x(params, stacked(batch), rng)
        compute = lambda trained: reference(state.merge_params(trained, frozen), batch, rng)
        with_gradient = jax.jit(jax.value_and_grad(compute, has_aux=True))
        (expected, scalars), expected_grads = with_gradient(trained)
        assert float(loss) == pytest.approx(float(expected), rel=1e-5)
        check_metrics(metrics, expected, scalars)
        grads = plain(grads)
        for key, value in expected_grads.items():
            np.testing.assert_allclose(grads[key], value, rtol=1e-4, atol=1e-6, err_msg=key)
        assert set(grads) == {*expected_grads, *frozen}
        assert not any(np.any(grads[key]) for key in frozen)
        assert any(np.any(value) for value in expected_grads.values())


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in STAGES[1:]]


@pytest.mark.parametrize('name', [STAGES[0], *SLOW])
def test_loss_and_gradient_are_those_of_the_objective(name, world):
    model = make_model(name, world)
    check_gradient(model, by_hops(model).values())


@pytest.mark.slow
def test_gradients_of_microbatches_add_up_to_their_mean(world):
    """t5x's trainer adds them up."""
    relations = make_objective('relations', world)
    one, two = (open_model(relations, world, num_microbatches=number) for number in (None, 2))
    params, batch = start(one), stacked(one.task.source[0])
    loss_of = lambda model: lambda params: model.loss_fn(params, batch, None)
    gradient = lambda model: jax.jit(jax.grad(loss_of(model), has_aux=True))(params)
    (whole, metrics), (half, others) = gradient(one), gradient(two)
    for name, value in plain(whole).items():
        np.testing.assert_allclose(2 * plain(half)[name], value, rtol=1e-5, atol=1e-8, err_msg=name)
    assert float(others['loss'].compute()) == float(metrics['loss'].compute())


@pytest.mark.slow
def test_answers_are_written_as_predictions_that_are_scored_as_t5x_scores_them(world, tmp_path):
    asked = str(world / 'asked.jsonl')
    model = open_model(make_objective('follow', world), world, questions=(asked,), rows=6)
    task = seqio.TaskRegistry.get('opql')
    params, predict = start(model), jax.jit(model.predict_batch_with_aux)
    elements = task.get_dataset(split='validation', shuffle=False)
    batches = model.FEATURE_CONVERTER_CLS(pack=False)(elements, None).batch(1).as_numpy_iterator()
    found = [predict(params, batch) for batch in batches]
    weights = {'weights': [aux['weights'][0] for _, aux in found]}
    inferences = [entities[0] for entities, _ in found], weights
    vocabulary = task.output_features['targets'].vocabulary
    write = lambda name, inferences, mode: t5x_model.write_answers(
        str(tmp_path / name), inferences, elements, mode, vocabulary
    )
    write('out', inferences, 'predict_with_aux')
    vocab = Prepared(world / 'text').vocab
    questions = read_questions(asked, vocab)
    assert [q.hops for q in questions] == [2] * 8 + [1] * 8  # the elements have few hops first
    records = predictions.in_order(predictions.read_predictions(tmp_path / 'out'), questions)
    predictions.check_same_questions(records, questions, 'out')
    scored = evaluate_predictions(questions, records, vocab)
    targets = [element['targets'] for element in elements.as_numpy_iterator()]
    in_t5x = ranked_entities(targets, inferences[0])
    assert in_t5x == {name: scored[name] for name in in_t5x} and in_t5x['hits@10'] > 0
    write('scores', ([-1.5, -2.0, -3.0, -4.0], {}), 'score')
    assert (tmp_path / 'scores').read_text().startswith('{"score": -1.5}\n{"score": -2.0}\n')
