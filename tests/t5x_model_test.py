"""Objectives behind t5x's model interface: same losses and gradients; CI tries one of them."""

import inspect

import jax
import numpy as np
import pytest
import seqio
import t5x_interface
from flax import traverse_util
from flax.linen import partitioning

from opql_jax import t5x_model
from opql_jax.corpus.questions import read_questions
from opql_jax.data.prepared import Prepared
from opql_jax.data.sources.base import named_leaves
from opql_jax.evaluation import predictions
from opql_jax.evaluation.evaluate import evaluate_predictions
from opql_jax.parallel.mesh import make_mesh
from opql_jax.training import objectives, state, trainer
from opql_jax_tasks.metrics import ranked_entities

import records
import tiny_training

STEPS, STAGES = 4, ('relations', 'follow', 'align', 'cloze', 'questions')


@pytest.fixture(scope='module')
def world(tmp_path_factory):
    root = tmp_path_factory.mktemp('world')
    prepared = tiny_training.write_prepared(root / 'text')
    tiny_training.write_untrained(prepared, root / 'model', spread=8.0)
    tiny_training.write_memory(prepared, root / 'model', root / 'memory')
    records.write_from_splits(Prepared(prepared), root / 'asked.jsonl', hops=(2, 1))
    return root


@pytest.fixture(autouse=True)
def clean_registry():
    yield
    for name in list(seqio.TaskRegistry.names()):
        seqio.TaskRegistry.remove(name)


def open_model(name, world, **settings):
    asked, some = str(world / 'asked.jsonl'), dict(memory_dir='memory', k=4, rows=8)
    followed = dict(splits=('1-hop/train', '2-hop/train'), max_hops=2, questions=8)
    objective = {
        'relations': lambda: objectives.Relations(rows=16),
        'align': lambda: objectives.Align(rows=16, topics=4, rows_per_topic=4),
        'follow': lambda: objectives.Follow(memory_dir='memory', k=8, **followed),
        'cloze': lambda: objectives.Cloze(**some),
        'questions': lambda: objectives.AnswerQuestions(
            **some, text_rows=8, max_hops=2, questions=asked
        ),
    }[name]()
    config = trainer.TrainConfig(kb=str(world), model='', num_steps=STEPS, init_from='model')
    settings |= {'mesh': make_mesh(1)}
    return t5x_model.T5xModel(objective, tiny_training.encoder, config, **settings)


def start(model):
    return model.get_initial_variables(jax.random.key(0), {})['params']


def stacked(*batches):
    """Batches of a source as t5x batches the elements of a task."""
    elements = list(map(named_leaves, batches))
    stack = lambda name: np.stack([np.atleast_1d(element[name]) for element in elements])
    return {name: stack(name) for name in elements[0]}


def plain(tree):
    return traverse_util.flatten_dict(tree, sep='/')


@pytest.mark.parametrize(['method', 'parameters'], t5x_interface.methods_of_models().items())
def test_methods_are_those_of_t5xs_models(method, parameters):
    assert ' '.join(inspect.signature(getattr(t5x_model.T5xModel, method)).parameters) == parameters


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in STAGES[1:]]


@pytest.mark.parametrize('name', [STAGES[0], *SLOW])
def test_loss_metrics_and_gradient_are_those_of_the_objective(name, world):
    """What is frozen has no gradient."""
    model, rng = open_model(name, world), jax.random.key(3)
    params, task = start(model), model.task
    trained, frozen = state.split_params(params, task.trainable)
    merged = lambda trained: state.merge_params(trained, frozen)
    compute = lambda trained, batch: task.loss(merged(trained), batch, task.memory, rng)
    graded = lambda loss: jax.jit(jax.value_and_grad(loss, has_aux=True))
    reference, of_t5x = graded(compute), graded(model.loss_fn)
    batches = (task.source[step] for step in range(STEPS))
    for batch in {getattr(batch, 'hops', 1): batch for batch in batches}.values():
        (loss, metrics), grads = of_t5x(params, stacked(batch), rng)
        (expected, scalars), expected_grads = reference(trained, batch)
        assert float(loss) == pytest.approx(float(expected), rel=1e-5)
        values = {key: float(metric.compute()) for key, metric in metrics.items() if metric.count}
        scalars = {key: float(value) for key, value in ({'loss': expected} | scalars).items()}
        assert values == pytest.approx(scalars, rel=1e-5, abs=1e-6)
        grads = plain(grads)
        for key, value in expected_grads.items():
            np.testing.assert_allclose(grads[key], value, rtol=1e-4, atol=1e-6, err_msg=key)
        assert set(grads) == {*expected_grads, *frozen}
        assert not any(np.any(grads[key]) for key in frozen)
        assert any(np.any(value) for value in expected_grads.values())


@pytest.mark.slow
def test_elements_are_trained_on_as_one_batch(world):
    """As the shards of several processes are; without a key nothing drops out."""
    model = open_model('relations', world)
    params, task = start(model), model.task
    shards = [task.source.shard(index, 2)[0] for index in range(2)]
    loss_of = jax.jit(lambda batch: task.loss(params, batch, task.memory, None)[0])
    together = jax.tree.map(lambda *arrays: np.concatenate(arrays), *shards)
    loss, _ = jax.jit(model.eval_fn)(params, stacked(*shards))
    assert float(loss) == pytest.approx(float(loss_of(together)), rel=1e-5)
    scores = jax.jit(model.score_batch)(params, stacked(*shards))
    np.testing.assert_allclose(scores, [-float(loss_of(shard)) for shard in shards], rtol=1e-5)
    assert abs(np.mean(scores) + float(loss)) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize('name', ['relations', 'follow'])
def test_every_parameter_has_named_axes(name, world):
    model = open_model(name, world)
    variables = jax.eval_shape(lambda rng: model.get_initial_variables(rng, {}), jax.random.key(0))
    names = plain(partitioning.get_axis_names(variables['params_axes']))
    dimensions = {key: value.ndim for key, value in plain(variables['params']).items()}
    assert {key: len(axes) for key, axes in names.items()} == dimensions
    table = ('entities', 'embed') if name == 'relations' else (None, None)
    assert tuple(names['entity_table']) == table
    assert tuple(names['encoder/layers_0/qkv/kernel']) == ('embed', None, 'heads', 'kv')
    assert tuple(names['encoder/layers_0/mlp_out/kernel']) == ('mlp', 'embed')


@pytest.mark.slow
def test_gradients_of_microbatches_add_up_to_their_mean(world):
    """t5x's trainer adds them up."""
    one, two = (open_model('relations', world, num_microbatches=number) for number in (None, 2))
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
    model = open_model('follow', world, questions=(asked,), rows=6)
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
