"""Encoders of pairs over a prepared folder, by what a pair is encoded from."""

import jax
import numpy as np

from opql_jax.data.prepared import Prepared
from opql_jax.models.pair_encoding import encoder_of
from opql_jax.training.trainer import init_params

import tiny_training

SAMPLE = 331  # rows; a prime, so that no batch size divides it


def make(prepared, entry='relation', **options):
    """(An encoder of rows with a small random model, the sampled row ids)."""
    prepared = Prepared(prepared)
    module, params = model(prepared)
    options = {'tokens_per_batch': 480} | options
    encode = encoder_of(entry)(module, params, prepared.records, prepared.pairs, prepared.special, **options)
    rows = np.random.default_rng(0).permutation(len(prepared.pairs['topic']))[:SAMPLE]
    return encode, rows


def model(prepared):
    module = tiny_training.encoder(vocab_size=prepared.tokenizer.get_vocab_size())
    params = init_params(module, 1, seed=0)['encoder']
    # So large that attention, and with it the padding mask, matters.
    return module, jax.tree.map(lambda x: x * 5 if x.ndim > 1 else x, params)
