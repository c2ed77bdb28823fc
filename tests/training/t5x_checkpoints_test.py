"""Checkpoints of t5x, in its layout, become models of a knowledge base."""

from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest

from opql_jax.core.errors import InputError
from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.prepared import Prepared
from opql_jax.parallel.mesh import make_mesh
from opql_jax.training import lineage, model_config, objectives, t5x_checkpoints
from opql_jax.training.checkpoints import Checkpoints
from opql_jax.training.progress import TrainingError

import tiny_training

PADDING = 3  # rows of E, as several devices leave them


@pytest.fixture(scope='module')
def kb(tmp_path_factory):
    root = tmp_path_factory.mktemp('kb')
    tiny_training.write_prepared(root / 'text')
    tiny_training.write_untrained(root / 'text', root / 'start', spread=8.0)
    return root


def write_run(kb, folder, objective, steps=(2, 4), broken=False):
    """A MODEL_DIR whose step n has n added to the parameters of 'start', which are returned."""
    prepared = Prepared(kb / 'text')
    encoder = tiny_training.encoder(vocab_size=prepared.tokenizer.get_vocab_size())
    task = objective.located(KBFolder(kb)).build(prepared, encoder, make_mesh(1), 5)
    described = lineage.describe_run(task, prepared, 5, lineage.read_meta(str(kb / 'start')))
    run = {'lineage': described, 'text': 'text', 'memory': objective.memory_dir}
    t5x_checkpoints.state_run(folder, encoder, prepared, 'marked_pair', run, training=True)
    with Checkpoints(kb / 'start', read_only=True) as checkpoints:
        params = task.init(checkpoints.load()[0])
    for step in steps:
        added = np.float32(np.nan if broken else step)
        saved = jax.tree.map(lambda x: np.asarray(x) + added, params)
        saved['entity_table'] = np.pad(saved['entity_table'], ((0, PADDING), (0, 0)))
        inner = {'step': np.int32(step), 'param_states': {'0': {'mu': saved}}}
        state = {'target': saved, 'state': inner}
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as writer:
            writer.save(folder / f'checkpoint_{step}' / 'state', args=ocp.args.PyTreeSave(state))
    return params


def import_run(kb, folder, model, **options):
    t5x_checkpoints.import_checkpoint(kb=str(kb), model_dir=str(folder), model=model, **options)


def test_an_import_is_a_model_with_its_lineage(kb, tmp_path):
    params = write_run(kb, tmp_path, objectives.Relations(rows=16))
    for model, step, options in (('newest', 4, {}), ('second', 2, {'step': 2})):
        import_run(kb, tmp_path, model, **options)
        _, found, config, meta = model_config.load(kb / model)
        added = jax.tree.map(lambda x: np.asarray(x) + np.float32(step), params)
        jax.tree.map(np.testing.assert_array_equal, added, found)
        assert config.pair_encoding == 'marked_pair' and meta['step'] == step
        assert meta['lineage']['objective'] == 'Relations' and meta['lineage']['rows'] == 16
        assert meta['lineage']['init_hash'] == lineage.read_meta(str(kb / 'start'))['params_hash']


def test_training_starts_from_it_but_does_not_go_on_as_its_run(kb, tmp_path):
    write_run(kb, tmp_path, objectives.Relations(rows=16))
    import_run(kb, tmp_path, 'imported')
    stage, start = objectives.Relations(rows=16), dict(init_from=str(kb / 'imported'))
    tiny_training.run(kb / 'text', kb / 'further', stage, **start, num_steps=1)
    with pytest.raises(TrainingError, match="trained_by was 't5x'"):
        tiny_training.run(kb / 'text', kb / 'imported', stage, seed=5, num_steps=9)


def test_what_cannot_be_imported_is_named(kb, tmp_path):
    for name in ('run', 'broken'):
        how = dict(steps=(2,), broken=name == 'broken')
        write_run(kb, tmp_path / name, objectives.Entities(rows=16), **how)
    run, broken = tmp_path / 'run', tmp_path / 'broken'
    for folder, model, options, said in (
        (run, 'new', {'step': 3}, 'no checkpoint of t5x of step 3, those there'),
        (run, 'start', {}, 'start exists: name a new part'),
        (kb / 'start', 'new', {}, 'opql_run.json: no such file; .* is not the MODEL_DIR of'),
        (broken, 'new', {}, 'numbers that are not finite'),
    ):
        with pytest.raises(InputError, match=said):
            import_run(kb, folder, model, **options)
    assert not (kb / 'new').exists()


def test_neither_an_interrupted_save_nor_checkpoints_of_an_unknown_run_are_adopted(tmp_path):
    (tmp_path / 'checkpoint_2').mkdir()
    (tmp_path / 'checkpoint_4.orbax-checkpoint-tmp').mkdir()
    assert t5x_checkpoints.newest_checkpoint(str(tmp_path)) == str(tmp_path / 'checkpoint_2')
    unused: Any = None
    with pytest.raises(InputError, match='checkpoints of another run, and no opql_run.json'):
        t5x_checkpoints.state_run(tmp_path, unused, unused, 'marked_pair', {}, training=True)
    assert not (tmp_path / 'opql_run.json').exists()
