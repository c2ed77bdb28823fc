"""Batches for the reader: questions with passages, and where in these the answers stand."""

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.data import batching
from opql_jax.data.prepared import Prepared
from opql_jax.data.questions import EpochOrder
from opql_jax.data.reading import ReadingInput, reading_input
from opql_jax.data.reading_examples import NO, YES, ReadingExample, read_examples
from opql_jax.data.sources.base import Source

# The passages that an input has at most.
MOST_PASSAGES = 8


class ReadingBucket(NamedTuple):
    """n inputs of at most L tokens, with P passages each."""

    tokens: np.ndarray  # [n, L] int32
    is_text: np.ndarray  # [n, L] bool, tokens of passages
    start: np.ndarray  # [n, L] bool, the first tokens of answers
    end: np.ndarray  # [n, L] bool, their last tokens
    # [n] int32: 0 the passages do not answer, 1 yes, 2 no, 3 they answer by spans; -1 in unused
    # rows.
    verdict: np.ndarray
    first: np.ndarray  # [n, P] int32, the [SEP] before each passage
    supports: np.ndarray  # [n, P] float32, whether the passage helps; -1 unknown or no passage


class ReadingBatch(NamedTuple):
    """Inputs by length."""

    inputs: tuple[ReadingBucket, ...]


UNANSWERED, SAYS_YES, SAYS_NO, BY_SPANS = range(4)


@dataclasses.dataclass(frozen=True)
class ReadingSettings:
    """Which examples make a batch.

    Attributes:
        examples: a file of `data.reading_examples`.
        rows: inputs of each length in a batch, by their greatest number of tokens; of about equal
            cost together.
    """

    examples: str = ''
    rows: Mapping[int, int] = dataclasses.field(default_factory=lambda: {96: 16, 192: 8, 448: 4})


class ReadingSource(Source):
    """Takes all examples in turn, each in the shortest bucket that holds it."""

    def __init__(self, prepared: Prepared, settings: ReadingSettings, seed: int = 0):
        """Reads the examples; InputError if there is none, or no length."""
        super().__init__(seed)
        if not settings.rows:
            raise InputError('rows: empty: give the number of inputs of each length')
        self._special = prepared.special
        self._rows = dict(sorted((int(n), int(count)) for n, count in settings.rows.items()))
        longest = max(self._rows)
        self._examples = list(read_examples(settings.examples))
        read = lambda example: reading_input(
            prepared.tokenizer, example.question, example.passages, self._special, longest
        )
        self._inputs = [read(example) for example in self._examples]
        lengths = np.array([len(found.tokens) for found in self._inputs])
        shortest = np.searchsorted(list(self._rows), lengths)
        self._of_length = {n: np.flatnonzero(shortest == i) for i, n in enumerate(self._rows)}
        there = {n: len(found) for n, found in self._of_length.items() if len(found)}
        self._orders = {length: EpochOrder(count, seed) for length, count in there.items()}

    def batch(self, step, rng) -> ReadingBatch:
        buckets = []
        for length, rows in self._rows.items():
            order = self._orders.get(length)
            chosen = self._of_length[length][self._deal(order, step, rows)] if order else []
            buckets.append(self._bucket([int(i) for i in chosen], length, rows))
        return ReadingBatch(tuple(buckets))

    def _bucket(self, chosen: list[int], length: int, rows: int) -> ReadingBucket:
        inputs = [self._inputs[i] for i in chosen]
        marks = [_marks(self._examples[i], self._inputs[i]) for i in chosen]
        start, end, verdict, supports = zip(*marks) if marks else ((), (), (), ())
        pad, flags = batching.pad_rows, (rows, (length,), False, bool)
        return ReadingBucket(
            tokens=batching.pad_tokens([i.tokens for i in inputs], rows, length, self._special),
            is_text=pad([i.passage >= 0 for i in inputs], *flags),
            start=pad(start, *flags),
            end=pad(end, *flags),
            verdict=pad(verdict, rows, (), -1),
            first=pad([i.first for i in inputs], rows, (MOST_PASSAGES,)),
            supports=pad(supports, rows, (MOST_PASSAGES,), -1, np.float32),
        )


def _marks(
    example: ReadingExample, found: ReadingInput
) -> tuple[np.ndarray, np.ndarray, int, np.ndarray]:
    """First and last tokens of the answers, the verdict, and which passages help."""
    start, end = np.zeros((2, len(found.tokens)), bool)
    for passage, first, last in example.answers:
        overlaps = (found.start < last) & (found.end > first)
        here = np.flatnonzero((found.passage == passage) & overlaps)
        if len(here) and found.end[here[-1]] >= last:  # not cut off
            start[here[0]] = end[here[-1]] = True
    by_spans = BY_SPANS if start.any() else UNANSWERED
    verdict = {YES: SAYS_YES, NO: SAYS_NO}.get(example.verdict, by_spans)
    return start, end, verdict, np.array(example.supports, np.float32)
