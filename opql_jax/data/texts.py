"""The language model's input as arrays: what it reads (`Texts`) and predicts (`TextBucket`)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from opql_jax.data import batching
from opql_jax.data.lm_markup import LMInput
from opql_jax.data.tokenizer import SpecialIds


class Texts(NamedTuple):
    """n texts of at most L tokens and T topics; int32. Optional arrays: training only."""

    tokens: np.ndarray  # [n, L]
    start: np.ndarray  # [n, T], position of each topic's first token
    r1: np.ndarray  # [n, T], position of each topic's [R1]
    r2: np.ndarray  # [n], position of [R2], just after the [ENT] of the answer
    used: np.ndarray  # [n, T] bool, which slots hold a topic
    # [n, T, G], memory entries that state an answer; -1 in unused slots.
    gold: np.ndarray | None = None
    # [n], passage whose entries must not be retrieved; -1 for none.
    passage: np.ndarray | None = None
    # [n, X], entities that must not be retrieved as targets; -1 in unused slots.
    exclude: np.ndarray | None = None


class TextBucket(NamedTuple):
    """Texts of one length bucket with their labels; int32 but for `absent`."""

    texts: Texts
    topic: np.ndarray  # [n, T], entities of the topics where known, else -1
    # [n, T] bool, topics for which the memory has no entry that states an answer.
    absent: np.ndarray
    label: np.ndarray  # [n], the entity to predict; -1 in unused rows
    answers: np.ndarray  # [n, A], all right entities; -1 in unused slots
    left_out: np.ndarray  # [n], topics of the passage for which the row has no room


class TextRow(NamedTuple):
    """One row of a TextBucket, with t topics."""

    input: LMInput
    label: int = -1
    answers: Sequence[int] = ()
    topic: int = -1  # of all topics
    absent: bool = False  # of all topics
    exclude: Sequence[int] = ()


class TextSizes(NamedTuple):
    """Slots of a row; answers beyond these are cut, topics and excluded entities are not more."""

    topics: int = 1
    answers: int = 1
    exclude: int = 1


def pack_texts(
    rows: Sequence[TextRow], packer: batching.Packer, sizes: TextSizes, special: SpecialIds
) -> tuple[TextBucket, ...]:
    """The buckets of `rows` that `packer` accepted; no entry is gold, no passage is excluded."""
    topics, answers, exclude = sizes

    def pack(length, n, members):
        members = [rows[i] for i in members]
        inputs = [row.input for row in members]
        per_topic = lambda values, **kw: batching.pad_rows(
            [np.full(len(row.input.r1), v) for v, row in zip(values, members)], n, (topics,), **kw
        )
        texts = Texts(
            tokens=batching.pad_tokens([i.tokens for i in inputs], n, length, special),
            start=batching.pad_rows([i.starts for i in inputs], n, (topics,)),
            r1=batching.pad_rows([i.r1 for i in inputs], n, (topics,)),
            r2=batching.pad_rows([i.r2 for i in inputs], n),
            used=per_topic([True] * len(members), fill=False, dtype=bool),
            gold=np.full((n, topics, 1), -1, np.int32),
            passage=np.full(n, -1, np.int32),
            exclude=batching.pad_rows([row.exclude for row in members], n, (exclude,), -1),
        )
        return TextBucket(
            texts=texts,
            topic=per_topic([r.topic for r in members], fill=-1),
            absent=per_topic([r.absent for r in members], fill=False, dtype=bool),
            label=batching.pad_rows([r.label for r in members], n, fill=-1),
            answers=batching.pad_rows([r.answers[:answers] for r in members], n, (answers,), -1),
            left_out=np.zeros(n, np.int32),
        )

    return tuple(pack(*bucket) for bucket in packer.buckets())
