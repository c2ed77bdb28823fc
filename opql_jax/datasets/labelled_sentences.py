"""Sentences labelled with the relation of two mentions, as relation probes read them.

Two forms, told apart by the file's name:

- FewRel, `*.json`: `{relation: [{tokens: [str], h: [name, id, [[index, ...], ...]], t: [...]}, ...]}`; of a head or tail that is
  mentioned several times the first mention is taken, and the text is the tokens with a space between them;
- JSON Lines, `*.jsonl`: `{text, sub_text, obj_text, rel}` a line; where the two strings stand is found in the text.

Head or subject is the topic, tail or object the target.
"""

from __future__ import annotations

import collections
import itertools
import json
import pathlib
import re
from collections.abc import Iterator
from typing import NamedTuple

from opql_jax.corpus.documents import CorpusError

MISSING = 'a mention is not in the text'
OVERLAPPING = 'the mentions overlap'


class LabelledSentence(NamedTuple):
    """A sentence that states `relation` of the mentions at `topic` and `target`: (start, end), half-open, in code points."""

    text: str
    topic: tuple[int, int]
    target: tuple[int, int]
    relation: str


def read_labelled(path) -> tuple[list[LabelledSentence], dict[str, int]]:
    """Reads a file of either form.

    Returns:
        The sentences in the order of the file, and how many were left out by reason: those in which a mention is not found
        or the two cannot be told apart.

    Raises:
        CorpusError: the file is missing, of another form, or holds no usable sentence; names relation and item, or line.
    """
    path = pathlib.Path(path)
    try:
        content = path.read_text(encoding='utf-8')
    except (OSError, UnicodeDecodeError) as error:
        raise CorpusError(f'{path}: cannot be read ({error})') from error
    records = _json_lines(path, content) if path.suffix == '.jsonl' else _fewrel(path, content)
    sentences, left_out = [], collections.Counter()
    for text, topics, targets, relation in records:
        # Of names that occur several times those that stand nearest to each other.
        apart = [
            (max(a[0], b[0]) - min(a[1], b[1]), a, b)
            for a, b in itertools.product(topics, targets)
            if a[1] <= b[0] or b[1] <= a[0]
        ]
        if apart:
            _, topic, target = min(apart)
            sentences.append(LabelledSentence(text, topic, target, relation))
        else:
            left_out[OVERLAPPING if topics and targets else MISSING] += 1
    if not sentences:
        raise CorpusError(f'{path}: no sentence with two mentions ({dict(left_out) or "it is empty"})')
    return sentences, dict(left_out)


def _json_lines(path, content: str) -> Iterator[tuple]:
    for number, line in enumerate(content.split('\n'), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            text, topic, target, relation = (record[name] for name in ('text', 'sub_text', 'obj_text', 'rel'))
            if not all(isinstance(value, str) and value.strip() for value in (text, relation)):
                raise TypeError('text and rel are strings that are not empty')
            if not all(isinstance(value, str | None) for value in (topic, target)):
                raise TypeError('sub_text and obj_text are strings')
        except (ValueError, KeyError, TypeError) as error:
            raise CorpusError(
                f'{path}, line {number}: expected {{text, sub_text, obj_text, rel}} ({type(error).__name__}: {error})'
            ) from error
        yield text, _occurrences(topic, text), _occurrences(target, text), relation


def _occurrences(name: str | None, text: str) -> list[tuple[int, int]]:
    """Where a name stands in a text as whole words: 'He' is not in 'Herbert'."""
    if not (name and name.strip()):
        return []
    before, after = (r'\b' if c.isalnum() else '' for c in (name[0], name[-1]))
    return [found.span() for found in re.finditer(before + re.escape(name) + after, text)]


def _fewrel(path, content: str) -> Iterator[tuple]:
    try:
        relations = json.loads(content)
    except ValueError as error:
        raise CorpusError(f'{path}: not JSON ({error}); files of JSON Lines are called *.jsonl') from error
    if not isinstance(relations, dict):
        raise CorpusError(f'{path}: expected {{relation: [sentence, ...]}}, found a {type(relations).__name__}')
    for relation, items in relations.items():
        if not isinstance(items, list):
            raise CorpusError(f'{path}: relation {relation!r}: expected a list of sentences, found {items!r:.60}')
        for number, item in enumerate(items, 1):
            try:
                tokens = item['tokens']
                if not tokens or not all(isinstance(token, str) for token in tokens):
                    raise TypeError('tokens is a list of strings')
                ends = list(itertools.accumulate(len(token) + 1 for token in tokens))
                topic, target = (_span(item[side], tokens, ends) for side in ('h', 't'))
            except (KeyError, TypeError, IndexError, ValueError) as error:
                raise CorpusError(
                    f'{path}: relation {relation!r}, sentence {number}: expected {{tokens, h, t}} with h and t as'
                    f' [name, id, [[index, ...], ...]] ({type(error).__name__}: {error})'
                ) from error
            yield ' '.join(tokens), [topic], [target], relation


def _span(mention, tokens, ends) -> tuple[int, int]:
    """Characters of the first of the index lists of a FewRel head or tail."""
    indices = mention[2][0]
    first, last = min(indices), max(indices)
    if not 0 <= first <= last < len(tokens):
        raise IndexError(f'index {last if first >= 0 else first} of {len(tokens)} tokens')
    return ends[first] - len(tokens[first]) - 1, ends[last] - 1
