"""A memory whose entries are mentions (the DrKIT-style baseline): encoded alike by training, build
and injection.
"""

import json

import jax
import numpy as np
import pytest
from damage import edit

from opql_jax.data.prepare import prepare
from opql_jax.data.prepared import Prepared
from opql_jax.datasets.jsonl import JsonLines
from opql_jax.datasets.synthetic.reader import Synthetic
from opql_jax.kb.update_memory import inject
from opql_jax.memory.format import Memory
from opql_jax.training import model_config, objectives
from opql_jax.training.objectives import AlignPassages

import tiny_training

MENTIONS = AlignPassages(pair_encoding='mention', topics=4)


@pytest.fixture(scope='module')
def world(tmp_path_factory):
    """A prepared folder, a model of mentions with random parameters, and its memory in small
    shards.
    """
    root = tmp_path_factory.mktemp('mentions')
    reader = Synthetic(num_documents=30, num_train=20)
    prepare(kb=str(root), text='prepared', reader=reader, wordpieces=500, max_tokens=48)
    tiny_training.write_untrained(root / 'prepared', root / 'model', MENTIONS, spread=8.0)
    tiny_training.write_memory(root / 'prepared', root / 'model', root / 'memory', shard_rows=50)
    return root


@pytest.fixture
def encode_alone(world):
    """Encodes the mention of `entity` that begins at character `start` of a passage, by itself."""
    encoder, params, _, _ = model_config.load(world / 'model')
    apply = jax.jit(lambda *row: encoder.apply({'params': params['encoder']}, *row)[0])

    def encode(prepared, passage, start):
        spans = prepared.passages.slice(passage, 1).to_pylist()[0]['mentions']
        place = [span['start'] for span in spans].index(start)
        plain = prepared.records[passage]
        tokens, special = np.zeros((1, 64), np.int32), prepared.special
        tokens[0, : len(plain.tokens) + 2] = special.cls, *plain.tokens, special.sep
        return np.asarray(apply(tokens, plain.starts[[place]] + 1, plain.ends[[place]]))

    return encode


def mentions_of(memory):
    """(row, passage, where the target's mention begins) of every entry."""
    for row, where in enumerate(memory.provenance(range(len(memory)))):
        yield row, where['passage'], where['target'][0]


def test_an_entry_is_its_targets_mention_in_the_plain_passage(world, encode_alone):
    prepared, memory = Prepared(world / 'prepared'), Memory.open(world / 'memory')
    relations = memory.relations(range(len(memory)))
    for row, passage, start in list(mentions_of(memory))[::60]:
        alone = encode_alone(prepared, passage, start)
        np.testing.assert_allclose(relations[row], alone, atol=1e-5)


def test_injected_text_is_encoded_as_what_is_there(world, encode_alone, tmp_path):
    tiny_training.write_memory(world / 'prepared', world / 'model', tmp_path / 'memory')
    before, vocab = len(Memory.open(tmp_path / 'memory')), Prepared(world / 'prepared').vocab
    first, second, third, *_ = vocab.names
    document = {'id': 'new', 'title': first, 'text': f'{first} met {second} and {third}.'}
    (tmp_path / 'new.jsonl').write_text(json.dumps(document))
    reader = JsonLines(str(tmp_path / 'new.jsonl'))
    options = dict(extends=str(world / 'prepared'), drop_above_rate=1.0)
    prepare(kb=str(tmp_path), text='prepared', reader=reader, **options)
    inject(str(tmp_path / 'prepared'), str(world / 'model'), str(tmp_path / 'memory'))
    prepared, memory = Prepared(tmp_path / 'prepared'), Memory.open(tmp_path / 'memory')
    # `provenance` takes ids, which an injection makes differ from rows.
    new = [row for row in range(len(memory)) if memory.ids[row] >= before]
    assert len(new) == 4
    for row in new:
        where = memory.provenance([memory.ids[row]])[0]
        alone = encode_alone(prepared, where['passage'], where['target'][0])
        np.testing.assert_allclose(memory.relations([row])[0], alone, atol=1e-5)


def test_the_pair_encoding_goes_with_the_model(world, tmp_path):
    """The follow stage keeps it."""
    prepared, model = world / 'prepared', str(world / 'model')
    memory = str(world / 'memory')
    follow = objectives.Follow(memory_dir=memory, questions=8, splits=('1-hop/train',))
    tiny_training.run(prepared, tmp_path / 'follow', follow, init_from=model, num_steps=1)
    card = model_config.read(tmp_path / 'follow')
    assert model_config.read(model).pair_encoding == card.pair_encoding == 'mention'
    edit(tmp_path / 'follow', 'model.json', encoder_class='Rnn')
    said = "encoder_class 'Rnn' is not one of RelationEncoder, ModernEncoder, BagOfWords"
    with pytest.raises(ValueError, match=said):
        model_config.read(tmp_path / 'follow')
