"""Example questions: about plainly stated facts, and answered as the text says."""

import collections
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from opql_jax.kb.sets import query as tree
from opql_jax.kb.virtual_kb import VirtualKB

# Caps: passages looked at, questions tried (of two hops: half), questions suggested.
_PASSAGES, _TRIED, _SUGGESTED = 5_000, 8, 3
# What stands between two mentions, the kinds that the second may be, and the question that it
# answers.
_STATED = [
    (re.compile(f' (?:{words}) '), kinds, question)
    for words, kinds, question in (
        (r'was born (?:in|at)', ('place',), 'Where was {} born?'),
        (r'was born (?:in|on)', ('date',), 'When was {} born?'),
        (r'died (?:in|at)', ('place',), 'Where did {} die?'),
        (r'is an? (?:painting|picture) by', ('person',), 'Who painted {}?'),
        (r'is an? (?:novel|book|play|poem) by|was written by', ('person',), 'Who wrote {}?'),
        (r'was built by', ('person', 'organisation'), 'Who built {}?'),
        (r'was taught by', ('person',), 'Who taught {}?'),
        (r'was (?P<past>[a-z]+ed) by', ('person', 'organisation'), 'Who {past} {}?'),
        (r'was founded in', ('date',), 'When was {} founded?'),
        (r'studied (?:[a-z]+ )?at(?: the)?', ('organisation',), 'Where did {} study?'),
        (r'married', ('person',), 'Whom did {} marry?'),
    )
]
_PRONOUNS = ('He', 'She', 'It')
# What somebody is called who did that, for a question of two hops.
_NOUNS = {'painted': 'painter', 'wrote': 'author', 'built': 'builder', 'taught': 'teacher'}
_NOUNS |= {'founded': 'founder', 'designed': 'designer', 'directed': 'director'}


class Suggestions(NamedTuple):
    """Questions, and a query or ''."""

    questions: list[str]
    query: str


class _Statement(NamedTuple):
    """Two entities, the words between them, and the question that the second answers."""

    topic: int
    target: int
    words: str
    form: str
    question: str


def suggest(kb: VirtualKB) -> Suggestions:
    """What to ask first: questions that were tried, whose answers are sure and as the text says."""
    assert kb.memory is not None  # that of plain text
    facts, names = np.diff(kb.memory.offsets), kb.vocab.names
    clear = [one for one in _statements(kb) if kb.linker.meanings(names[one.topic]) == [one.topic]]
    questions: dict[str, str] = {}
    tried: set[int] = set()
    by_facts = lambda these: sorted(these, key=lambda one: -facts[one.topic])
    for one in [*by_facts(_two_hops(clear, names))[: _TRIED // 2], *by_facts(clear)]:
        if len(tried) == _TRIED or len(questions) == _SUGGESTED:
            break
        if one.form not in questions and one.topic not in tried:
            tried.add(one.topic)
            found = kb.ask(one.question)
            if found.is_sure and found.names[0] == names[one.target]:
                questions[one.form] = one.question
    return Suggestions(list(questions.values()), _query(kb, clear))


def _statements(kb: VirtualKB) -> Iterator[_Statement]:
    """What the first passages state plainly: of an entity that the words follow, or of 'She'."""
    names, kinds = kb.vocab.names, kb.vocab.kinds
    for passage in kb.prepared.passages.slice(0, _PASSAGES).to_pylist():
        text, mentions = passage['text'], passage['mentions']
        begins = {mention['start']: mention['entity'] for mention in mentions}
        ends = {mention['end']: mention['entity'] for mention in mentions}
        about = {
            start + len(word): passage['title_entity']
            for start in passage['sentence_starts']
            for word in _PRONOUNS
            if text.startswith(f'{word} ', start) and passage['title_entity'] >= 0
        }
        for words, of, question in _STATED:
            for found in words.finditer(text):
                topic = (about | ends).get(found.start())
                target = begins.get(found.end())
                if topic is None or target is None or topic == target or kinds[target] not in of:
                    continue
                start = min((m['start'] for m in mentions if m['entity'] == topic), default=0)
                has_article = text[:start].endswith(('The ', ' the '))
                called = f'the {names[topic]}' if has_article else names[topic]
                asked = question.format(called, **found.groupdict())
                yield _Statement(topic, target, found[0].strip(), question, asked)


def _two_hops(told: list[_Statement], names: Sequence[str]) -> Iterator[_Statement]:
    """Questions about who did something, in place of the name: 'the painter of …'."""
    about: dict[int, list[_Statement]] = {}
    for one in told:
        about.setdefault(one.topic, []).append(one)
    for one in told:
        who, did, called = one.question.rstrip('?').split(' ', 2)
        if who == 'Who' and did in _NOUNS:
            for other in about.get(one.target, []):
                called_so = f'the {_NOUNS[did]} of {called}'
                asked = other.question.replace(names[other.topic], called_so)
                yield _Statement(one.topic, other.target, '', 'two hops', asked)


def _query(kb: VirtualKB, told: list[_Statement]) -> str:
    """A query that follows what is stated of most entities, whose best answer is one of them."""
    names = kb.vocab.names
    led = collections.Counter((one.target, one.words) for one in told)
    for (target, words), _ in led.most_common(_TRIED):
        if kb.linker.meanings(names[target]) == [target]:
            query = str(tree.Follow(tree.Entity(names[target]), words, inverse=True))
            stated = {
                names[one.topic] for one in told if (one.target, one.words) == (target, words)
            }
            if not stated.isdisjoint(kb.query(query).names[:1]):
                return query
    return ''
