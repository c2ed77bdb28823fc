"""What a run refuses to go on from or to start from, and how checkpoints are written."""

import functools
import shutil
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from damage import flip

from opql_jax.core.errors import InputError
from opql_jax.data.prepared import Prepared
from opql_jax.data.tokenizer import train_wordpiece
from opql_jax.training import array_digests, model_config, objectives, trainer
from opql_jax.training.checkpoints import CheckpointError, Checkpoints

import tiny_prepared
import tiny_training
from own_process import own_process
from tiny_memories import digest_of_tree

TYPES = ('P1 > P2', 'P2 > P1')
RELATIONS = objectives.Relations(rows=16)
ALIGN = objectives.Align(rows=16, topics=4, rows_per_topic=4)


@pytest.fixture(scope='module')
def world(tmp_path_factory):
    """A folder of `prepared`, `model` (random relations), its `memory`, and `follower`, a follow
    run over it at step 1.
    """
    root = tmp_path_factory.mktemp('world')
    prepared = tiny_training.write_prepared(root / 'prepared')
    tiny_prepared.set_types(prepared, '2-hop/train', TYPES)
    tiny_training.write_untrained(root / 'prepared', root / 'model')
    tiny_training.write_memory(root / 'prepared', root / 'model', root / 'memory')
    tiny_training.write_untrained(root / 'prepared', root / 'follower', follow(root / 'memory'))
    return root


def follow(memory, **options):
    options |= dict(memory_dir=str(memory), splits=('2-hop/train',))
    return objectives.Follow(questions=16, k=8, **options)


def copied(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / folder.name)


def wider(**options):
    return tiny_training.encoder(**options, hidden_size=32)


# Damage. That of a checkpoint that is opened is tried in tests/kb/forged_test.py.


@pytest.fixture(scope='module')
def elsewhere():
    """Calls in another process, as Orbax drops what it has under way when a file is damaged."""
    with own_process() as call:
        yield call


@pytest.mark.parametrize('item', ['opt_state', 'digests', 'digests by name'])
def test_flipped_bits_are_noticed_where_training_goes_on(world, tmp_path, elsewhere, item):
    workdir = copied(world / 'model', tmp_path)
    part = workdir / 'checkpoints' / '1' / item.split()[0]
    data = max(part.rglob('*'), key=lambda path: path.is_file() and path.stat().st_size)
    content = data.read_bytes()
    # Among the digests a digit of the last, which is of a moment, or the name of a moment, which
    # remains valid JSON.
    at = {'digests': content.rfind(b'"') - 9, 'digests by name': content.find(b'/mu/') + 1}
    flip(data, at.get(item, len(content) // 2))
    with pytest.raises(CheckpointError, match=f'{workdir}/checkpoints/1 cannot be read .*damaged'):
        elsewhere(tiny_training.run, world / 'prepared', workdir, RELATIONS)


@pytest.mark.parametrize('item', ['params', 'opt_state', 'meta', 'digests'])
def test_a_run_does_not_go_on_from_a_checkpoint_that_lacks_a_part(world, tmp_path, elsewhere, item):
    workdir = copied(world / 'model', tmp_path)
    shutil.rmtree(workdir / 'checkpoints' / '1' / item)
    said = rf'{workdir}/checkpoints/1 cannot be read \(.*delete that step'
    with pytest.raises(CheckpointError, match=said):
        elsewhere(tiny_training.run, world / 'prepared', workdir, RELATIONS)


def test_a_checkpoint_that_training_removes_while_it_is_read_is_not_called_damaged(world, tmp_path):
    workdir = copied(world / 'model', tmp_path)
    said = 'checkpoints/1 was removed while it was read.*larger keep_checkpoints'
    with Checkpoints(workdir, read_only=True) as store:
        shutil.rmtree(workdir / 'checkpoints' / '1')
        with pytest.raises(CheckpointError, match=said):
            store.load(1)


def test_missing_checkpoints_are_told_apart_from_damaged_ones(world, tmp_path):
    workdir = copied(world / 'model', tmp_path)
    folder = workdir / 'checkpoints'
    with pytest.raises(CheckpointError, match=f'{folder} has no step 7; it has 1'):
        model_config.load(workdir, step=7)
    shutil.rmtree(folder / '1')
    with pytest.raises(CheckpointError, match=f'no checkpoint in {folder}: train first'):
        model_config.load(workdir)
    folder.rmdir()
    said = f'{folder} does not exist: train into {workdir} first'
    with pytest.raises(CheckpointError, match=said):
        model_config.load(workdir)
    assert not folder.exists()


@pytest.mark.parametrize('number', [np.nan, np.inf])
def test_parameters_that_are_not_finite_are_refused_by_name(world, tmp_path, number):
    workdir = copied(world / 'model', tmp_path)
    with Checkpoints(workdir) as checkpoints:
        params, meta = checkpoints.load(1)
        params = jax.tree.map(np.array, params)
        params['encoder']['w_r']['kernel'][3, 1] = number
        checkpoints.save(3, params, {'count': np.zeros(1)}, meta)
    said = f'{workdir}/checkpoints/3: encoder/w_r/kernel has numbers that are not finite'
    with pytest.raises(CheckpointError, match=said):
        model_config.load(workdir)


@pytest.mark.parametrize('use', ['init_from', 'resume'])
def test_training_does_not_go_on_from_an_encoder_that_computes_otherwise(world, tmp_path, use):
    start = copied(world / 'model', tmp_path)
    options = dict(encoder=functools.partial(tiny_training.encoder, layer_norm_epsilon=1e-3))
    workdir = start
    if use == 'init_from':
        workdir, options = tmp_path / 'new', options | {use: str(start), 'dry_run': True}
    said = f'{start} has layer_norm_epsilon=1e-12, and the encoder that is trained 0.001: set'
    with pytest.raises(InputError, match=said):
        tiny_training.run(world / 'prepared', workdir, RELATIONS, **options)


@pytest.mark.parametrize(
    ('workdir', 'stage', 'options', 'said'),
    [
        ('model', ALIGN, {}, "objective was 'Relations' and is 'Align'"),
        ('follower', None, {'init_from': 'model'}, 'frozen_encoder was False and is True'),
        ('model', RELATIONS, {'seed': 1}, 'seed was 0 and is 1'),
        ('model', RELATIONS, {'init_from': 'model'}, "init_hash was None and is '"),
        ('model', RELATIONS, {'encoder': wider}, r'encoder/.*: \(16,\), the model has \(32,\); .*'),
    ],
)
def test_a_workdir_is_not_resumed_as_another_run(world, tmp_path, workdir, stage, options, said):
    copy = copied(world / workdir, tmp_path)
    before = digest_of_tree(copy)
    if 'init_from' in options:
        options = {'init_from': str(world / 'model')}
    refused = 'cannot be resumed as another run .'
    if 'encoder' in options:
        refused = '/checkpoints/1 does not fit the model: '
    with pytest.raises(InputError, match=f'{copy} ?{refused}{said}') as error:
        stage = stage or follow(world / 'memory', frozen_encoder=True)
        tiny_training.run(world / 'prepared', copy, stage, **options)
    assert 'damaged' not in str(error.value) and digest_of_tree(copy) == before


@pytest.mark.parametrize('start', ['init_from', 'bert_folder'])
def test_a_run_does_not_start_from_other_parameters_than_it_states(
    world, tmp_path, monkeypatch, start
):
    workdir, describe = copied(world / 'model', tmp_path), trainer.lineage_lib.describe_run

    def describe_and_train_further(*arguments):
        with Checkpoints(workdir) as store:
            params, meta = store.load()
            further = jax.tree.map(lambda x: x + 1, params)
            store.save(9, further, {'count': np.zeros(1)}, {'lineage': meta['lineage']})
        return describe(*arguments)

    monkeypatch.setattr(trainer.lineage_lib, 'describe_run', describe_and_train_further)
    said = f'{workdir} was trained further or replaced while it was read'
    with pytest.raises(InputError, match=said):
        tiny_training.run(world / 'prepared', tmp_path / 'work', **{start: str(workdir)})
    assert Checkpoints(tmp_path / 'work').latest_step() is None


@pytest.mark.parametrize('use', ['init_from', 'resume', 'build_memory'])
@pytest.mark.parametrize('other', ['vocabulary', 'tokenizer'])
def test_a_model_of_another_vocabulary_or_tokenizer_is_refused(world, tmp_path, other, use):
    if other == 'vocabulary':
        prepared = tiny_training.write_prepared(tmp_path / 'prepared', seed=1)
        said = f'entity vocabulary of 40 entities, hash .*, but {prepared} has 40, hash'
    else:
        prepared = copied(world / 'prepared', tmp_path)
        # Trained to 400 before.
        tokenizer = train_wordpiece(Prepared(prepared).passages['text'].to_pylist(), 120)
        (prepared / 'manifest.json').unlink()
        tokenizer.save(str(prepared / 'tokenizer.json'))
        tiny_prepared.write_manifest(prepared)
        said = f'tokenizer.json is not the tokenizer of {prepared}'
    model = copied(world / 'model', tmp_path)
    with pytest.raises(CheckpointError, match=f'^{model}.*{said}'):
        if use == 'init_from':
            tiny_training.run(prepared, tmp_path / 'work', init_from=str(model))
        elif use == 'resume':
            tiny_training.run(prepared, model, RELATIONS)
        else:
            tiny_training.write_memory(prepared, model, tmp_path / 'memory')


def test_a_run_that_is_further_than_num_steps_is_refused(world, tmp_path):
    workdir = copied(world / 'model', tmp_path)
    shutil.copytree(workdir / 'checkpoints' / '1', workdir / 'checkpoints' / '5')
    before = digest_of_tree(workdir)
    said = f'{workdir} is at step 5 already, and num_steps is 4: raise it'
    with pytest.raises(trainer.TrainingError, match=said):
        tiny_training.run(world / 'prepared', workdir, RELATIONS, num_steps=4)
    assert digest_of_tree(workdir) == before


def state(step):
    params = {'layer': {'w': jnp.full((50, 4), step, jnp.float32)}, 'table': jnp.arange(6.0) + step}
    return params, {'count': jnp.int32(step), 'mu': jax.tree.map(lambda x: x * 2, params)}


def assert_is(folder, step):
    with Checkpoints(folder, read_only=True) as checkpoints:
        params, opt_state, meta = checkpoints.restore(*state(0))
    assert meta['step'] == step
    jax.tree.map(np.testing.assert_array_equal, (params, opt_state), state(step))


@pytest.fixture
def slow_hashes(monkeypatch):
    """An event until which nothing is hashed; its `begun` says that something is to be."""
    released, hash_of = threading.Event(), array_digests._sha256
    released.begun = threading.Event()
    slow = lambda array: released.begun.set() or (released.wait(60) and hash_of(array))
    monkeypatch.setattr(array_digests, '_sha256', slow)
    return released


def test_training_goes_on_while_its_state_is_hashed(tmp_path, slow_hashes, monkeypatch):
    advance = jax.jit(lambda tree: jax.tree.map(lambda x: x + 1, tree), donate_argnums=0)
    slow_hashes.set()
    with Checkpoints(tmp_path, keep=1) as checkpoints:
        checkpoints.save(1, *state(1), {'step': 1})
        checkpoints.wait()
        slow_hashes.clear()
        slow_hashes.begun.clear()
        held = state(2)
        checkpoints.save(2, *held, {'step': 2})  # returns, though nothing is hashed yet
        for _ in range(3):
            held = advance(held)  # in the memory that the state had
        jax.block_until_ready(held)
        assert slow_hashes.begun.wait(60)
        monkeypatch.undo()  # or reading would wait, too
        assert_is(tmp_path, 1)
        slow_hashes.set()
        checkpoints.wait()
        assert checkpoints.steps() == [2]
    assert_is(tmp_path, 2)
