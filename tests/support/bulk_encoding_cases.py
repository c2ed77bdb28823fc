"""Encoders of pairs over a prepared folder, by what a pair is encoded from."""

import jax
import numpy as np

from opql_jax.data.prepared import Prepared
from opql_jax.models.bulk_encoding import Batching, pair_encoder
from opql_jax.training.state import init_params

import tiny_training

SAMPLE = 331  # rows; a prime, so that no batch size divides it


def make(prepared, pair_encoding='marked_pair', **options):
    """(An encoder of rows with a small random model, the sampled row ids)."""
    prepared = Prepared(prepared)
    module, params = model(prepared)
    encode = pair_encoder(
        pair_encoding, module, params, prepared, Batching(**{'tokens_per_device': 480} | options)
    )
    rows = np.random.default_rng(0).permutation(len(prepared.pairs['topic']))[:SAMPLE]
    return encode, rows


def model(prepared):
    module = tiny_training.encoder(vocab_size=prepared.tokenizer.get_vocab_size())
    params = init_params(module, 1, seed=0)['encoder']
    # So large that attention, and with it the padding mask, matters.
    return module, jax.tree.map(lambda x: x * 5 if x.ndim > 1 else x, params)
