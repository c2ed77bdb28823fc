"""A relation encoder for any English text: `load_encoder('default').encode_pairs(texts, ...)`.

A passage is encoded once, with its names. The relation of two of its mentions is read off their
spans (`RelationEncoder.relate_spans`), that of a question off its marked topic and unknown answer
(`markup.mark_questions`). Their inner product, both of unit length, says how well a pair answers.
"""

import functools
import itertools
import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from tokenizers import Tokenizer

from opql_jax.core.errors import InputError
from opql_jax.core.hashing import params_hash
from opql_jax.corpus.json_lines import short_repr
from opql_jax.data import batching, markup
from opql_jax.data import tokenizer as tokenizer_lib
from opql_jax.models import released
from opql_jax.models.encoder_fields import PAD_ID, EncoderFields
from opql_jax.models.host_encoder import last_layer, on_host, unit
from opql_jax.models.mention_kinds import MentionKinds

if TYPE_CHECKING:
    from opql_jax.models.bulk_encoding import BatchedEncoder
    from opql_jax.models.encoder import RelationEncoder

# Questions encoded at a time.
_ROWS = 16
# Tokens around a pair that are read of a longer text.
_WINDOW = max(batching.BUCKET_LENGTHS) - 2

CharacterSpan = tuple[int, int]

# The encoders that somebody uses, by their folders and the state of their files.
_OPEN: weakref.WeakValueDictionary[tuple, 'TextEncoder'] = weakref.WeakValueDictionary()
_LOADING = threading.Lock()


class TextEncoder:
    """Relations of pairs and of questions, and vectors of texts.

    `dim` is d_r, the length of a relation, `special` the ids of the tokenizer's markers, and
    `kinds` what tells the kinds of mentions; None if the encoder came without.
    """

    def __init__(self, encoder: 'EncoderFields | RelationEncoder', params, tokenizer: Tokenizer):
        """Takes an encoder, its parameters, and the tokenizer that they were trained with."""
        self.fields, self.params, self.dim = encoder, params, encoder.relation_dim
        self.tokenizer, self.special = tokenizer, tokenizer_lib.special_ids(tokenizer)
        self.kinds: MentionKinds | None = None
        self._folder: str | None = None

    @classmethod
    def load(cls, folder: str | os.PathLike = 'default') -> 'TextEncoder':
        """Opens a released encoder, 'default' for ours, or shares an open one; else InputError."""
        path = released.path_of(folder)
        name = os.fspath(folder) if folder == 'default' else os.path.abspath(folder)
        with _LOADING:
            state = name, released.state(path)
            if (encoder := _OPEN.get(state)) is None:
                encoder = cls(*released.read(path))
                encoder.kinds, encoder._folder = released.read_kinds(path), name
                _OPEN[state] = encoder
        return encoder

    def __reduce__(self):
        """Another process, here or elsewhere, opens this encoder's folder once."""
        if self._folder is None:
            raise TypeError(
                'this encoder was not opened from a folder, so that no other process can have it'
            )
        return _load_same, (self._folder, params_hash(self.params))

    def token_states(self, rows: Sequence[np.ndarray]) -> Iterator[tuple[int, np.ndarray]]:
        """The last layer over rows, in any order: row number, [tokens, hidden_size] float32."""
        from opql_jax.models.bulk_encoding import token_rows

        for chosen, states in self._states(*token_rows(rows, self.special)):
            for i, of_row in zip(chosen, states):
                yield int(i), of_row[: len(rows[i])]

    @functools.cached_property
    def module(self) -> 'RelationEncoder':
        """The encoder, for JAX."""
        return released.module(self.fields)

    @functools.cached_property
    def on_device(self):
        """The parameters on JAX's device."""
        import jax  # as in what follows, where more is encoded than a question

        return jax.device_put(self.params)

    @functools.cached_property
    def _states(self) -> 'BatchedEncoder':
        from opql_jax.models.bulk_encoding import BatchedEncoder, last_layer

        return BatchedEncoder(last_layer, self.module, self.params)

    @functools.cached_property
    def _relate(self) -> 'BatchedEncoder':
        from opql_jax.models.bulk_encoding import BatchedEncoder, span_relations

        return BatchedEncoder(span_relations, self.module, self.params)

    def encode_pairs(
        self,
        texts: Sequence[str],
        topic_spans: Sequence[CharacterSpan],
        target_spans: Sequence[CharacterSpan],
    ) -> np.ndarray:
        """What sentences or passages say of a target to a topic: [n, d_r] float32, of unit length.

        The spans are the characters `(start, end)` of the two mentions in each text, half-open;
        they do not overlap. Of a long text the tokens around the pair are read. InputError: a span
        is empty, outside of its text or overlaps the other; names the text by its number.
        """
        from opql_jax.models.bulk_encoding import token_rows

        given = _rows(texts, topic_spans=topic_spans, target_spans=target_spans)
        rows = [self._place(number, *row) for number, row in enumerate(given)]

        tokens, *ends = zip(*rows) if rows else [()] * 3
        first, last = (np.array(end, np.int32).reshape(-1, 2) for end in ends)
        backward = first[:, 0] > first[:, 1]
        batches = token_rows(tokens, self.special, first, last, backward)
        return self._relate.all(*batches, self.dim)

    def encode_questions(
        self, texts: Sequence[str], topic_spans: Sequence[CharacterSpan]
    ) -> np.ndarray:
        """What questions ask about their topics, comparable with `encode_pairs`.

        `topic_spans` are the characters `(start, end)` of the topic in each, half-open. Returns [n,
        d_r] float32, of unit length. InputError: a span is empty or outside of its question, or a
        question is longer than the encoder reads.
        """
        return self._encode(self._questions(texts, topic_spans))[1]

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Unit means [n, hidden_size] float32 of the last layer over the first tokens of texts."""
        return self._encode(self._texts(texts))[0]

    def encode_texts_and_topics(
        self, texts: Sequence[str], topic_spans: Sequence[Sequence[CharacterSpan]]
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """The vectors of `encode_texts`, and of each the relations of `encode_questions`, at once.

        `topic_spans` has for each question the characters `(start, end)` of its topics. Returns [n,
        hidden_size], and for each question [topics, d_r]; raises as `encode_questions` does.
        """
        pairs = [
            (text, span) for text, spans in _rows(texts, topic_spans=topic_spans) for span in spans
        ]
        marked = self._questions([text for text, _ in pairs], [span for _, span in pairs])
        vectors, relations = self._encode(self._texts(texts) + marked)
        first = np.cumsum([len(texts), *map(len, topic_spans)])
        return vectors[: len(texts)], [relations[a:b] for a, b in itertools.pairwise(first)]

    def _texts(self, texts: Sequence[str]) -> list[markup.MarkedQuestion]:
        """Texts as `_encode` takes them, with no topic."""
        _check_texts(texts)
        encodings = self.tokenizer.encode_batch(list(texts), add_special_tokens=False)
        cls, sep = self.special.cls, self.special.sep
        rows = ([cls, *encoding.ids[:_WINDOW], sep] for encoding in encodings)
        return [markup.MarkedQuestion(np.array(row, np.int32), 0, 0) for row in rows]

    def _questions(
        self, texts: Sequence[str], topic_spans: Sequence[CharacterSpan]
    ) -> list[markup.MarkedQuestion]:
        """Questions, each with its topic marked; raises as `encode_questions` does."""
        for number, (text, span) in enumerate(_rows(texts, topic_spans=topic_spans)):
            _check_span(number, 'topic_spans', text, span)
        marked = markup.mark_questions(self.tokenizer, texts, topic_spans, self.special)
        longest = max((len(question.tokens) for question in marked), default=0)
        if longest > (most := self.fields.max_length):
            raise InputError(
                f'a question has {longest} tokens, at most {most} are read: shorten it'
            )
        return marked

    def _encode(self, rows: Sequence[markup.MarkedQuestion]) -> tuple[np.ndarray, np.ndarray]:
        """The last layer's means [n, hidden_size], and the marked relations [n, d_r], of rows."""
        size = self.fields.hidden_size
        means = np.empty((len(rows), size), np.float32)
        relations = np.empty((len(rows), self.dim), np.float32)
        by_length = np.argsort([len(row.tokens) for row in rows], kind='stable')
        for start in range(0, len(rows), _ROWS):
            chosen = by_length[start : start + _ROWS]
            some = [rows[i] for i in chosen]
            tokens = batching.pad_tokens(
                [row.tokens for row in some], len(some), len(some[-1].tokens), self.special
            )
            hidden = last_layer(self.fields, self._on_host, tokens)
            means[chosen] = unit((hidden * (tokens != PAD_ID)[:, :, None]).sum(axis=1))
            ends = hidden[np.arange(len(some))[:, None], [(row.r1, row.r2) for row in some]]
            asked = ends.reshape(len(some), 2 * size) @ self._on_host['w_r']['kernel']
            relations[chosen] = unit(asked)
        return means, relations

    @functools.cached_property
    def _on_host(self):
        return on_host(self.params)

    def _place(self, number: int, text: str, topic: CharacterSpan, target: CharacterSpan):
        """The tokens of a pair's text, and the first [2] and last [2] ones of topic and target."""
        for name, span in (('topic_spans', topic), ('target_spans', target)):
            _check_span(number, name, text, span)
        if topic[0] < target[1] and target[0] < topic[1]:
            raise InputError(f'text {number}: topic {topic} and target {target} overlap')
        passage = markup.tokenise_pair(self.tokenizer, text, topic, target)
        placed = markup.place_mentions(markup.around_pair(passage, _WINDOW), self.special)
        order = [0, 1] if topic < target else [1, 0]
        return placed.tokens, placed.first[order], placed.last[order]


@functools.cache
def _load_same(folder: str, expected: str) -> TextEncoder:
    """The encoder in a folder; InputError unless its parameters have the hash that is expected."""
    encoder = TextEncoder.load(folder)
    if params_hash(encoder.params) != expected:
        raise InputError(
            f'encoder {folder}: not the same here as where the run was '
            'started: give all machines the same'
        )
    return encoder


def _rows(texts, **spans):
    """Each text with its spans; InputError if these are no lists, or not as many of each."""
    _check_texts(texts)
    for name, column in spans.items():
        if isinstance(column, str) or not hasattr(column, '__len__'):
            raise InputError(f'{name}: expected a list of (start, end), found {short_repr(column)}')
        if len(column) != len(texts):
            raise InputError(f'{name}: {len(column)} for {len(texts)} texts')
    return zip(texts, *spans.values())


def _check_texts(texts) -> None:
    if isinstance(texts, str) or not hasattr(texts, '__len__'):
        raise InputError(f'texts: expected a list of strings, found {short_repr(texts)}')
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f'texts: text {number}: expected a string, found {short_repr(text)}')


def _check_span(number: int, name: str, text: str, span: CharacterSpan) -> None:
    is_pair = (
        hasattr(span, '__len__')
        and len(span) == 2
        and all(isinstance(place, int | np.integer) for place in span)
    )
    if not is_pair:
        raise InputError(
            f'{name}: text {number}: expected (start, end), two integers, found {short_repr(span)}'
        )
    if not 0 <= span[0] < span[1] <= len(text):
        raise InputError(
            f'{name}: text {number} has {len(text)} characters, and no span {tuple(span)}'
        )
