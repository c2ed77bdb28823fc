"""SeqIO tasks give the batches that Grain gives."""

import importlib.util

import numpy as np
import pytest

import tiny_prepared

seqio = pytest.importorskip('seqio', reason='SeqIO is not installed: pip install -e .[data]')
if importlib.util.find_spec('opql_jax_tasks') is None:
    pytest.skip('opql_jax_tasks is not installed: pip install -e .', allow_module_level=True)

import tensorflow as tf

from opql_jax.corpus.questions import write_questions
from opql_jax.data import pipeline
from opql_jax.data.prepared import Prepared
from opql_jax.data.sources.base import named_leaves
from opql_jax_tasks import opql
from opql_jax_tasks.vocabulary import WordPieceVocabulary

STEPS = 6
FIELDS = {
    'entities': dict(rows=16),
    'relations': dict(rows=32, sampler='groups'),
    'align': dict(split='1-hop/train', topics=4, rows_per_topic=4),
    'align_passages': dict(split='1-hop/train', passages=16, topics=4, questions=16),
    'follow': dict(splits=['1-hop/train', '2-hop/train'], questions=4),
    'lm_cloze': dict(rows=16, topics=3),
    'lm_questions': dict(questions='asked.jsonl', rows=4),
}


@pytest.fixture(scope='module')
def directory(tmp_path_factory):
    folder = tiny_prepared.write(tmp_path_factory.mktemp('prepared'))
    prepared = Prepared(folder)
    asked = [q for hops in (1, 2) for q in prepared.questions(f'{hops}-hop/train')]
    records = [
        {
            'id': q.id,
            'question': q.text,
            'topics': [q.topic],
            'answers': [prepared.vocab.keys[a] for a in q.answers] or ['nobody'],
            'hops': q.hops,
        }
        for q in asked
    ]
    write_questions(folder / FIELDS['lm_questions']['questions'], records)
    return folder


@pytest.fixture(autouse=True)
def in_the_directory(directory, monkeypatch):
    """Files of `FIELDS` are found."""
    monkeypatch.chdir(directory)


@pytest.fixture(autouse=True)
def clean_registry():
    yield
    for name in list(seqio.TaskRegistry.names()):
        if name.startswith('opql_'):
            seqio.TaskRegistry.remove(name)


def dataset(name, seed):
    return seqio.get_dataset(
        name,
        task_feature_lengths=None,
        dataset_split='train',
        shuffle=False,
        seed=seed,
        feature_converter=seqio.PassThroughFeatureConverter(),
    )


@pytest.mark.parametrize('kind', opql.KINDS)
def test_both_paths_give_identical_features_for_a_seed(directory, kind):
    opql.register(kind, directory, num_steps=STEPS, **FIELDS[kind])
    for seed in (0, 5):
        source = opql.KINDS[kind](Prepared(directory), seed=seed, **FIELDS[kind])
        made = pipeline.batches([source], 0, STEPS)
        pairs = list(zip(dataset(f'opql_{kind}', seed).as_numpy_iterator(), map(named_leaves, made), strict=True))
        assert len(pairs) == STEPS
        for ours, grains in pairs:
            assert ours.keys() == grains.keys()
            for name in grains:
                np.testing.assert_array_equal(ours[name], grains[name])
                assert ours[name].dtype == grains[name].dtype


@pytest.mark.parametrize('kind', opql.KINDS)
def test_a_task_states_its_features(directory, kind):
    task = opql.register(kind, directory, num_steps=STEPS, name=f'opql_other_{kind}', **FIELDS[kind])
    spec = dataset(f'opql_other_{kind}', 0).element_spec
    assert set(spec) == set(task.output_features)
    for name, feature in task.output_features.items():
        assert feature.dtype == spec[name].dtype and feature.rank == spec[name].shape.rank
        assert spec[name].shape.is_fully_defined()
        assert isinstance(feature.vocabulary, WordPieceVocabulary) == name.endswith('/tokens')
    assert task.num_input_examples('train') == STEPS


def test_mistakes_are_named(directory):
    with pytest.raises(ValueError, match="kind is 'lm'; it must be one of"):
        opql.register('lm', directory, num_steps=1)
    with pytest.raises(TypeError, match='splits'):
        opql.register('follow', directory, num_steps=1)
    task = opql.register('entities', directory, num_steps=1)
    with pytest.raises(ValueError, match='call get_dataset with shuffle=False'):
        task.get_dataset(None, 'train', shuffle=True)


def test_the_vocabulary_is_the_tokenizer(directory):
    vocabulary = WordPieceVocabulary(directory)
    tokenizer = Prepared(directory).tokenizer
    ids = tokenizer.encode('the old river', add_special_tokens=False).ids
    assert vocabulary.encode('the old river') == ids
    assert vocabulary.encode_tf('the old river').numpy().tolist() == ids
    assert vocabulary.encode_tf('').numpy().tolist() == []
    assert vocabulary.decode(ids) == 'the old river' == vocabulary.decode_tf(tf.constant(ids)).numpy().decode()
    mapped = tf.data.Dataset.from_tensors('the old river').map(vocabulary.encode_tf).map(vocabulary.decode_tf)
    assert [x.decode() for x in mapped.as_numpy_iterator()] == ['the old river']
    assert vocabulary.vocab_size == tokenizer.get_vocab_size() and vocabulary.pad_id == 0
    assert vocabulary == WordPieceVocabulary(directory)


def test_decoding_shows_the_markers(directory):
    batch = opql.KINDS['relations'](Prepared(directory), rows=8)[0]
    text = WordPieceVocabulary(directory).decode(batch.pairs[0].tokens[0])
    assert '[ENT] [R1]' in text and '[ENT] [R2]' in text and '[PAD]' not in text
