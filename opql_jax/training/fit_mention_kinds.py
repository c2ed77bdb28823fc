"""Learns to tell the kinds of mentions from documents whose entities have types, in the form of DocRED."""

import os
import tempfile
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from opql_jax.corpus import tables
from opql_jax.corpus.splitting import split_document
from opql_jax.data.tokenizer import token_counter
from opql_jax.datasets import docred
from opql_jax.models import mention_kinds
from opql_jax.models.mention_kinds import THING, MentionKinds
from opql_jax.models.passage_encoder import encode_batch
from opql_jax.models.text_encoder import TextEncoder

# Of DocRED's types, times and numbers are recognised by themselves.
_KINDS = {'PER': 'person', 'ORG': 'organisation', 'LOC': 'place', 'MISC': THING}
_MAX_TOKENS, _BATCH_PASSAGES = 128, 256


def fit_mention_kinds(encoder: TextEncoder, documents: str | os.PathLike) -> MentionKinds:
    """Reads the vectors that an encoder has of typed mentions, and learns their kinds.

    Args:
        encoder: a released one.
        documents: a file of DocRED's form, see `datasets.docred`.

    Raises:
        InputError: it is none, or has no mention of a person, an organisation, a place or a thing.
    """
    vectors, kinds = [np.zeros((0, encoder.module.hidden_size), np.float32)], []
    for batch, of_batch in typed_mentions(encoder, documents):
        encoded = encode_batch(batch, encoder)
        for mentions in encoded['mentions'].to_pylist():
            vectors.append(np.frombuffer(mentions, '<f2').reshape(-1, encoder.module.hidden_size).astype(np.float32))
        kinds += of_batch
    return mention_kinds.fit(np.concatenate(vectors), kinds)


def typed_mentions(encoder: TextEncoder, documents: str | os.PathLike) -> Iterator[tuple[pa.RecordBatch, list[str]]]:
    """Batches of `tables.PASSAGES`, and the kinds of all of their mentions in order."""
    with tempfile.TemporaryDirectory() as folder:
        rejected = os.path.join(folder, 'rejected.jsonl')
        annotated = docred.read_documents(documents, {}, rejected_path=rejected)
    passages, kinds = [], []
    for document in (each.document for each in annotated):
        typed = [(mention, _KINDS.get(mention.entity.split(':')[0])) for mention in document.mentions or ()]
        spans = [(mention.start, mention.end, number) for number, (mention, kind) in enumerate(typed) if kind]
        for passage in split_document(document, spans, -1, token_counter(encoder.tokenizer), _MAX_TOKENS):
            passages.append(passage)
            kinds += [kind for _, _, number in passage.mentions if (kind := typed[number][1])]
        if len(passages) >= _BATCH_PASSAGES:
            yield _batch(passages), kinds
            passages, kinds = [], []
    if passages:
        yield _batch(passages), kinds


def _batch(passages) -> pa.RecordBatch:
    *columns, mentions = zip(*passages)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, tables.PASSAGES)]
    return pa.RecordBatch.from_arrays([*arrays, tables.mention_array(mentions)], schema=tables.PASSAGES)
