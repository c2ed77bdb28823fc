"""The reader: a cross-encoder that says where in passages the answer to a question stands, if so.

It is the transformer of the relation encoder with one projection of its last layer to six numbers a
token:

    start, end              whether an answer begins, or ends, at the token
    unanswered, yes, no     at [CLS]: that no passage answers, or that the answer is one of these
    supports                at the [SEP] before a passage: whether the passage helps to answer
"""

from __future__ import annotations

import collections
import functools
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from tokenizers import Tokenizer

from opql_jax.core.checkout import RELEASED_READER
from opql_jax.data import batching
from opql_jax.data import tokenizer as tokenizer_lib
from opql_jax.data.reading import ReadingInput, reading_input
from opql_jax.models import released
from opql_jax.models.encoder import RelationEncoder

START, END, UNANSWERED, YES, NO, SUPPORTS = range(6)
VERDICTS = slice(UNANSWERED, SUPPORTS)
# Tokens of an input: inputs are filled up to one of these, each of which is compiled. Those of
# several questions are read so many at a time.
LENGTHS, _ROWS = (128, 256, 448), 4
# Tokens of an answer, answers of a question that are looked at, and first and last tokens that
# these are made of.
_LONGEST, _SPANS, _ENDS = 24, 20, 24


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


def read_logits(encoder: RelationEncoder, params, tokens, **options):
    """Logits [n, L, 6] float32 of tokens [n, L] int32; `options` as of `RelationEncoder.hidden`."""
    apply: Any = encoder.apply
    hidden = apply({'params': params['encoder']}, tokens, method=encoder.hidden, **options).astype(
        jnp.float32
    )
    return hidden @ params['reader']['kernel']


_jitted_logits = jax.jit(read_logits, static_argnums=0)


class Reader:
    """Reads questions with passages."""

    def __init__(self, encoder: RelationEncoder, params, tokenizer: Tokenizer):
        """Takes the module, its parameters `{'encoder', 'reader'}`, and their tokenizer."""
        self.params = params
        self._tokenizer = tokenizer
        self._special = tokenizer_lib.special_ids(tokenizer)
        self._logits = functools.partial(_jitted_logits, encoder)

    @classmethod
    def load(cls, folder: str | os.PathLike = 'default') -> Reader:
        """Opens a released reader, 'default' for this package's; ManifestError if there is none.

        One that is open in this program is given again, with all that it has compiled.
        """
        return _load(os.fspath(RELEASED_READER if folder == 'default' else folder))

    def read(self, questions: Sequence[str], passages: Sequence[Sequence[str]]) -> list[Reading]:
        """Reads each question, in plain words, with its passages.

        These are texts, best first, see `data.reading.titled`; of what is too long together the
        last are cut.
        """
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
                for i, logits in zip(chosen, np.asarray(self._logits(self.params, tokens))):
                    found[i] = _reading(inputs[i], logits)
        return found  # type: ignore[return-value]


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


def _reading(read: ReadingInput, logits: np.ndarray) -> Reading:
    """What logits [L, 6] of an input say."""
    text = np.flatnonzero(read.passage >= 0)
    ends = []
    for way in (START, END):
        all_logits = np.concatenate([logits[0, VERDICTS], logits[text, way]])
        ends.append(_softmax(all_logits))
    start, end = ends
    first = text[np.argsort(-start[3:], kind='stable')[:_ENDS]]
    last = text[np.argsort(-end[3:], kind='stable')[:_ENDS]]
    log = lambda column: np.log(column + 1e-30)
    of_token = np.zeros((2, len(read.tokens)))
    of_token[:, text] = log(start[3:]), log(end[3:])
    a, b = np.meshgrid(first, last, indexing='ij')
    whole = (a <= b) & (b < a + _LONGEST) & (read.passage[a] == read.passage[b])
    a, b = a[whole], b[whole]
    # As probable as both ends are together; the verdicts likewise.
    scores = of_token[0, a] + of_token[1, b]
    verdicts = log(start[:3]) + log(end[:3])
    shares = _softmax(np.concatenate([verdicts, scores]))
    best = np.argsort(-scores, kind='stable')[:_SPANS]
    spans = []
    for i in best.tolist():
        passage, start, end = int(read.passage[a[i]]), int(read.start[a[i]]), int(read.end[b[i]])
        spans.append(Span(passage, start, end, float(shares[3 + i])))
    supports = 1 / (1 + np.exp(-logits[read.first, SUPPORTS]))
    unanswered, yes, no = shares[:3].tolist()
    return Reading(spans, unanswered, yes, no, supports.astype(np.float32))


def _softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()
