"""One input of the reader: a question and the passages that may answer it, as tokens.

    [CLS] question [SEP] passage [SEP] passage [SEP] ...

A passage is read with its title before it, so that 'He was born in 1879' says of whom.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from tokenizers import Tokenizer

from opql_jax.data.tokenizer import SpecialIds

# Separates a title from its text.
TITLE_END = ': '
# What stands before an answer: in 'in the mid-18th century', 'her 18,000 pounds'.
_BEFORE = re.compile(
    r'(?:at|by|during|from|in|on|since)\s+(?=\d|the\b|[A-Z])|(?:her|his|its|their)\s+(?=\d)'
)
# Words that stand for an answer, or say that there is none.
STAND_IN = re.compile(
    r'(?:he|she|it|they|we|you|I|him|her|them|us|me|this|that|these|those|who|which|what|whom'
    r'|his|its|their|here|there|nobody|no one|nothing|nowhere)',
    re.I,
)
# Longer questions are cut to this many tokens.
_QUESTION_TOKENS = 96


class ReadingInput(NamedTuple):
    """A question and its passages as tokens; all but `tokens` say where a token is from."""

    tokens: np.ndarray  # [length] int32, from [CLS] to the last [SEP]
    passage: np.ndarray  # [length] int32, the passage of each token, -1 outside of passages
    start: np.ndarray  # [length] int32, the characters of each token in its passage, half-open
    end: np.ndarray  # [length] int32
    # [passages] int32, the [SEP] before each passage, which says whether the passage helps.
    first: np.ndarray


def titled(title: str, text: str) -> str:
    """A passage as the reader reads it."""
    return f'{title}{TITLE_END}{text}' if title else text


def answer_start(text: str, start: int, end: int) -> int:
    """Where an answer, text[start:end], begins: 'in the mid-18th century' at its article."""
    found = _BEFORE.match(text, start, end)
    return found.end() if found else start


def reading_input(
    tokenizer: Tokenizer,
    question: str,
    passages: Sequence[str],
    special: SpecialIds,
    most_tokens: int,
    best_first: bool = False,
) -> ReadingInput:
    """Packs a plain question and passages (`titled`) into one input of at most `most_tokens`.

    If they are too long, the last passages are cut if `best_first`, else the longest.
    """
    encoded = tokenizer.encode_batch([question, *passages], add_special_tokens=False)
    asked = encoded[0].ids[:_QUESTION_TOKENS]
    lengths = np.array([len(each.ids) for each in encoded[1:]], np.int64)
    kept = (lengths_in_turn if best_first else fair_lengths)(
        lengths, most_tokens - len(asked) - 2 - len(lengths)
    )
    tokens, passage, start, end, first = [special.cls, *asked], [-1] * (1 + len(asked)), [], [], []
    start, end = [0] * len(tokens), [0] * len(tokens)
    for number, (each, length) in enumerate(zip(encoded[1:], kept.tolist())):
        first.append(len(tokens))
        tokens += [special.sep, *each.ids[:length]]
        passage += [-1] + [number] * length
        start += [0, *(begin for begin, _ in each.offsets[:length])]
        end += [0, *(stop for _, stop in each.offsets[:length])]
    tokens.append(special.sep)
    columns = tokens, [*passage, -1], [*start, 0], [*end, 0], first
    return ReadingInput(*(np.array(column, np.int32) for column in columns))


def fair_lengths(lengths: np.ndarray, room: int) -> np.ndarray:
    """Cuts lengths [n] to `room` in all, the longest first."""
    kept, left = np.zeros_like(lengths), max(room, 0)
    order = np.argsort(lengths, kind='stable')
    for place, number in enumerate(order.tolist()):
        kept[number] = min(lengths[number], left // (len(order) - place))
        left -= kept[number]
    return kept


def lengths_in_turn(lengths: np.ndarray, room: int) -> np.ndarray:
    """The same, but the last are cut first."""
    return np.diff(np.minimum(np.cumsum(lengths), max(room, 0)), prepend=0)
