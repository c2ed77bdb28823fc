"""The reader: a cross-encoder that says where in passages the answer to a question stands, if so.

It is the transformer of the relation encoder with one projection of its last layer to six numbers a
token:

    start, end              whether an answer begins, or ends, at the token
    unanswered, yes, no     at [CLS]: that no passage answers, or that the answer is one of these
    supports                at the [SEP] before a passage: whether the passage helps to answer

Whether a begin and an end belong together, the inner product of two more projections says.
"""

from __future__ import annotations

import collections
import functools
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from tokenizers import Tokenizer

from opql_jax.core.checkout import RELEASED_READER
from opql_jax.data import batching
from opql_jax.data import tokenizer as tokenizer_lib
from opql_jax.data.reading import ReadingInput, reading_input
from opql_jax.models import released
from opql_jax.models.encoder_fields import EncoderFields
from opql_jax.models.host_encoder import last_layer, on_host

if TYPE_CHECKING:
    from opql_jax.models.encoder import RelationEncoder

START, END, UNANSWERED, YES, NO, SUPPORTS = range(6)
VERDICTS = slice(UNANSWERED, SUPPORTS)
# Tokens of an input: inputs are filled up to one of these, each of which is compiled. Those of
# several questions are read so many at a time. The first _FEW are read on the host: a process that
# asks once takes longer to compile than to read them.
LENGTHS, _ROWS, _FEW = (128, 256, 448), 4, 8
# The score of a span that cannot answer: large and finite.
MASKED = -1e30
# Tokens of an answer, and answers of a question that are looked at.
LONGEST, _SPANS = 24, 20


class Span(NamedTuple):
    """A place `text[start:end]` in a passage, in code points, and its probability to answer."""

    passage: int
    start: int
    end: int
    probability: float


class Reading(NamedTuple):
    """What the reader found; probabilities of all spans and the three verdicts add up to 1."""

    spans: list[Span]  # the likeliest places of an answer, likeliest first; they may overlap
    unanswered: float  # the probability that the passages do not answer
    yes: float  # that the answer is yes
    no: float  # that it is no
    supports: np.ndarray  # [passages] float32, of each passage the probability that it helps


class ReadLogits(NamedTuple):
    """What the reader computes of n inputs of L tokens, float32.

    An answer and the verdicts exclude each other: one softmax over both gives the probabilities.
    """

    spans: Any  # [n, L, L], of answers by first and last token; MASKED where none can be
    verdicts: Any  # [n, 3]: unanswered, yes, no
    supports: Any  # [n, L], whether the passage after a [SEP] helps


def read_logits(encoder: RelationEncoder, params, tokens, is_text, **options) -> ReadLogits:
    """Reads tokens [n, L] int32, of which those of passages are marked, `is_text` [n, L] bool.

    `params` are `{'encoder', 'reader'}`, and `options` those of `RelationEncoder.hidden`.
    """
    apply: Any = encoder.apply
    hidden = apply({'params': params['encoder']}, tokens, method=encoder.hidden, **options)
    return _logits(hidden.astype(np.float32), params['reader'], is_text)


def _logits(hidden, head, is_text) -> ReadLogits:
    """The logits of the last layer [n, L, hidden_size], of NumPy or JAX."""
    xp = hidden.__array_namespace__()
    columns = hidden @ head['kernel']
    begins, ends = (hidden @ head[name] for name in ('begin_kernel', 'end_kernel'))
    together = begins @ ends.swapaxes(1, 2) / np.float32(np.sqrt(begins.shape[-1]))
    spans = columns[:, :, None, START] + columns[:, None, :, END] + together
    length = hidden.shape[1]
    distance = np.arange(length) - np.arange(length)[:, None]
    # Passages are told apart by the tokens between them, which are not text.
    outside = xp.cumsum(~is_text, axis=1)
    possible = (
        (distance >= 0)
        & (distance < LONGEST)
        & is_text[:, :, None]
        & (outside[:, :, None] == outside[:, None, :])
    )
    return ReadLogits(
        xp.where(possible, spans, MASKED), columns[:, 0, VERDICTS], columns[:, :, SUPPORTS]
    )


@functools.cache
def _compiled():
    import jax

    return jax.jit(read_logits, static_argnums=0)


class Reader:
    """Reads questions with passages."""

    def __init__(self, encoder: EncoderFields | RelationEncoder, params, tokenizer: Tokenizer):
        """Takes an encoder, its parameters `{'encoder', 'reader'}`, and their tokenizer."""
        self.params = params
        self._encoder, self._inputs = encoder, 0
        self._tokenizer = tokenizer
        self._special = tokenizer_lib.special_ids(tokenizer)

    @classmethod
    def load(cls, folder: str | os.PathLike = 'default') -> Reader:
        """Opens a released reader, or gives the open one again; ManifestError if there is none."""
        return _load(os.fspath(RELEASED_READER if folder == 'default' else folder))

    def read(self, questions: Sequence[str], passages: Sequence[Sequence[str]]) -> list[Reading]:
        """Reads questions in plain words, each with passages, best first; the last are cut."""
        inputs = [
            reading_input(
                self._tokenizer, question, texts, self._special, max(LENGTHS), best_first=True
            )
            for question, texts in zip(questions, passages)
        ]
        found: list[Reading | None] = [None] * len(inputs)
        of_length: dict[int, list[int]] = collections.defaultdict(list)
        for i, each in enumerate(inputs):
            of_length[batching.bucket_of(len(each.tokens), LENGTHS)].append(i)
        for length, order in of_length.items():
            for begin in range(0, len(order), _ROWS):
                chosen = order[begin : begin + _ROWS]
                rows = batching.bucket_of(len(chosen), (1, 2, _ROWS))
                tokens = batching.pad_tokens(
                    [inputs[i].tokens for i in chosen], rows, length, self._special
                )
                is_text = batching.pad_rows(
                    [inputs[i].passage >= 0 for i in chosen], rows, (length,), False, bool
                )
                logits = self._logits(tokens, is_text)
                for row, i in enumerate(chosen):
                    found[i] = _reading(inputs[i], ReadLogits(*(each[row] for each in logits)))
        return found  # type: ignore[return-value]

    def _logits(self, tokens: np.ndarray, is_text: np.ndarray) -> ReadLogits:
        """`read_logits`, as NumPy arrays."""
        self._inputs += len(tokens)
        if self._inputs <= _FEW:
            params = on_host(self.params)
            hidden = last_layer(self._encoder, params['encoder'], tokens)
            return _logits(hidden, params['reader'], is_text)
        read = _compiled()(released.module(self._encoder), self._on_device, tokens, is_text)
        return ReadLogits(*map(np.asarray, read))

    @functools.cached_property
    def _on_device(self):
        import jax

        return jax.device_put(self.params)


def mean(reading: Reading, first: Reading) -> Reading:
    """The mean of what was read in several passages, and of that in the first of them alone."""
    probabilities: dict[tuple[int, int, int], float] = collections.defaultdict(float)
    for span in (*reading.spans, *first.spans):
        probabilities[span[:3]] += span.probability / 2
    spans = [Span(*place, probability) for place, probability in probabilities.items()]
    return reading._replace(
        spans=sorted(spans, key=lambda span: -span.probability),
        unanswered=(reading.unanswered + first.unanswered) / 2,
        yes=(reading.yes + first.yes) / 2,
        no=(reading.no + first.no) / 2,
    )


@functools.cache
def _load(folder: str) -> Reader:
    encoder, params, tokenizer = released.read(folder, released.READER_FORMAT)
    head = params.pop('reader')
    return Reader(encoder, {'encoder': params, 'reader': head}, tokenizer)


def _reading(read: ReadingInput, logits: ReadLogits) -> Reading:
    """What the logits of one input say: [L, L], [3] and [L]."""
    first, last = np.nonzero(logits.spans > MASKED / 2)
    chosen = np.concatenate([logits.verdicts, logits.spans[first, last]])
    weights = np.exp(chosen - chosen.max())
    shares = weights / weights.sum()
    best = np.argsort(-shares[3:], kind='stable')[:_SPANS]
    spans = [
        Span(int(read.passage[a]), int(read.start[a]), int(read.end[b]), float(shares[3 + i]))
        for i, a, b in zip(best.tolist(), first[best], last[best])
    ]
    supports = 1 / (1 + np.exp(-logits.supports[read.first]))
    unanswered, yes, no = shares[:3].tolist()
    return Reading(spans, unanswered, yes, no, supports.astype(np.float32))
