"""Encodes passages once for all that is read off them: relations of their pairs, and vectors of their sentences."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.data import batching, markup
from opql_jax.data.prepared import Prepared
from opql_jax.models.bulk_encoding import PAIRS_PER_BATCH, BatchedEncoder
from opql_jax.models.encoder import PAD_ID
from opql_jax.models.text_encoder import TextEncoder, unit

# Passages that are read and tokenised at a time.
_READ = 1 << 10
# Sentences of a passage that have vectors of their own; those after them share that of the last.
_MOST_SENTENCES = 32


class PassageEncoder:
    """The passages of prepared text under a released encoder; each is encoded when something of it is first asked for.

    Keeps a vector of each mention and each sentence encoded so far: [hidden_size] float16.
    """

    def __init__(self, encoder: TextEncoder, prepared: Prepared):
        """Takes text that was prepared with the tokenizer of the encoder."""
        if encoder.tokenizer.get_vocab() != prepared.tokenizer.get_vocab():
            raise InputError(
                f'{prepared.directory} was prepared with another tokenizer than that of the encoder: prepare it again'
            )
        self._encoder, self._prepared = encoder, prepared
        passages = prepared.passages
        count = lambda column: np.array([len(row) for row in passages[column]], np.int64)
        self._first_mention, self.first_vector = (
            np.append(0, np.cumsum(counts)) for counts in (count('mentions'), 1 + count('sentence_starts'))
        )
        module, size = encoder.module, encoder.module.hidden_size
        apply: Any = module.apply
        self._mentions = np.zeros((self._first_mention[-1], size), np.float16)
        self._vectors = np.zeros((self.first_vector[-1], size), np.float16)
        self._is_encoded = np.zeros(len(passages), bool)
        self._most_mentions = int(np.diff(self._first_mention).max(initial=1))

        def encode(params, tokens, first, last, sentence):
            hidden = apply({'params': params}, tokens, method=module.hidden).astype(jnp.float32)
            pick = lambda positions: jnp.take_along_axis(hidden, positions[:, :, None], axis=1)
            used = (tokens != PAD_ID)[:, :, None]
            member = jax.nn.one_hot(sentence, _MOST_SENTENCES)  # of no sentence: zeros
            sentences = jnp.einsum('nls,nlh->nsh', member, hidden)
            vectors = jnp.concatenate([(hidden * used).sum(axis=1, keepdims=True), sentences], axis=1)
            return jnp.concatenate([(pick(first) + pick(last)) / 2, unit(vectors)], axis=1).astype(jnp.float16)

        self._batched = BatchedEncoder(encode, encoder.params)
        self._relate = jax.jit(
            lambda params, topic, target, backward: unit(
                apply({'params': params}, topic[:, None], target[:, None], backward, 'span_pair', method=module.relate_spans)
            )
        )

    def relations(self, rows: np.ndarray) -> np.ndarray:
        """The relations of rows of `Prepared.pairs` [n], [n, d_r] float32 of unit length."""
        rows, pairs = np.asarray(rows, np.int64), self._prepared.pairs
        passage, topic, target = (pairs[name][rows] for name in ('passage', 'topic_mention', 'target_mention'))
        self._encode(np.unique(passage))
        first = self._first_mention[passage]
        columns = first + topic, first + target, topic > target
        relations = [np.empty((0, self._encoder.dim), np.float32)]
        for start in range(0, len(rows), PAIRS_PER_BATCH):
            # Of one shape, so that one program is compiled.
            a, b, backward = (np.resize(column[start : start + PAIRS_PER_BATCH], PAIRS_PER_BATCH) for column in columns)
            states = (self._mentions[at].astype(np.float32) for at in (a, b))
            relations.append(np.asarray(self._relate(self._encoder.params, *states, backward)))
        return np.concatenate(relations)[: len(rows)]

    def vectors(self) -> np.ndarray:
        """The vectors of all passages and their sentences, of unit length: [first_vector[-1], hidden_size] float16.

        Those of passage p begin at `first_vector[p]`: its own, and one for each of its `sentence_starts`.
        """
        self._encode(np.arange(len(self._is_encoded)))
        return self._vectors

    def _encode(self, passages: np.ndarray) -> None:
        passages = passages[~self._is_encoded[passages]]
        for start in range(0, len(passages), _READ):
            self._encode_some(passages[start : start + _READ])

    def _encode_some(self, passages: np.ndarray) -> None:
        placed = [self._place(row) for row in self._prepared.passages.take(passages).to_pylist()]

        def make_batch(chosen, size, length):
            tokens = batching.pad_tokens([placed[i][0].tokens for i in chosen], size, length, self._encoder.special)
            first, last = np.zeros((2, size, self._most_mentions), np.int32)
            sentence = np.full((size, length), -1, np.int32)
            for row, i in enumerate(chosen):
                spans, sentences = placed[i]
                first[row, : len(spans.first)], last[row, : len(spans.first)] = spans.first, spans.last
                sentence[row, : len(sentences)] = sentences
            return tokens, first, last, sentence

        lengths = np.array([len(spans.tokens) for spans, _ in placed], np.int64)
        for chosen, found in self._batched(lengths, make_batch):
            for i, row in zip(chosen, found):
                passage = passages[i]
                first, end = self._first_mention[passage : passage + 2]
                self._mentions[first:end] = row[: end - first]
                first, end = self.first_vector[passage : passage + 2]
                at = np.minimum(np.arange(end - first), _MOST_SENTENCES)
                self._vectors[first:end] = row[self._most_mentions + at]
        self._is_encoded[passages] = True

    def _place(self, row: dict) -> tuple[markup.PlacedMentions, np.ndarray]:
        """A passage as input of the encoder, and the sentence of each of its tokens, -1 for [CLS] and [SEP]."""
        mentions = [(m['start'], m['end'], m['entity']) for m in row['mentions']]
        passage, starts = markup.tokenise_sentences(self._encoder.tokenizer, row['text'], mentions, row['sentence_starts'])
        placed = markup.place_mentions(passage, self._encoder.special)
        number = np.searchsorted(starts, np.arange(len(passage.tokens)), side='right') - 1
        inside = np.clip(number, 0, _MOST_SENTENCES - 1)
        return placed, np.concatenate([[-1], inside, [-1]])
