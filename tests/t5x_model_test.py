"""OPQL's training objectives behind t5x's model interface: same losses, same gradients, and, where t5x is installed, its own trainer."""

import functools
import importlib.util
import inspect
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import traverse_util
from flax.core import freeze
from flax.linen import partitioning

import tiny_training

seqio = pytest.importorskip('seqio', reason='SeqIO is not installed: pip install -e .[data]')
if importlib.util.find_spec('opql_jax_tasks') is None:
    pytest.skip('opql_jax_tasks is not installed: pip install -e .', allow_module_level=True)

from opql_jax import t5x_model
from opql_jax.core.errors import InputError
from opql_jax.corpus.questions import write_questions
from opql_jax.data import pipeline
from opql_jax.data.prepared import Prepared
from opql_jax.data.sources.base import named_leaves
from opql_jax.models.follower import follow_loss
from opql_jax.parallel.mesh import make_mesh
from opql_jax.training import objectives, state, trainer
from opql_jax.training.checkpoints import CheckpointError
from opql_jax_tasks import opql, question_sets
from opql_jax_tasks.vocabulary import WordPieceVocabulary

ROOT = pathlib.Path(__file__).resolve().parent.parent
STEPS = 4
# What t5x's train, eval and infer call, with the arguments they give.
INTERFACE = {
    'get_initial_variables': {'rng': 0, 'input_shapes': {}, 'input_types': {}},
    'loss_fn': {'params': 0, 'batch': {}, 'dropout_rng': None},
    'eval_fn': {'params': 0, 'batch': {}},
    'predict_batch': {'params': 0, 'batch': {}, 'rng': None},
    'predict_batch_with_aux': {'params': 0, 'batch': {}, 'rng': None},
    'score_batch': {'params': 0, 'batch': {}, 'return_intermediates': False},
}


@pytest.fixture(scope='module')
def world(tmp_path_factory):
    """(prepared folder, a model, its memory, a file of open questions)."""
    root = tmp_path_factory.mktemp('world')
    prepared = tiny_training.write_prepared(root / 'prepared')
    tiny_training.write_untrained(prepared, root / 'model', spread=8.0)
    memory = tiny_training.write_memory(prepared, root / 'model', root / 'memory')
    opened = Prepared(prepared)
    records = [
        {
            'id': q.id,
            'question': q.text,
            'topics': [q.topic],
            'answers': [opened.vocab.keys[a] for a in q.answers] or ['nobody'],
            'hops': hops,
        }
        for hops in (1, 2)
        for q in opened.questions(f'{hops}-hop/train')[:8]
    ]
    write_questions(root / 'asked.jsonl', records)
    return prepared, root / 'model', memory, root / 'asked.jsonl'


def make_objective(name, world, **options):
    memory = str(world[2])
    splits = tuple(f'{hops}-hop/train' for hops in (1, 2))
    return {
        'relations': lambda: objectives.Relations(rows=16, **options),
        'align': lambda: objectives.Align(rows=16, topics=4, rows_per_topic=4),
        'follow': lambda: objectives.Follow(**{'splits': splits, 'max_hops': 2} | options, memory_dir=memory, questions=8, k=8),
        'cloze': lambda: objectives.Cloze(memory_dir=memory, rows=8, k=4),
        'questions': lambda: objectives.AnswerQuestions(
            memory_dir=memory, rows=8, k=4, text_rows=8, max_hops=2, questions=str(world[3])
        ),
    }[name]()


@functools.cache
def make_model(name, world):
    return t5x_model.T5xModel(
        make_objective(name, world), tiny_training.encoder, world[0], init_from=str(world[1]), mesh=make_mesh(1)
    )


def reference_loss(model, dropout):
    """`loss(params, batch, rng)` of the model's task on batches of sources."""
    return jax.jit(lambda params, batch, rng: model.task.loss(params, batch, model.task.memory, rng if dropout else None))


def start(model):
    variables = model.get_initial_variables(jax.random.key(0), {})
    return variables['params']


def by_hops(model):
    """A batch of each number of hops."""
    batches = [model.task.source[step] for step in range(STEPS)]
    return {getattr(batch, 'hops', 1): batch for batch in batches}


def stacked(*batches):
    """The elements of a task as t5x batches them."""
    batches = [batch if isinstance(batch, dict) else named_leaves(batch) for batch in batches]
    return {name: np.stack([batch[name] for batch in batches]) for name in batches[0]}


def plain(tree):
    return traverse_util.flatten_dict(tree, sep='/')


@pytest.mark.parametrize('method', INTERFACE)
def test_methods_take_what_t5x_gives(method):
    bound = inspect.signature(getattr(t5x_model.T5xModel, method)).bind(None, **INTERFACE[method])
    assert bound.arguments.keys() - {'self'} == INTERFACE[method].keys()


def test_the_vocabulary_is_that_of_the_tasks(world):
    assert make_model('relations', world).input_vocabulary == WordPieceVocabulary(world[0])


def test_the_converter_takes_what_t5x_gives():
    for arguments in ({'pack': False}, {'pack': False, 'use_custom_packing_ops': False}):
        assert isinstance(t5x_model.T5xModel.FEATURE_CONVERTER_CLS(**arguments), seqio.FeatureConverter)


def check_gradient(model, batches):
    """The loss, metrics and gradient of t5x's interface are those of the stage, and what is frozen has none."""
    params, rng, reference = start(model), jax.random.key(3), reference_loss(model, True)
    of_t5x = jax.jit(jax.value_and_grad(model.loss_fn, has_aux=True))
    trained, frozen = state.split_params(params, model.task.trainable)
    for batch in batches:
        (loss, metrics), grads = of_t5x(params, stacked(batch), rng)
        compute = lambda trained: reference(state.merge_params(trained, frozen), batch, rng)
        (expected, scalars), expected_grads = jax.jit(jax.value_and_grad(compute, has_aux=True))(trained)
        assert float(loss) == pytest.approx(float(expected), rel=1e-5)
        values = {key: float(metric.compute()) for key, metric in metrics.items() if metric.count}
        assert values == pytest.approx(
            {'loss': float(expected)} | {k: float(v) for k, v in scalars.items()}, rel=1e-5, abs=1e-6
        )
        grads = plain(grads)
        for key, value in expected_grads.items():
            np.testing.assert_allclose(grads[key], value, rtol=1e-4, atol=1e-6, err_msg=key)
        assert set(grads) == {*expected_grads, *frozen} and not any(np.any(grads[key]) for key in frozen)
        assert any(np.any(value) for value in expected_grads.values())


def test_loss_and_gradient_of_pretraining_are_the_objectives(world):
    model = make_model('relations', world)
    check_gradient(model, [model.task.source[0]])


@pytest.mark.slow
@pytest.mark.parametrize('name', ['follow', 'align', 'cloze', 'questions'])
def test_loss_and_gradient_of_other_stages_are_the_objectives(name, world):
    model = make_model(name, world)
    check_gradient(model, by_hops(model).values())


def test_elements_are_trained_on_as_one_batch(world):
    """As the shards of several processes are: negatives of a mention come from all of them. Without a key nothing drops out."""
    model = make_model('relations', world)
    params, shards = start(model), [model.task.source.shard(index, 2) for index in range(2)]
    batch = stacked(*(shard[0] for shard in shards))
    (together,) = pipeline.batches(shards, 0, 1)
    reference = reference_loss(model, False)
    expected, _ = reference(params, together, jax.random.key(9))
    loss, _ = jax.jit(model.eval_fn)(params, batch)
    assert float(loss) == pytest.approx(float(expected), rel=1e-5)
    scores = jax.jit(model.score_batch)(params, batch)
    each = [-float(reference(params, shard[0], jax.random.key(0))[0]) for shard in shards]
    np.testing.assert_allclose(scores, each, rtol=1e-5)
    assert abs(np.mean(each) + float(expected)) > 1e-3
    relations, pairs = jax.jit(model.predict_batch_with_aux)(params, batch)
    for at, shard in enumerate(shards):
        topics = np.concatenate([bucket.topic for bucket in shard[0].pairs])
        assert relations[at].shape == (len(topics), 8) and sorted(topics) == sorted(pairs['topic'][at].tolist())
    used = pairs['topic'] >= 0
    assert used.any() and np.abs(relations[used]).max() > 0.01


def test_the_hops_of_a_batch_are_found_out_and_a_batch_without_one_number_is_not_trained_on(world):
    model = make_model('follow', world)
    params, batches = start(model), by_hops(model)
    evaluate, reference = jax.jit(model.eval_fn), reference_loss(model, False)

    def at(*hops):
        first, second = (batches.get(number, batches[2]) for number in hops)
        return evaluate(params, stacked(first, second) | {'hops': np.array(hops, np.int32)})

    for hops, batch in batches.items():
        expected, scalars = reference(params, batch, jax.random.key(1))
        loss, metrics = at(hops, hops)
        assert float(loss) == pytest.approx(float(expected), rel=1e-5)
        values = {name: float(metric.compute()) for name, metric in metrics.items() if metric.count}
        assert values == pytest.approx(
            {'loss': float(loss)} | {name: float(value) for name, value in scalars.items()}, rel=1e-5
        )
    assert all(np.isnan(at(*hops)[0]) for hops in ((1, 2), (3, 3), (0, 0)))


def test_followed_entities_are_ranked_for_each_element(world):
    model = make_model('follow', world)
    params, batches = start(model), list(by_hops(model).values())
    predict = jax.jit(model.predict_batch_with_aux)
    entities, aux = predict(params, stacked(*batches), jax.random.key(0))
    assert entities.shape == aux['weights'].shape == (2, 8, 8)
    assert (np.diff(aux['weights'], axis=-1) <= 0).all() and np.isfinite(aux['weights']).all()
    expected, _ = reference_loss(model, False)(params, batches[0], jax.random.key(0))
    loss, found = follow_loss(entities[0], aux['weights'][0], batches[0].questions.answers)
    assert float(loss) == pytest.approx(float(expected), rel=1e-4) and found['reachable'] > 0
    strange = stacked(*batches) | {'hops': np.array((1, 3), np.int32)}  # 3 is not compiled
    again, aux_again = predict(params, strange, jax.random.key(0))
    np.testing.assert_array_equal(again[0], entities[0])
    np.testing.assert_array_equal(aux_again['weights'][0], aux['weights'][0])
    assert (again[1] == -1).all() and np.isnan(aux_again['weights'][1]).all()


def test_what_has_no_prediction_says_so(world):
    model = make_model('align', world)
    with pytest.raises(InputError, match='this objective predicts nothing'):
        model.predict_batch(start(model), stacked(model.task.source[0]))


@pytest.mark.slow
def test_an_evaluator_asks_a_language_model(world):
    """A SeqIO evaluator over a task of `question_sets`, with the model's own predictions, as t5x's evaluator takes them."""
    prepared, _, _, asked = world
    try:
        question_sets.register('opql_webqsp', prepared, {'test': asked}, num_steps=1, rows=4)
        model = make_model('questions', world)
        params, predict = start(model), jax.jit(model.predict_batch)

        def predict_fn(batches):
            return [(i, np.asarray(predict(params, stacked(batch))[0]).tolist()) for i, batch in batches.as_numpy_iterator()]

        evaluator = seqio.Evaluator(
            'opql_webqsp', model.FEATURE_CONVERTER_CLS(pack=False), 'test', target_field_name='questions/0/answers'
        )
        found, _ = evaluator.evaluate(compute_metrics=True, predict_fn=predict_fn)
        scores = found.result()['opql_webqsp']
        assert 0 <= scores['hits@1'] <= scores['hits@10'] <= scores['answer_coverage'] < 1 and scores['hits@10'] > 0
    finally:
        for name in [name for name in seqio.TaskRegistry.names() if name.startswith('opql_')]:
            seqio.TaskRegistry.remove(name)


@pytest.mark.parametrize('name', ['relations', 'follow'])
def test_every_parameter_has_named_axes(name, world):
    model = make_model(name, world)
    variables = jax.eval_shape(lambda rng: model.get_initial_variables(rng, {}), jax.random.key(0))
    names = plain(partitioning.get_axis_names(variables['params_axes']))
    params = plain(variables['params'])
    assert {key: len(axes) for key, axes in names.items()} == {key: value.ndim for key, value in params.items()}
    assert tuple(names['entity_table']) == ('entities', 'embed')
    assert tuple(names['encoder/layers_0/qkv/kernel']) == ('embed', None, 'heads', 'kv')
    assert tuple(names['encoder/layers_0/mlp_out/kernel']) == ('mlp', 'embed')


def test_parameters_start_where_the_run_ended(world):
    params = plain(start(make_model('follow', world)))
    for name, value in tiny_training.params_of(world[1]).items():
        np.testing.assert_array_equal(params[name], value)
    fresh = t5x_model.T5xModel(make_objective('relations', world), tiny_training.encoder, world[0], mesh=make_mesh(1))
    first, second = (fresh.get_initial_variables(jax.random.key(key), {})['params'] for key in (0, 1))
    assert np.abs(first['entity_table'] - second['entity_table']).max() > 0.1


def test_a_memory_of_another_encoder_is_refused(world, tmp_path):
    other = tiny_training.write_untrained(world[0], tmp_path / 'other', seed=5)
    with pytest.raises((CheckpointError, InputError), match='built'):
        t5x_model.T5xModel(make_objective('follow', world), tiny_training.encoder, world[0], init_from=str(other))


def test_only_what_is_trained_changes():
    """And as the train step changes it, whose optimizer sees a flat dictionary of nothing else."""
    names = ('encoder/w_r/kernel', 'encoder/norm/bias', 'follower/w_q', 'follower/w_k', 'entity_table')
    params = traverse_util.unflatten_dict({name: jnp.ones(2) for name in names}, sep='/')
    objective, ours = objectives.Follow(), trainer.make_optimizer(STEPS, 0.1, warmup_steps=1, weight_decay=0.5)
    trained, _ = state.split_params(params, objective.trainable)
    theirs = t5x_model.trained_only(objective, ours)
    moments, expected = theirs.init(freeze(params)), ours.init(trained)
    for _ in range(2):  # the first has a learning rate of 0
        updates, moments = theirs.update(freeze(params), moments, freeze(params))
        wanted, expected = ours.update(trained, expected, trained)
    updates = plain(updates)
    assert {name for name in names if np.any(updates[name])} == set(trained) == {*names[:3]}
    for name, value in wanted.items():
        np.testing.assert_allclose(updates[name], value, rtol=1e-6)
    assert isinstance(moments, optax.MultiTransformState)  # t5x partitions the states that it knows by their types


@pytest.mark.parametrize('name', ['relations', 'follow'])
def test_t5x_trains_as_the_train_step_does(name, world, tmp_path):
    """t5x's data set, partitioner, state, trainer and inference around a model; its parameters become those of our own step."""
    pytest.importorskip('t5x', reason='t5x is not installed; it is not on PyPI')
    from t5x import optimizers, utils
    from t5x import partitioning as t5x_partitioning
    from t5x import trainer as t5x_trainer

    objective = make_objective(name, world)
    seed, transformation = 7, trainer.make_optimizer(STEPS, 0.01, warmup_steps=1)
    definition = optimizers.OptaxWrapper(t5x_model.trained_only(objective, transformation))
    model = t5x_model.T5xModel(objective, tiny_training.encoder, world[0], definition, init_from=str(world[1]))
    fields = {'relations': dict(rows=16), 'follow': dict(splits=['1-hop/train', '2-hop/train'], questions=8)}[name]
    task = opql.register(name, world[0], num_steps=STEPS, name=f'opql_t5x_{name}', **fields)
    try:
        rules = t5x_partitioning.standard_logical_axis_rules(additional_rules=[('entities', ('data', 'model'))])
        partitioner = t5x_partitioning.PjitPartitioner(num_partitions=1, logical_axis_rules=rules)
        config = utils.DatasetConfig(task.name, None, 'train', batch_size=jax.device_count(), shuffle=False, seed=0, pack=False)
        data = utils.get_dataset(config, 0, 1, model.FEATURE_CONVERTER_CLS)
        shapes = {key: spec.shape for key, spec in data.element_spec.items()}
        init = utils.TrainStateInitializer(definition, model.get_initial_variables, shapes, partitioner)
        t5x_state = init.from_scratch(jax.random.PRNGKey(0))
        before = jax.device_get(plain(t5x_state.params))
        rng = jax.random.key(seed)
        options = dict(learning_rate_fn=lambda step: 0.0, num_microbatches=None, summary_dir=str(tmp_path), eval_names=['dev'])
        with t5x_trainer.Trainer(
            model, t5x_state, partitioner, train_state_axes=init.train_state_axes, rng=rng, **options
        ) as driver:
            batches = list(data.take(2).as_numpy_iterator())
            summary = driver.train(iter(batches), 2).result()
            driver.eval({'dev': iter(batches[:1])})
            after = jax.device_get(plain(driver.train_state.params))
        ours = state.init_state(state.merge_params(before, {}), objective.trainable, transformation)
        run = trainer.make_train_step(model.task, transformation, seed)
        losses = []
        for step in range(2):
            (batch,) = pipeline.batches(
                [model.task.source.shard(i, jax.device_count()) for i in range(jax.device_count())], step, step + 1
            )
            ours, metrics = run(ours, batch, model.task.memory)
            losses.append(float(metrics['loss']))
        for key, value in plain(ours.params).items():
            np.testing.assert_allclose(after[key], value, atol=2e-5, rtol=1e-4, err_msg=key)
        changed = {key for key in before if not np.array_equal(before[key], after[key])}
        assert changed and all(objective.trainable(key) for key in changed)
        assert float(summary['loss'].value) == pytest.approx(np.mean(losses), rel=1e-4)
        infer = utils.get_infer_fn(model.score_batch, jax.device_count(), init.train_state_axes, partitioner)
        scores = infer(data.unbatch().take(3).enumerate(), driver.train_state)
        assert [index for index, _ in scores] == [0, 1, 2] and np.isfinite([score for _, score in scores]).all()
    finally:
        seqio.TaskRegistry.remove(task.name)


@pytest.mark.parametrize('file', sorted(path.name for path in (ROOT / 'gin/t5x').glob('*.gin')))
def test_gin_files_name_what_there_is(file):
    """Modules and settings of this project in them; t5x's own are read only where t5x is."""
    settings = re.findall(
        r'^(t5x_model|objectives|trainer)\.([\w.]+?)(?::\n((?:  .*\n)+)|\.(\w+) =)', (ROOT / 'gin/t5x' / file).read_text(), re.M
    )
    assert bool(settings) == (file == 'relations.gin')
    modules = {'t5x_model': t5x_model, 'objectives': objectives, 'trainer': trainer}
    for module, name, block, field in settings:
        parameters = inspect.signature(getattr(modules[module], name)).parameters
        assert {field} - {''} | set(re.findall(r'^  (\w+) =', block, re.M)) <= set(parameters), name
