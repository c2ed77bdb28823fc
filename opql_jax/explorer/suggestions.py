"""Example questions: about plainly stated facts, and answered as the text says."""

import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from opql_jax.kb import paths
from opql_jax.kb.paths import Fact
from opql_jax.kb.sets import query as tree
from opql_jax.kb.virtual_kb import VirtualKB
from opql_jax.retrieval.words import words_of

# Caps: entities, facts of each, questions tried, questions suggested.
_ENTITIES, _FACTS, _TRIED, _SUGGESTED = 40, 60, 8, 3
# A wording that serves in a query.
_PLAIN_WORDING = re.compile(r'[a-z]+(?: [a-z]+){0,3}(?<! the)(?<! a)')
# What stands right before the target, the kinds that this may be, and the question that it answers.
_STATED = (
    ('was born in', ('place',), 'Where was {} born?'),
    ('was born in', ('date',), 'When was {} born?'),
    ('died in', ('place',), 'Where did {} die?'),
    ('is a (?:painting|picture) by|was painted by', ('person',), 'Who painted {}?'),
    ('is a (?:novel|book|play|poem) by|was written by', ('person',), 'Who wrote {}?'),
    ('was built by', ('person', 'organisation'), 'Who built {}?'),
    ('was taught by', ('person',), 'Who taught {}?'),
    ('was (?P<past>[a-z]+ed) by', ('person', 'organisation'), 'Who {past} {}?'),
    ('was founded in', ('date',), 'When was {} founded?'),
)


class Suggestions(NamedTuple):
    """Questions, and a query or ''."""

    questions: list[str]
    query: str


def suggest(kb: VirtualKB) -> Suggestions:
    """What to ask first: questions that were tried, whose answers are sure and as the text says."""
    assert kb.memory is not None  # that of plain text
    counts, kinds = np.diff(kb.memory.offsets), kb.vocab.kinds
    rows = (row for row in np.argsort(-counts, kind='stable').tolist() if counts[row])
    asked = ('person', 'work', 'organisation', 'place')
    read = itertools.islice((row for row in rows if kinds[row] in asked), _ENTITIES)
    told = {row: paths.facts_about(kb.store, row, 0, _FACTS)[0] for row in read}
    tried = itertools.islice(_distinct(kb, told), _TRIED)
    sure = (question for question, answer in tried if _is_answered(kb, question, answer))
    query = _query(kb, [fact for facts in told.values() for fact in facts])
    return Suggestions(list(itertools.islice(sure, _SUGGESTED)), query)


def _distinct(kb: VirtualKB, told: dict[int, list[Fact]]) -> Iterator[tuple[str, str]]:
    """Questions and their answers, no two of one form, nor about one entity."""
    forms: set[str] = set()
    kinds = dict(zip(kb.vocab.names, kb.vocab.kinds))
    for row, facts in told.items():
        name = kb.vocab.names[row]
        if kb.linker.meanings(name) != [row]:
            continue
        for fact in facts:
            if (stated := _stated(fact, kinds[fact.target])) and stated[0] not in forms:
                forms.add(stated[0])
                yield stated[1], fact.target
                break


def _stated(fact: Fact, kind: str) -> tuple[str, str] | None:
    """The form of the plain question that a fact answers, and the question; None if none."""
    if fact.sentence is None or fact.target_span is None:
        return None
    before = fact.sentence[: fact.target_span[0]]
    # Its name, or in its own document what stands for that.
    names = [re.escape(fact.topic)]
    if fact.topic == fact.title:
        names += ['He', 'She', 'It', re.escape(fact.topic.split()[-1])]
    for words, of, question in _STATED:
        found = re.search(rf'(?:^|[.!?…] )(?:{"|".join(names)}) (?:{words}) $', before)
        if found and kind in of:
            return question, question.format(fact.topic, **found.groupdict())
    return None


def _is_answered(kb: VirtualKB, question: str, answer: str) -> bool:
    found = kb.ask(question)
    return bool(found.is_sure) and found.names[0] == answer


def _query(kb: VirtualKB, told: list[Fact]) -> str:
    """A query that follows what the text says most often of some entities."""
    topics: dict[tuple[str, bool], list[str]] = {}
    for fact in told:
        words, _ = wording = fact.wording
        if is_plain(words) and len(kb.linker.meanings(fact.topic)) == 1:
            topics.setdefault(wording, []).append(fact.topic)
    if not topics:
        return ''
    words, first = max(topics, key=lambda wording: len(topics[wording]))
    return str(tree.Follow(tree.Entity(topics[words, first][0]), words, inverse=not first))


def is_plain(words: str) -> bool:
    """Whether a wording is a few words that say something."""
    return bool(_PLAIN_WORDING.fullmatch(words) and words_of(words))
