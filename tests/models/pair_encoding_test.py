"""Encoding many pairs: the relations are those of the rows one by one, on any number of devices."""

import numpy as np
import pytest

from opql_jax.core.errors import InputError
from opql_jax.data import markup
from opql_jax.data.prepared import Prepared
from opql_jax.models.pair_encoding import ENTRIES, encoder_of

import eight_devices
import tiny_prepared
from pair_encoding_cases import SAMPLE, make, model


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    return tiny_prepared.write(tmp_path_factory.mktemp('prepared'), longest=100)


def relation(module, params, special, plain, i, j):
    """The relation of a pair marked by `mark_pair` and encoded alone, padded to 136 tokens, and the length of its text."""
    marked = markup.mark_pair(plain, i, j, special, max_context=0)
    tokens = np.zeros((1, 136), np.int32)
    tokens[0, : len(marked.tokens)] = marked.tokens
    return module.apply({'params': params}, tokens, np.array([marked.r1]), np.array([marked.r2]))[0], len(marked.tokens)


def hidden(module, params, special, plain):
    """The last layer over a plain passage, encoded alone, padded to 136 tokens: [136, hidden_size] float64."""
    tokens = np.zeros((1, 136), np.int32)
    tokens[0, : len(plain.tokens) + 2] = special.cls, *plain.tokens, special.sep
    return np.asarray(module.apply({'params': params}, tokens, method=module.hidden)[0], np.float64)


def places(module, params, special, plain, i, j):
    """W_r^T [first ; second], each the mean of its mention's first and last token in the plain passage, as they come in it.

    Where the topic is the second, the halves are swapped.
    """
    h = hidden(module, params, special, plain)
    pair = np.concatenate([(h[1 + plain.starts[k]] + h[plain.ends[k]]) / 2 for k in sorted((i, j))])
    code = pair @ np.asarray(params['w_r']['kernel'], np.float64)
    left, right = np.split(code, 2)
    return np.concatenate([right, left]) if i > j else code, len(plain.tokens) + 2


def mention(module, params, special, plain, i, j):
    """W_r^T [first ; last] of the target's mention in the plain passage, wherever the topic's is."""
    h = hidden(module, params, special, plain)
    ends = np.concatenate([h[1 + plain.starts[j]], h[plain.ends[j]]])
    return ends @ np.asarray(params['w_r']['kernel'], np.float64), len(plain.tokens) + 2


ALONE = {'relation': relation, 'places': places, 'mention': mention}


def test_every_kind_of_entry_is_tested():
    assert ALONE.keys() == ENTRIES.keys()


@pytest.fixture(scope='module', params=ALONE)
def entry(request):
    return request.param


@pytest.fixture(scope='module')
def one_by_one(folder, entry):
    """The relations of the sampled rows, each encoded alone."""
    prepared = Prepared(folder)
    model_ = model(prepared)
    relations, lengths = [], set()
    for row in make(folder)[1]:
        of, i, j = (prepared.pairs[name][row] for name in ('passage', 'topic_mention', 'target_mention'))
        found, length = ALONE[entry](*model_, prepared.special, prepared.records[of], i, j)
        relations.append(found)
        lengths.add(length)
    assert min(lengths) < 24 and max(lengths) > 100  # most of the buckets occur
    return np.stack(relations)


@pytest.fixture(scope='module')
def encode(folder, entry):
    return make(folder, entry)[0]


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
def test_batch_size_and_buckets_change_rounding_only(folder, entry, rows, one_by_one, options):
    assert_same(make(folder, entry, **options)[0](rows[:60]), one_by_one[:60])


def test_a_row_that_exceeds_every_bucket_is_refused(folder, entry, rows):
    with pytest.raises(InputError, match=r'a row of \d+ tokens exceeds the longest bucket 24'):
        make(folder, entry, bucket_lengths=(16, 24))[0](rows)


def test_an_entry_that_there_is_not_is_refused():
    with pytest.raises(InputError, match="entry='mentions' must be one of relation, places, mention"):
        encoder_of('mentions')


@pytest.fixture(scope='module')
def on_devices(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp('devices') / 'found.npz'
    eight_devices.run('encode_on_devices.py', folder, path)
    return np.load(path)


def test_any_number_of_devices_gives_the_same_bits(entry, one_by_one, on_devices):
    assert_same(on_devices[f'{entry}-relations-1'], one_by_one)
    for devices in (1, 2, 4, 8):
        assert on_devices[f'{entry}-devices-{devices}'].tolist() == [devices]  # every batch lay on all of them
        np.testing.assert_array_equal(on_devices[f'{entry}-relations-{devices}'], on_devices[f'{entry}-relations-1'])


@pytest.mark.parametrize('kind', ['places', 'mention'])
def test_a_passage_is_encoded_once_for_all_of_its_pairs(folder, rows, kind, monkeypatch):
    encode, read = make(folder, kind)[0], []
    of = encode._records.read
    monkeypatch.setattr(encode._records, 'read', lambda ids: read.extend(ids) or of(ids))
    first = encode(rows[:200])
    encode(rows)
    assert len(read) == len(set(read)) < len(rows)
    np.testing.assert_array_equal(encode(rows[:200]), first)
