"""Encodes passages once: what mentions say of each other, and vectors of sentences.

`encode_batch` is a pure function of record batches, which a loop or a cluster may map. Results are
kept on disk by passage until the knowledge base answers, so that a killed run encodes none twice.
Passages that another version of the text has, too, are taken over from it (`StoredPassages`).
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import pathlib
from typing import Any, NamedTuple

import jax
import numpy as np
import pyarrow as pa

from opql_jax.core import files
from opql_jax.core.arrays import SCALE_BYTES, packed, unpacked
from opql_jax.core.batch_cache import MapBatches, map_rows_cached
from opql_jax.core.errors import InputError
from opql_jax.core.hashing import params_hash
from opql_jax.core.progress import logged
from opql_jax.core.ranges import ranges
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
        sums = np.stack([states.sum(0), *(states[first:end].sum(0) for first, end in sentences)])
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


def digest(encoder: TextEncoder) -> str:
    """Hex SHA-256 of all that results depend on besides the text."""
    depends = f'{_VERSION}\n{params_hash(encoder.params)}\n{encoder.tokenizer.to_str()}'
    kinds_bytes = encoder.kinds.to_bytes() if encoder.kinds else b''
    return hashlib.sha256(depends.encode() + kinds_bytes).hexdigest()


@functools.partial(jax.jit, static_argnums=0)
def _halves(encoder, params, mentions):
    return encoder.apply({'params': params}, mentions, method=encoder.halves)


class StoredPassages(NamedTuple):
    """What a version of a knowledge base holds of its passages, by an encoder of one `digest`."""

    text: PassageEncoder  # its passages, which are not encoded again
    halves: np.ndarray  # as of `PassageEncoder.halves`, of the mentions of its pairs, in order
    kinds: np.ndarray  # as of `mention_kinds`
    vectors: np.ndarray  # as of `vectors`, to 8 bits a number


class PassageEncoder:
    """The passages of prepared text under a released encoder, all encoded when first needed.

    Holds a vector of each mention and sentence, in 8 bits a number. `pairs` [rows, 2] are the
    mentions of each pair, numbered over all passages; those of a passage begin at `first_mention`
    [passages + 1], its rows of `vectors` at `first_vector`.
    """

    def __init__(
        self,
        encoder: TextEncoder,
        prepared: Prepared,
        rows: np.ndarray,
        parts: pathlib.Path,
        map_batches: MapBatches = map,
        stored: StoredPassages | None = None,
    ):
        """Takes text prepared with the encoder's tokenizer.

        The encoder was opened from its folder if `map_batches`, which runs `encode_batch`, sends it
        to other processes. Mentions of `rows` of `Prepared.pairs` need halves. The folder `parts`,
        made if need be, keeps what was encoded of each passage, and none of an encoder of another
        `digest`. Passages are taken over from `stored`, if any.
        """
        self._encoder = encoder
        self._prepared = prepared
        self._parts = parts
        self._map_batches = map_batches
        self._stored = stored
        passages = prepared.passages
        count = lambda column: np.array([len(row) for row in passages[column]], np.int64)
        self.first_mention, self.first_vector = (
            np.append(0, np.cumsum(counts))
            for counts in (count('mentions'), 1 + count('sentence_starts'))
        )
        self._passage_of_pair, topic, target = (
            prepared.pairs[name][rows] for name in ('passage', 'topic_mention', 'target_mention')
        )
        first = self.first_mention[self._passage_of_pair].astype(np.int32)
        self.pairs = np.stack([first + topic, first + target], axis=1)

    def halves(self, mentions: np.ndarray) -> np.ndarray:
        """What mentions [n] add to relations (`RelationEncoder.halves`): [n, 2, d_r + 4] int8."""
        found = np.empty((len(mentions), 2, self._encoder.dim + SCALE_BYTES), np.int8)
        stored = self._from_stored[1][mentions]
        if self._stored:
            found[stored >= 0] = self._stored.halves[stored[stored >= 0]]
        new = np.flatnonzero(stored < 0)
        for start in range(0, len(new), MENTIONS_PER_BATCH):
            some = new[start : start + MENTIONS_PER_BATCH]
            # Of one shape, so that one program is compiled.
            batch = np.resize(mentions[some], MENTIONS_PER_BATCH)
            states = self._encoded[0][batch].astype(np.float32)
            halves = _halves(self._encoder.module, self._encoder.on_device, states)
            found[some] = packed(np.asarray(halves)[: len(some)])
        return found

    def vectors(self) -> np.ndarray:
        """Unit vectors [first_vector[-1], hidden_size] float16: each passage and its sentences."""
        return self._encoded[2]

    def mention_kinds(self) -> np.ndarray:
        """[mentions, 4] float16, log-probabilities of KINDS; zeros if the encoder has no kinds."""
        return self._encoded[1]

    def kinds(self) -> list[str]:
        """The kind of each entity, by the recogniser and, if the encoder has kinds, mentions."""
        vocab = self._prepared.vocab
        if not self._encoder.kinds:
            return vocab.kinds
        entities = self._prepared.passages['mentions'].combine_chunks().flatten().field('entity')
        mentioned = entities.to_numpy().astype(np.int64)
        return kinds_of_entities(self.mention_kinds(), mentioned, vocab.kinds, vocab.names)

    def _contents(self) -> pa.Table:
        """What is encoded: passages without entities, which another version may number anew."""
        passages = self._prepared.passages
        lists = passages['mentions'].combine_chunks()
        spans = pa.StructArray.from_arrays(
            [lists.flatten().field(name) for name in ('start', 'end')], ['start', 'end']
        )
        mentions = pa.ListArray.from_arrays(lists.offsets, spans)
        return (
            passages.select(['text', 'sentence_starts'])
            .append_column('mentions', mentions)
            .combine_chunks()
        )

    @functools.cached_property
    def _from_stored(self) -> tuple[np.ndarray, np.ndarray]:
        """Each passage's row in the stored text, each mention's of its halves; -1 if not there."""
        passages = np.full(len(self.first_mention) - 1, -1)
        halves = np.full(self.first_mention[-1], -1)
        if stored := self._stored:
            before = stored.text
            contents = lambda text: map(str, text._contents().to_pylist())
            numbers = {each: number for number, each in enumerate(contents(before))}
            passages = np.array([numbers.get(each, -1) for each in contents(self)])
            of_pairs, halves_before = np.unique(before.pairs), np.full(before.first_mention[-1], -1)
            halves_before[of_pairs] = np.arange(len(of_pairs))
            kept = np.flatnonzero(passages >= 0)
            halves[_places(self.first_mention, kept)] = halves_before[
                _places(before.first_mention, passages[kept])
            ]
            # A mention may be of a pair for the first time, as names mean something else by now.
            lacking = (halves[self.pairs] < 0).any(axis=1)
            passages[self._passage_of_pair[lacking]] = -1
        return passages, halves

    @functools.cached_property
    def _encoded(self) -> tuple[np.ndarray, ...]:
        """What is `ENCODED` of all passages, float16; no vectors of mentions of stored ones.

        InputError: the text was prepared with another tokenizer.
        """
        encoder, size = self._encoder, self._encoder.fields.hidden_size
        if encoder.tokenizer.get_vocab() != self._prepared.tokenizer.get_vocab():
            raise InputError(
                f'{self._prepared.directory} was prepared with another tokenizer than that of the '
                'encoder: prepare it again'
            )
        self._parts.mkdir(parents=True, exist_ok=True)
        files.remove_partials(self._parts, '*.arrow')
        first = self.first_mention, self.first_mention, self.first_vector
        widths = size, len(KINDS), size
        whole = tuple(np.zeros((f[-1], width), np.float16) for f, width in zip(first, widths))
        numbers = self._from_stored[0]
        new, kept = np.flatnonzero(numbers < 0), np.flatnonzero(numbers >= 0)
        if stored := self._stored:
            before = stored.text.first_mention, stored.text.first_vector
            for rows, f, known, f_before in zip(whole[1:], first[1:], stored[2:], before):
                rows[_places(f, kept)] = known[_places(f_before, numbers[kept])]
        places, filled = [_places(f, new) for f in first], [0] * len(whole)
        batches = self._contents().take(new).combine_chunks().to_batches(BATCH_PASSAGES)
        stage = functools.partial(encode_batch, encoder=encoder)
        found_by_batch = map_rows_cached(self._map_batches, stage, ENCODED, self._parts, batches)
        for encoded in logged(found_by_batch, len(new), 'passages encoded'):
            contents = [b''.join(column.to_pylist()) for column in encoded.columns]
            mentions, vectors = (
                unpacked(np.frombuffer(content, np.int8).reshape(-1, size + SCALE_BYTES))
                for content in contents[::2]
            )
            kinds = np.frombuffer(contents[1], '<f2').reshape(-1, len(KINDS))
            for side, found in enumerate((mentions, kinds, vectors)):
                start, filled[side] = filled[side], filled[side] + len(found)
                whole[side][places[side][start : filled[side]]] = found
        assert filled == [*map(len, places)]
        return whole


def _places(first: np.ndarray, passages: np.ndarray) -> np.ndarray:
    """The rows of passages, one after the other; those of passage p begin at `first[p]`."""
    return ranges(first[passages], np.diff(first)[passages])[1]
