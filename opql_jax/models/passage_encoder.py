"""Encodes passages once: what mentions say of each other, and vectors of sentences.

`encode_batch` is a pure function of record batches, which a loop or a cluster may map. Results are
kept on disk by passage, so that none is encoded twice after a kill or a change of others.
"""

import functools
import hashlib
import itertools
import pathlib
from typing import Any

import jax
import numpy as np
import pyarrow as pa

from opql_jax.core import files
from opql_jax.core.arrays import SCALE_BYTES, packed, unpacked
from opql_jax.core.batch_cache import MapBatches, map_rows_cached
from opql_jax.core.errors import InputError
from opql_jax.core.hashing import params_hash
from opql_jax.core.progress import logged
from opql_jax.data import markup
from opql_jax.data.prepared import Prepared
from opql_jax.models.mention_kinds import KINDS, kinds_of_entities
from opql_jax.models.text_encoder import TextEncoder

# Passages encoded at a time, and mentions whose halves are computed at a time.
BATCH_PASSAGES, MENTIONS_PER_BATCH = 1 << 10, 1 << 12
# To be raised when the same passages get other vectors.
_VERSION = 2
# Of each passage the vectors of its mentions, packed rows [n, hidden_size + 4] (`core.arrays`);
# the log-probabilities [n, 4] float16 of their kinds by the whole vectors, as packed ones give
# others; and the vectors of itself and of its sentences, packed.
ENCODED = pa.schema([(name, pa.binary()) for name in ('mentions', 'kinds', 'vectors')])


def vectors_of(batch: pa.RecordBatch, encoder: TextEncoder) -> list[tuple[np.ndarray, np.ndarray]]:
    """Of each passage the vectors of its mentions, and those of itself and its sentences.

    All are [n, hidden_size] float32; those of the passage and its sentences have unit length. The
    batch has `text`, `sentence_starts` and `mentions` of `tables.PASSAGES`.
    """
    placed = [_place(row, encoder) for row in batch.to_pylist()]
    found: list[Any] = [None] * len(placed)
    for i, states in encoder.token_states([spans.tokens for spans, _ in placed]):
        spans, sentences = placed[i]
        mentions = (states[spans.first] + states[spans.last]) / 2
        sums = np.stack(
            [states.sum(axis=0), *(states[first:end].sum(axis=0) for first, end in sentences)]
        )
        found[i] = mentions, sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9)
    return found


def encode_batch(batch: pa.RecordBatch, encoder: TextEncoder) -> pa.RecordBatch:
    """What is `ENCODED` of a batch, see `vectors_of`."""
    encoded = []
    for mentions, vectors in vectors_of(batch, encoder):
        kinds = np.zeros((len(mentions), len(KINDS)))
        if encoder.kinds:
            kinds = encoder.kinds.log_probabilities(mentions)
        rows = packed(mentions), kinds.astype('<f2'), packed(vectors)
        encoded.append([array.tobytes() for array in rows])
    columns = zip(*encoded) if encoded else [[]] * len(ENCODED)
    arrays = [pa.array(column, pa.binary()) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=ENCODED)


def _place(row: dict, encoder: TextEncoder) -> tuple[markup.PlacedMentions, list[tuple[int, int]]]:
    """A passage as the encoder's input, and the tokens `[first, end)` of each sentence."""
    mentions = [(m['start'], m['end'], 0) for m in row['mentions']]  # whichever entities they are
    passage, starts = markup.tokenise_sentences(
        encoder.tokenizer, row['text'], mentions, row['sentence_starts']
    )
    borders = [1 + int(start) for start in [*starts, len(passage.tokens)]]  # after [CLS]
    return markup.place_mentions(passage, encoder.special), list(itertools.pairwise(borders))


@functools.partial(jax.jit, static_argnums=0)
def _halves(encoder, params, mentions):
    return encoder.apply({'params': params}, mentions, method=encoder.halves)


class PassageEncoder:
    """The passages of prepared text under a released encoder, all encoded when first needed.

    Holds a vector of each mention and each sentence: [hidden_size], in 8 bits a number.

    Attributes:
        first_vector: [passages + 1], where the rows of each passage begin in `vectors`.
    """

    def __init__(
        self,
        encoder: TextEncoder,
        prepared: Prepared,
        parts: pathlib.Path,
        map_batches: MapBatches = map,
    ):
        """Takes text prepared with the encoder's tokenizer; InputError for another one.

        Args:
            encoder: a released one, opened from its folder if `map_batches` sends it to other
                processes.
            prepared: the text.
            parts: a folder, made if need be, that keeps what was encoded of each passage.
            map_batches: what runs `encode_batch`; this process if not given.
        """
        if encoder.tokenizer.get_vocab() != prepared.tokenizer.get_vocab():
            raise InputError(
                f'{prepared.directory} was prepared with another tokenizer than that of the '
                'encoder: prepare it again'
            )
        self._encoder = encoder
        self._prepared = prepared
        self._parts = parts
        self._map_batches = map_batches
        passages = prepared.passages
        count = lambda column: np.array([len(row) for row in passages[column]], np.int64)
        self._first_mention, self.first_vector = (
            np.append(0, np.cumsum(counts))
            for counts in (count('mentions'), 1 + count('sentence_starts'))
        )

    def pairs(self, rows: np.ndarray) -> np.ndarray:
        """Numbers, over all passages, of the mentions of rows [n] of `Prepared.pairs`: [n, 2]."""
        passage, topic, target = (
            self._prepared.pairs[name][rows]
            for name in ('passage', 'topic_mention', 'target_mention')
        )
        first = self._first_mention[passage].astype(np.int32)
        return np.stack([first + topic, first + target], axis=1)

    def halves(self, mentions: np.ndarray) -> np.ndarray:
        """What mentions [n] add to relations, [n, 2, d_r] float32: `RelationEncoder.halves`."""
        found = [np.empty((0, 2, self._encoder.dim), np.float32)]
        for start in range(0, len(mentions), MENTIONS_PER_BATCH):
            # Of one shape, so that one program is compiled.
            batch = np.resize(mentions[start : start + MENTIONS_PER_BATCH], MENTIONS_PER_BATCH)
            states = self._encoded[0][batch].astype(np.float32)
            found.append(np.asarray(_halves(self._encoder.module, self._encoder.params, states)))
        return np.concatenate(found)[: len(mentions)]

    def vectors(self) -> np.ndarray:
        """Unit vectors of all passages and sentences: [first_vector[-1], hidden_size] float16.

        Those of passage p begin at `first_vector[p]`: its own, and one for each of its
        `sentence_starts`.
        """
        return self._encoded[2]

    def kinds(self) -> list[str]:
        """The kind of each entity, by the recogniser and, if the encoder has kinds, mentions."""
        vocab = self._prepared.vocab
        if not self._encoder.kinds:
            return vocab.kinds
        entities = self._prepared.passages['mentions'].combine_chunks().flatten().field('entity')
        mentioned = entities.to_numpy().astype(np.int64)
        return kinds_of_entities(self._encoded[1], mentioned, vocab.kinds, vocab.names)

    @functools.cached_property
    def _encoded(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What is `ENCODED` of all passages, float16."""
        encoder, size = self._encoder, self._encoder.module.hidden_size
        depends = f'{_VERSION}\n{params_hash(encoder.params)}\n{encoder.tokenizer.to_str()}'
        kinds_bytes = encoder.kinds.to_bytes() if encoder.kinds else b''
        digest = hashlib.sha256(depends.encode() + kinds_bytes).hexdigest()
        folder = files.below(self._parts, digest)
        folder.mkdir(parents=True, exist_ok=True)
        files.remove_partials(folder, '*.arrow')
        passages = self._prepared.passages
        lists = passages['mentions'].combine_chunks()
        # Without their entities, whose numbers another version of the text may change.
        spans = pa.StructArray.from_arrays(
            [lists.flatten().field(name) for name in ('start', 'end')], ['start', 'end']
        )
        mentions = pa.ListArray.from_arrays(lists.offsets, spans)
        table = (
            passages.select(['text', 'sentence_starts'])
            .append_column('mentions', mentions)
            .combine_chunks()
        )
        batches = table.to_batches(BATCH_PASSAGES)
        whole = (
            np.empty((self._first_mention[-1], size), np.float16),
            np.empty((self._first_mention[-1], len(KINDS)), np.float16),
            np.empty((self.first_vector[-1], size), np.float16),
        )
        filled = [0] * len(whole)
        stage = functools.partial(encode_batch, encoder=encoder)
        found_by_batch = map_rows_cached(self._map_batches, stage, ENCODED, folder, batches)
        for encoded in logged(found_by_batch, len(table), 'passages encoded'):
            contents = [b''.join(column.to_pylist()) for column in encoded.columns]
            mentions, vectors = (
                unpacked(np.frombuffer(content, np.int8).reshape(-1, size + SCALE_BYTES))
                for content in contents[::2]
            )
            kinds = np.frombuffer(contents[1], '<f2').reshape(-1, len(KINDS))
            for side, (rows, found) in enumerate(zip(whole, (mentions, kinds, vectors))):
                rows[filled[side] : filled[side] + len(found)] = found
                filled[side] += len(found)
        assert filled == [len(rows) for rows in whole]
        return whole
