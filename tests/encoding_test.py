"""Encoding many pairs: the relations are those of the rows one by one, on any number of devices."""

import jax
import numpy as np
import pytest

import eight_devices
import tiny_prepared
import tiny_training
from opql_jax.corpus.errors import InputError
from opql_jax.data import markup
from opql_jax.data.prepared import Prepared
from opql_jax.models.encoding import PairEncoder
from opql_jax.training.run import init_params

SAMPLE = 331  # rows; a prime, so that no batch size divides it


def make(prepared, **options):
    """(PairEncoder of a small random model, the sampled row ids)."""
    prepared = Prepared(prepared)
    module, params = model(prepared)
    options = {'tokens_per_batch': 480} | options
    encode = PairEncoder(module, params, prepared.records, prepared.pairs, prepared.special, **options)
    rows = np.random.default_rng(0).permutation(len(prepared.pairs['topic']))[:SAMPLE]
    return encode, rows


def model(prepared):
    module = tiny_training.encoder(vocab_size=prepared.tokenizer.get_vocab_size())
    params = init_params(module, 1, seed=0)['encoder']
    # So large that attention, and with it the padding mask, matters.
    return module, jax.tree.map(lambda x: x * 5 if x.ndim > 1 else x, params)


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    return tiny_prepared.write(tmp_path_factory.mktemp('prepared'), longest=100)


@pytest.fixture(scope='module')
def one_by_one(folder):
    """The relations of the sampled rows, each marked by `mark_pair` and encoded alone, padded to 136 tokens."""
    prepared = Prepared(folder)
    module, params = model(prepared)
    apply = jax.jit(lambda *inputs: module.apply({'params': params}, *inputs))
    relations, lengths = [], set()
    for row in make(folder)[1]:
        passage, i, j = (prepared.pairs[name][row] for name in ('passage', 'topic_mention', 'target_mention'))
        marked = markup.mark_pair(prepared.records[passage], i, j, prepared.special, max_context=0)
        tokens = np.zeros((1, 136), np.int32)
        tokens[0, : len(marked.tokens)] = marked.tokens
        relations.append(apply(tokens, np.array([marked.r1]), np.array([marked.r2]))[0])
        lengths.add(len(marked.tokens))
    assert min(lengths) < 24 and max(lengths) > 100  # most of the buckets occur
    return np.stack(relations)


@pytest.fixture(scope='module')
def encode(folder):
    return make(folder)[0]


@pytest.fixture(scope='module')
def rows(folder):
    return make(folder)[1]


def assert_same(found, expected):
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max(initial=1))


def test_every_row_of_a_mixed_sample_is_encoded_as_if_alone(encode, rows, one_by_one):
    assert np.abs(one_by_one[0] - one_by_one[1]).max() > 0.01
    assert_same(encode(rows), one_by_one)


@pytest.mark.parametrize('size', [0, 1, 2, 9, 100])
def test_any_number_of_rows_in_any_order_and_with_repetition(encode, rows, one_by_one, size):
    chosen = np.random.default_rng(size).integers(0, SAMPLE, size)
    assert_same(encode(rows[chosen]), one_by_one[chosen].reshape(size, encode(rows[:0]).shape[1]))


def test_the_same_call_gives_the_same_bits(encode, rows):
    np.testing.assert_array_equal(encode(rows), encode(rows))


@pytest.mark.parametrize('options', [{'tokens_per_batch': 1, 'bucket_lengths': (136, 40)}, {'tokens_per_batch': 100_000}])
def test_batch_size_and_buckets_change_rounding_only(folder, rows, one_by_one, options):
    assert_same(make(folder, **options)[0](rows[:60]), one_by_one[:60])


def test_a_row_that_exceeds_every_bucket_is_refused(folder, rows):
    with pytest.raises(InputError, match=r'a row of \d+ tokens exceeds the longest bucket 24'):
        make(folder, bucket_lengths=(16, 24))[0](rows)


def test_any_number_of_devices_gives_the_same_bits(folder, one_by_one, tmp_path):
    eight_devices.run('encode_on_devices.py', folder, tmp_path / 'found.npz')
    found = np.load(tmp_path / 'found.npz')
    assert_same(found['relations-1'], one_by_one)
    for devices in (1, 2, 4, 8):
        assert found[f'devices-{devices}'].tolist() == [devices]  # every batch lay on all of them
        np.testing.assert_array_equal(found[f'relations-{devices}'], found['relations-1'])
