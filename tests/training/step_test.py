"""The train step: the same on any number of devices, and changes what it may."""

import contextlib
import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import AbstractMesh

from opql_jax.core.hashing import leaf_name
from opql_jax.data.prepared import Prepared
from opql_jax.parallel import mesh as mesh_lib
from opql_jax.training import objectives, state, trainer
from opql_jax.training.optimizer import make_optimizer
from opql_jax.training.state import init_params

import eight_devices
import tiny_training


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    """(prepared folder, a model trained a little on it, the memory it built)."""
    root = tmp_path_factory.mktemp('trained')
    prepared = tiny_training.write_prepared(root / 'prepared')
    tiny_training.run(prepared, root / 'model', objectives.Relations(rows=16), num_steps=2)
    memory = tiny_training.write_memory(prepared, root / 'model', root / 'memory')
    return prepared, root / 'model', memory


def make_objective(name, memory, **options):
    return {
        'entities': lambda: objectives.Entities(rows=16),
        'relations': lambda: objectives.Relations(rows=16),
        'relations without L_el': lambda: objectives.Relations(rows=16, entity_weight=0.0),
        'eae': lambda: objectives.Cloze(rows=8, entity_layer=0),
        'align': lambda: objectives.Align(rows=16, topics=4, rows_per_topic=4),
        'align passages': lambda: objectives.AlignPassages(passages=8, topics=4, questions=16),
        'follow': lambda: objectives.Follow(
            memory_dir=str(memory), splits=('2-hop/train',), questions=16, k=8, **options
        ),
    }[name]()


class Run:
    """An objective at step 0, stepped by hand."""

    def __init__(self, trained, objective, optimizer=None, dropout=0.1, **fields):
        prepared = Prepared(trained[0])
        fields |= dict(vocab_size=prepared.tokenizer.get_vocab_size(), dropout_rate=dropout)
        encoder = tiny_training.encoder(**fields)
        self.task = objective.build(prepared, encoder, mesh_lib.make_mesh(1))
        self.params = self.task.init(init_params(encoder, len(prepared.vocab), seed=1))
        optimizer = optimizer or make_optimizer(4, warmup_steps=1)
        params = jax.tree.map(jnp.copy, self.params)
        self.state = state.init_state(params, self.task.trainable, optimizer)
        self.train_step = trainer.make_train_step(self.task, optimizer, seed=0)

    def step(self, batch):
        self.state, metrics = self.train_step(self.state, batch, self.task.memory)
        return metrics


def named(params):
    return {leaf_name(path): np.asarray(leaf) for path, leaf in jax.tree.leaves_with_path(params)}


# What CI tries on up to 8 virtual devices, and what `-m slow` tries besides.
STAGES, SLOW_STAGES = ('relations', 'whole memory', 'parts'), ('sampled', 'passages', 'follow')


@pytest.fixture(scope='module')
def on_devices(binaries, trained, tmp_path_factory):
    """Trains stages once; returns where their runs lie."""

    @functools.cache
    def run(stages):
        output = tmp_path_factory.mktemp('devices')
        eight_devices.run(binaries, 'train_on_devices.py', *trained, output, *stages)
        return output

    return run


@pytest.mark.parametrize(
    ('stages', 'stage'),
    [(STAGES, stage) for stage in STAGES]
    + [pytest.param(SLOW_STAGES, stage, marks=pytest.mark.slow) for stage in SLOW_STAGES],
)
def test_devices_change_neither_loss_nor_parameters(on_devices, trained, stages, stage):
    output = on_devices(stages)
    metrics = json.loads((output / 'metrics.json').read_text())
    one = tiny_training.params_of(output / f'{stage}-1')
    before = tiny_training.params_of(trained[1])
    # It was trained at all.
    assert max(np.abs(one[name] - before[name]).max() for name in before) > 1e-3
    others = [run for run in metrics if run.startswith(f'{stage}-') and run != f'{stage}-1']
    assert others
    for run in others:
        assert metrics[run] == pytest.approx(metrics[f'{stage}-1'], abs=1e-5)
        many = tiny_training.params_of(output / run)
        assert many.keys() == one.keys()
        for name in one:
            said = f'{name} of {run}'
            np.testing.assert_allclose(many[name], one[name], atol=1e-5, rtol=0, err_msg=said)


@pytest.mark.parametrize('name', ['align passages', pytest.param('follow', marks=pytest.mark.slow)])
def test_a_batch_that_the_encoder_takes_in_parts_gives_the_step_of_the_whole_one(trained, name):
    """That of `relations`, whose negatives are the whole batch, is compared on devices above."""
    objective, optimizer = make_objective(name, trained[2]), optax.sgd(0.1)
    of = lambda **fields: Run(trained, objective, optimizer, dropout=0.0, **fields)
    whole, parts = of(), of(accumulate_steps=4, remat='dots')
    batch = whole.task.source[0]
    metrics = [jax.tree.map(float, run.step(batch)) for run in (whole, parts)]
    assert metrics[0] == pytest.approx(metrics[1], abs=1e-5)
    states = parts.state.params, whole.state.params, whole.params
    found, expected, before = map(named, states)
    assert max(np.abs(expected[leaf] - before[leaf]).max() for leaf in before) > 1e-4
    for leaf in expected:
        np.testing.assert_allclose(found[leaf], expected[leaf], atol=1e-5, rtol=0, err_msg=leaf)


FEW = r'pairs/0 has 8 .*, pairs/1 has 24 \(16 or 32 can be\).* multiples of 16; or take 1, 2, 4, 8'
PARTS = r'accumulate_steps=4 .* pairs/0 has 32 \(64 can be\).* multiples of 64; or take 1, 2, 4, 8'


@pytest.mark.parametrize(
    ('buckets', 'parts', 'shape', 'message'),
    [((), 1, (2, 16), None), (((32, 8), (48, 24)), 1, (16,), FEW), ((), 4, (16,), PARTS)],
)
def test_a_batch_that_devices_cannot_share_is_refused_with_the_sizes_that_can_be(
    trained, buckets, parts, shape, message
):
    settings = {'buckets': buckets} if buckets else {}
    source = objectives.Relations(rows=32, **settings).source(Prepared(trained[0]))
    mesh = AbstractMesh((*shape, 1), (mesh_lib.SLICE, *mesh_lib.ROW_AXES)[2 - len(shape) :])
    refused = pytest.raises(trainer.TrainingError, match=message)
    with refused if message else contextlib.nullcontext():
        trainer.check_batch(source[0], mesh, parts)


TRAINED = {
    'entities': ('encoder/', 'entity_table'),
    'relations': ('encoder/', 'entity_table'),
    'align': ('encoder/',),
    'follow': ('encoder/', 'follower/w_q', 'follower/w_t'),
    'follow with a frozen encoder': ('follower/w_q', 'follower/w_t'),
    'relations without L_el': ('encoder/',),
    'eae': ('encoder/', 'entity_table'),
}
# What no loss reaches, and weight decay alone would shrink: W_e, by which a language model begins
# to link, or a pretrained W_r.
UNREACHED = dict.fromkeys(('align', 'follow', 'relations without L_el'), 'encoder/w_e/')
UNREACHED |= dict.fromkeys(('entities', 'eae'), 'encoder/w_r/')


# Of these `-m slow` alone: each other way to train has one that CI tries.
SLOW = ('relations', 'follow', 'eae')


@pytest.mark.parametrize(
    'name', [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in TRAINED]
)
def test_a_stage_changes_exactly_the_parameters_it_trains(trained, name):
    options = {'frozen_encoder': True} if name == 'follow with a frozen encoder' else {}
    objective = make_objective(name.partition(' with a')[0], trained[2], **options)
    run = Run(trained, objective)
    # The warm-up starts at a learning rate of 0.
    for batch in (run.task.source[0], run.task.source[1]):
        run.step(batch)
    before, after = named(run.params), named(run.state.params)
    changed = {key for key in before if not np.array_equal(before[key], after[key])}
    is_trained = lambda key: key.startswith(TRAINED[name])
    reached = lambda key: not key.startswith(UNREACHED.get(name, ()))
    assert changed == {key for key in before if is_trained(key) and reached(key)}
    moments = named(run.state.opt_state)
    frozen = before.keys() - changed
    assert not any(moment.endswith(key) for moment in moments for key in frozen)


def test_only_a_follower_whose_encoder_is_trained_reads_questions_with_dropout(trained):
    for frozen in (False, True):
        run = Run(trained, make_objective('follow', trained[2], frozen_encoder=frozen), dropout=0.5)
        loss = lambda key: run.task.loss(run.params, run.task.source[0], run.task.memory, key)[0]
        assert (float(loss(None)) == float(loss(jax.random.key(0)))) == frozen
