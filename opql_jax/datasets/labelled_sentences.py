"""Sentences labelled with the relation of two mentions: FewRel and JSON Lines.

- FewRel (Han et al., 2018), `*.json`: `{relation: [{tokens: [str], h: [name, id, [[index, ...],
  ...]], t: [...]}, ...]}`; a head or tail with several mentions is at the first of them, and the
  text is the tokens with a space between them.
- JSON Lines, `*.jsonl`: `{text, sub_text, obj_text, rel}` a line; the text is searched for the two
  strings.

Head or subject is the topic, tail or object the target.
"""

import collections
import itertools
import pathlib
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from opql_jax.core.errors import InputError
from opql_jax.corpus.json_lines import (
    check_object,
    map_records,
    read_json,
    read_json_lines,
    string_field,
)
from opql_jax.corpus.spans import whole_words

MISSING = 'a mention is not in the text'
OVERLAPPING = 'the mentions overlap'


class LabelledSentence(NamedTuple):
    """A sentence that states `relation` of `topic` and `target`, (start, end) in code points."""

    text: str
    topic: tuple[int, int]
    target: tuple[int, int]
    relation: str


def read_labelled(path) -> tuple[list[LabelledSentence], dict[str, int]]:
    """The sentences of a file, and the numbers of skipped ones by reason, MISSING or OVERLAPPING.

    InputError names relation and item, or line; also if no sentence is usable.
    """
    path = pathlib.Path(path)
    if path.suffix == '.jsonl':
        records = (record for _, record in map_records(path, read_json_lines(path), _from_line))
    else:
        records = _fewrel(path)
    sentences, skipped = [], collections.Counter()
    for text, topics, targets, relation in records:
        if pair := nearest(topics, targets):
            sentences.append(LabelledSentence(text, *pair, relation))
        else:
            skipped[OVERLAPPING if topics and targets else MISSING] += 1
    if not sentences:
        raise InputError(f'{path}: no sentence with two mentions ({dict(skipped) or "empty"})')
    return sentences, dict(skipped)


Occurrence = tuple[int, int]


def nearest(
    topics: Iterable[Occurrence], targets: Iterable[Occurrence]
) -> tuple[Occurrence, Occurrence] | None:
    """The nearest two occurrences of two names that do not overlap; None if there are none."""
    apart = [
        (max(a[0], b[0]) - min(a[1], b[1]), a, b)
        for a, b in itertools.product(topics, targets)
        if a[1] <= b[0] or b[1] <= a[0]
    ]
    return min(apart)[1:] if apart else None


def _from_line(record: dict) -> tuple:
    check_object(record, 'sub_text', 'obj_text')
    text, relation = string_field(record, 'text'), string_field(record, 'rel')
    topic, target = string_field(record, 'sub_text', ''), string_field(record, 'obj_text', '')
    return text, _occurrences(topic, text), _occurrences(target, text), relation


def _occurrences(name: str, text: str) -> list[tuple[int, int]]:
    return [found.span() for found in re.finditer(whole_words(name), text)] if name.strip() else []


def _fewrel(path) -> Iterator[tuple]:
    try:
        relations = read_json(path)
    except InputError as error:
        raise InputError(f'{error}; files of JSON Lines are called *.jsonl') from error
    if not isinstance(relations, dict):
        raise InputError(f'{path}: expected a JSON object {{relation: [sentence, ...]}}')
    for relation, items in relations.items():
        if not isinstance(items, list):
            raise InputError(f'{path}: relation {relation!r}: expected a list of sentences')
        for number, item in enumerate(items, 1):
            try:
                tokens = item['tokens']
                if not tokens or not all(isinstance(token, str) for token in tokens):
                    raise TypeError('tokens is a list of strings')
                ends = list(itertools.accumulate(len(token) + 1 for token in tokens))
                topic, target = (_span(item[side], tokens, ends) for side in ('h', 't'))
            except (KeyError, TypeError, IndexError, ValueError) as error:
                raise InputError(
                    f'{path}: relation {relation!r}, sentence {number}: '
                    f'expected {{tokens, h, t}} with h and t as [name, id, '
                    f'[[index, ...], ...]] ({type(error).__name__}: {error})'
                ) from error
            yield ' '.join(tokens), [topic], [target], relation


def _span(mention, tokens, ends) -> tuple[int, int]:
    """The characters of a FewRel head or tail, by the first of its index lists."""
    indices = mention[2][0]
    first, last = min(indices), max(indices)
    if not 0 <= first <= last < len(tokens):
        raise IndexError(f'index {last if first >= 0 else first} of {len(tokens)} tokens')
    return ends[first] - len(tokens[first]) - 1, ends[last] - 1
