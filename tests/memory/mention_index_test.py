"""A memory of mentions (the DrKIT-style baseline), whose encoding goes with the model."""

import jax
import numpy as np
import pytest

from opql_jax.data.prepared import Prepared
from opql_jax.memory.format import Memory
from opql_jax.training import model_config, objectives
from opql_jax.training.objectives import AlignPassages

import tiny_training

MENTIONS = AlignPassages(pair_encoding='mention', topics=4)


@pytest.fixture(scope='module')
def world(tmp_path_factory):
    """A prepared folder, a model of mentions with random parameters, and its memory."""
    root = tmp_path_factory.mktemp('mentions')
    tiny_training.write_prepared(root / 'prepared')
    tiny_training.write_untrained(root / 'prepared', root / 'model', MENTIONS, spread=8.0)
    tiny_training.write_memory(root / 'prepared', root / 'model', root / 'memory', shard_rows=50)
    return root


def test_an_entry_is_its_targets_mention_in_the_plain_passage(world):
    prepared, memory = Prepared(world / 'prepared'), Memory.open(world / 'memory')
    encoder, params, _, _ = model_config.load(world / 'model')
    apply = jax.jit(lambda *row: encoder.apply({'params': params['encoder']}, *row)[0])
    passages, special = prepared.passages.to_pylist(), prepared.special
    for row in range(0, len(memory), 60):
        (where,) = memory.provenance([row])
        spans = [span['start'] for span in passages[where['passage']]['mentions']]
        plain, place = prepared.records[where['passage']], [spans.index(where['target'][0])]
        tokens = np.zeros((1, 136), np.int32)
        tokens[0, : len(plain.tokens) + 2] = special.cls, *plain.tokens, special.sep
        alone = apply(tokens, plain.starts[place] + 1, plain.ends[place])
        np.testing.assert_allclose(memory.relations([row])[0], alone, atol=1e-5)


def test_the_pair_encoding_goes_with_the_model(world, tmp_path):
    """The follow stage keeps it."""
    prepared, model = world / 'prepared', str(world / 'model')
    memory = str(world / 'memory')
    follow = objectives.Follow(memory_dir=memory, questions=8, splits=('1-hop/train',))
    tiny_training.run(prepared, tmp_path / 'follow', follow, init_from=model, num_steps=1)
    card = model_config.read(tmp_path / 'follow')
    assert model_config.read(model).pair_encoding == card.pair_encoding == 'mention'
