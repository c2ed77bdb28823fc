"""Learns the kinds of mentions from documents with typed entities, in DocRED's form."""

import os
import pathlib
import tempfile
from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pyarrow as pa
import scipy.optimize

from opql_jax.core.errors import InputError
from opql_jax.corpus import tables
from opql_jax.corpus.documents import Document
from opql_jax.corpus.json_lines import read_json_lines
from opql_jax.corpus.linking import LINKED
from opql_jax.corpus.splitting import split_batch
from opql_jax.data.tokenizer import token_counter
from opql_jax.datasets import docred
from opql_jax.models.mention_kinds import KINDS, THING, MentionKinds
from opql_jax.models.passage_encoder import vectors_of
from opql_jax.models.text_encoder import TextEncoder

# By DocRED's types; times and numbers are recognised by themselves.
KIND_OF_TYPE = {'PER': 'person', 'ORG': 'organisation', 'LOC': 'place', 'MISC': THING}
_MAX_TOKENS, _DOCUMENTS = 128, 64
# Weight decay, for inputs of unit variance, and steps of L-BFGS.
_DECAY, _STEPS = 1e-3, 200


def read_typed(path: str | os.PathLike) -> list[Document]:
    """DocRED's documents with mentions, entities beginning with a type; InputError: a bad one."""
    with tempfile.TemporaryDirectory() as folder:
        rejected = pathlib.Path(folder, 'rejected.jsonl')
        annotated = docred.read_documents(path, {}, rejected_path=rejected, max_reject_fraction=1)
        for _, bad in read_json_lines(rejected):
            if 'unknown relation' not in bad['reason']:  # relations do not matter here
                raise InputError(f'{path}: document {bad["document"]}: {bad["reason"]}')
    return [each.document for each in annotated]


def fit_mention_kinds(encoder: TextEncoder, documents: Sequence[Document]) -> MentionKinds:
    """Learns kinds of mentions from `read_typed` documents; InputError if one is missing."""
    vectors, kinds = [np.zeros((0, encoder.fields.hidden_size), np.float32)], []
    for batch, of_batch in typed_mentions(encoder, documents):
        vectors += [mentions for mentions, _ in vectors_of(batch, encoder)]
        kinds += of_batch
    return fit(np.concatenate(vectors), kinds)


def fit(vectors: np.ndarray, kinds: Sequence[str]) -> MentionKinds:
    """Learns from mentions' vectors [n, hidden_size] and kinds; InputError: none, or no KINDS."""
    if not len(vectors) or (wrong := set(kinds) - set(KINDS)):
        raise InputError(
            f'expected mentions of kinds {KINDS}, found '
            f'{sorted(wrong) if len(vectors) else "no mention"}'
        )
    mean, scale = vectors.mean(axis=0), vectors.std(axis=0) + 1e-6
    inputs = jnp.asarray((vectors - mean) / scale, jnp.float32)
    labels = jnp.asarray([KINDS.index(kind) for kind in kinds])

    @jax.jit
    @jax.value_and_grad
    def loss(flat):
        params = flat.reshape(-1, len(KINDS))  # the last row is the bias
        logits = inputs @ params[:-1] + params[-1]
        lost = optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
        return lost + _DECAY * jnp.square(params[:-1]).sum()

    found = scipy.optimize.minimize(
        lambda flat: [np.asarray(part, np.float64) for part in loss(flat)],
        np.zeros((vectors.shape[1] + 1) * len(KINDS)),
        jac=True,
        method='L-BFGS-B',
        options={'maxiter': _STEPS},
    )
    *kernel, bias = found.x.reshape(-1, len(KINDS))
    kernel = np.stack(kernel) / scale[:, None]
    return MentionKinds(kernel.astype(np.float32), (bias - mean @ kernel).astype(np.float32))


def typed_mentions(
    encoder: TextEncoder, documents: Sequence[Document]
) -> Iterator[tuple[pa.RecordBatch, list[str]]]:
    """Batches of `tables.PASSAGES`, and the kinds of all of their mentions in order."""
    for first in range(0, len(documents), _DOCUMENTS):
        some = documents[first : first + _DOCUMENTS]
        mentions = [
            [
                (mention.start, mention.end, KINDS.index(kind))
                for mention in document.mentions or ()
                if (kind := KIND_OF_TYPE.get(mention.entity.split(':')[0]))
            ]
            for document in some
        ]
        columns = zip(*((document.id, document.title, -1, document.text) for document in some))
        arrays = [pa.array(column, field.type) for column, field in zip(columns, LINKED)]
        linked = [*arrays, tables.mention_array(mentions)]
        passages = split_batch(
            pa.RecordBatch.from_arrays(linked, schema=LINKED),
            token_counter(encoder.tokenizer),
            _MAX_TOKENS,
        )
        kinds = passages['mentions'].flatten().field('entity').to_pylist()
        yield passages, [KINDS[kind] for kind in kinds]
