"""Encoding many pairs: the relations are those of the rows one by one."""

import functools
from unittest import mock

import jax
import numpy as np
import one_marked
import pytest

from opql_jax.core.errors import InputError
from opql_jax.data.prepared import Prepared
from opql_jax.models import bulk_encoding
from opql_jax.training.state import init_params

import tiny_prepared
import tiny_training

SAMPLE = 331  # rows; a prime, so that no batch size divides it


def make(prepared, pair_encoding='marked_pair', **constants):
    """(An encoder of rows with a small random model, in small batches, the sampled row ids)."""
    prepared = Prepared(prepared)
    module, params = model(prepared)
    with mock.patch.multiple(bulk_encoding, **{'CPU_TOKENS': 480} | constants):
        encode = bulk_encoding.pair_encoder(pair_encoding, module, params, prepared)
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


@functools.partial(jax.jit, static_argnames=('module', 'method'))
def apply(module, params, *arguments, method=None):
    return module.apply({'params': params}, *arguments, method=method)


def marked_pair(module, params, special, plain, i, j):
    marked = one_marked.mark_pair(plain, i, j, special, max_context=0)
    tokens = np.zeros((1, 136), np.int32)
    tokens[0, : len(marked.tokens)] = marked.tokens
    places = np.array([marked.r1]), np.array([marked.r2])
    return apply(module, params, tokens, *places)[0], len(marked.tokens)


def hidden(module, params, special, plain):
    tokens = np.zeros((1, 136), np.int32)
    tokens[0, : len(plain.tokens) + 2] = special.cls, *plain.tokens, special.sep
    return np.asarray(apply(module, params, tokens, method=type(module).hidden)[0], np.float64)


def span_pair(module, params, special, plain, i, j):
    """W_r^T [first ; second], each the mean of its mention's first and last token in the plain
    passage, as they come in it.

    Where the topic is the second, the halves are swapped.
    """
    h = hidden(module, params, special, plain)
    pair = np.concatenate([(h[1 + plain.starts[k]] + h[plain.ends[k]]) / 2 for k in sorted((i, j))])
    code = pair @ np.asarray(params['w_r']['kernel'], np.float64)
    left, right = np.split(code, 2)
    return np.concatenate([right, left]) if i > j else code, len(plain.tokens) + 2


def mention(module, params, special, plain, i, j):
    """W_r^T [first ; last] of the target's mention in the plain passage."""
    h = hidden(module, params, special, plain)
    ends = np.concatenate([h[1 + plain.starts[j]], h[plain.ends[j]]])
    return ends @ np.asarray(params['w_r']['kernel'], np.float64), len(plain.tokens) + 2


ALONE = {'marked_pair': marked_pair, 'span_pair': span_pair, 'mention': mention}


@pytest.fixture(scope='module', params=ALONE)
def pair_encoding(request):
    return request.param


@pytest.fixture(scope='module')
def rows(folder):
    return make(folder)[1]


def test_a_row_that_exceeds_every_bucket_is_refused(folder, pair_encoding, rows):
    with pytest.raises(InputError, match=r'a row of \d+ tokens exceeds the longest bucket 24'):
        make(folder, pair_encoding, LENGTHS=(16, 24))[0](rows)


def test_relations_are_those_of_the_rows_one_by_one(folder, pair_encoding, rows):
    prepared = Prepared(folder)
    expected, lengths, own = [], set(), model(prepared)
    for row in rows:
        names = ('passage', 'topic_mention', 'target_mention')
        of, i, j = (prepared.pairs[name][row] for name in names)
        found, length = ALONE[pair_encoding](*own, prepared.special, prepared.records[of], i, j)
        expected.append(found)
        lengths.add(length)
    assert min(lengths) < 24 and max(lengths) > 100  # most of the buckets occur
    found = make(folder, pair_encoding)[0](rows)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * max(1, np.abs(expected).max()))


@pytest.mark.parametrize('pair_encoding', ['span_pair', 'mention'])
def test_a_passage_is_encoded_once_for_all_of_its_pairs(folder, rows, pair_encoding, monkeypatch):
    encode, read = make(folder, pair_encoding)[0], []
    records = encode._source.records
    of = records.read
    monkeypatch.setattr(records, 'read', lambda ids: read.extend(ids) or of(ids))
    first = encode(rows[:200])
    encode(rows)
    assert len(read) == len(set(read)) < len(rows)
    np.testing.assert_array_equal(encode(rows[:200]), first)
