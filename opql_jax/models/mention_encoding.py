"""What the encoder makes of single mentions, from the text around them: the side of RELIC that the entity table is trained with."""

import jax
import numpy as np

from opql_jax.data import batching, markup
from opql_jax.models.encoder import RelationEncoder

TOKENS_PER_BATCH = 16384


def encode_mentions(encoder: RelationEncoder, params, records, special, passage, mention) -> np.ndarray:
    """m = W_e^T h_start of mentions that are masked by [ENT].

    Args:
        encoder, params: the module and its parameters.
        records: `PassageRecords`.
        special: marker ids.
        passage: [n] ids of the passages.
        mention: [n] indices of the mentions in their passages.

    Returns:
        [n, d_e] float32.
    """
    apply = jax.jit(
        lambda params, tokens, at: encoder.apply({'params': params}, tokens, at[:, None], method=encoder.mentions)[:, 0]
    )
    masked = [markup.mask_mention(read, i, special) for read, i in zip(records.read(passage), mention, strict=True)]
    bucket = np.array([batching.bucket_of(len(m.tokens), batching.BUCKET_LENGTHS) for m in masked], np.int64)
    out = np.empty((len(masked), encoder.entity_dim), np.float32)
    for length in np.unique(bucket).tolist():
        members, size = np.flatnonzero(bucket == length), TOKENS_PER_BATCH // length
        for start in range(0, len(members), size):
            chosen = members[start : start + size]
            batch, _ = batching.pack_masked([masked[i] for i in chosen], {length: size}, special)
            out[chosen] = np.asarray(apply(params, batch[f'tokens_{length}'], batch[f'position_{length}']))[: len(chosen)]
    return out
