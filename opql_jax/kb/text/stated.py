"""Whether the sentence behind an answer states what the question asks, judged by its words.

In a short text the reader may take any person for the founder, or the date of an election for a
date of birth. An answer is not sure if its sentence has no word for the relation that is asked for,
or is about something else; it may still be right.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection

from opql_jax.corpus.spans import VALUES
from opql_jax.kb import calibration
from opql_jax.kb.answers import Answer
from opql_jax.kb.paths import Fact, Path
from opql_jax.kb.text.deeds import is_deed_of_another, is_owner_only
from opql_jax.kb.text.qualifiers import has_rival, is_named_beside, is_of_other_owner
from opql_jax.kb.text.relation_words import says
from opql_jax.kb.text.roles import has_role, is_of_other_sex, may_hold, names_kin
from opql_jax.kb.text.subject import is_about, is_before_gap, is_of_another
from opql_jax.kb.text.wanted import is_person_noun, wanted_by
from opql_jax.kb.text.word_lists import FORMS
from opql_jax.retrieval.words import words_of

# Facts of an answer that are checked; factors of its probability if none states it, which leaves
# it unsure, and if all say it of another.
_FACTS, _UNSTATED, _OF_ANOTHER = 3, calibration.SURE, 0.1
_SENTENCE_ENDS = ('. ', '… ', '; ')
# 'Who installed the gate at the mill?'
_THING = re.compile(
    r'[Ww]ho (?!is\b|was\b|are\b|were\b)[a-z]+ (?:down |up |out )?the ([a-z]+)'
    r'(?: (?:at|in|of|on|for|near)\b|\?)'
)
_DESCRIBED = re.compile(r'\bthe ([a-z-]+) $')
_AND_WAS = re.compile(r'\band (?:was|were|is|are|had to be|has been|had been) ')


def left(answer: Answer, entity: int) -> float:
    """The factor of the probability of one of an answer's entities: 1 if a sentence states it.

    The sentence of one of the best facts behind it has to be about the topic, and state the
    relation.
    """
    last = max(answer.plans, key=len, default=())
    step = last[-1].text if len(last) > 1 else answer.question.text
    relation, paths = _without_names(step, answer), answer.paths(entity, _FACTS)
    return max((_states(answer, path, step, relation) for path in paths), default=1.0)


def _states(answer: Answer, path: Path, step: str, relation: str) -> float:
    """Whether the sentence of a path's last fact states what is asked: 1 if so, else a factor.

    `step` is the last one of the question, and `relation` that without names.
    """
    asked, fact = answer.question.text, _without_rest(path[-1])
    sentence, around, passage = fact.sentence or '', _around(fact), _passage(answer, fact)
    whole = step if len(path) > 1 else asked
    written = sentence[slice(*fact.target_span)] if fact.target_span else fact.target
    topics = (asked[start:end] for start, end in answer.question.topics)
    # The question itself says whom a topic is by.
    names = [name for name in topics if f' by {name}' not in asked]
    of_person = wanted_by(asked).kinds[:1] == ('person',)
    if (
        (fact.target_span and is_before_gap(answer, sentence, fact.target_span))
        or has_rival(_without_names(whole, answer, VALUES), around)
        or is_of_other_sex(relation, fact.target)
        or is_named_beside(asked, fact.target)
        or is_deed_of_another(asked, fact.target, around)
        or (of_person and is_owner_only(asked, fact.target, around))
    ):
        return _OF_ANOTHER
    is_stated = (
        is_about(answer, path[0])
        and not is_of_another(answer, fact)
        and not (len(path) == 1 and is_of_other_owner(asked, around))
        and says(relation, sentence, near := _near(answer, fact))
        and (not (part := _own_part(fact)) or says(relation, part))
        and may_hold(relation, written, passage)
        and _as_described(answer, passage)
        and names_kin(asked, ' '.join(_passage(answer, each) for each in path))
        and _has_object(asked, near)
        and all(has_role(asked, name, sentence) for name in (*names, fact.target))
    )
    return 1.0 if is_stated else _UNSTATED


def _without_names(text: str, answer: Answer, kept: Collection[str] = ()) -> str:
    """A text without the names of a question, but for those of some kinds."""
    question, kinds = answer.question, answer.store.vocab.kinds
    for (start, end), entity in zip(question.topics, question.entities):
        if entity < 0 or kinds[entity] not in kept:
            text = text.replace(question.text[start:end], ' ')
    return text


def _without_rest(fact: Fact) -> Fact:
    """A fact with the place of its target alone, which may have been read with more."""
    if not (fact.sentence and fact.target_span):
        return fact
    start = fact.sentence.find(fact.target, *fact.target_span)
    span = (start, start + len(fact.target)) if start >= 0 else fact.target_span
    return dataclasses.replace(fact, target_span=span)


def _around(fact: Fact) -> str:
    """The one sentence that has the target of a fact; all if unknown."""
    text, (start, end) = fact.sentence or '', fact.target_span or (0, 0)
    begin = max(text.rfind(mark, 0, start) for mark in _SENTENCE_ENDS) + 1
    ends = [at for mark in _SENTENCE_ENDS if (at := text.find(mark, end)) >= 0]
    return text[begin : min(ends, default=len(text))] if fact.target_span else text


def _as_described(answer: Answer, passage: str) -> bool:
    """Whether a passage has the words by which a question describes persons: 'the chemist Ann'."""
    question, kinds = answer.question, answer.store.vocab.kinds
    described = [
        words_of(found[1])
        for (start, _), entity in zip(question.topics, question.entities)
        if entity >= 0 and kinds[entity] == 'person'
        if (found := _DESCRIBED.search(question.text[:start])) and is_person_noun(found[1])
    ]
    said = set(words_of(passage))
    return all(said.issuperset(words) for words in described)


def _has_object(question: str, text: str) -> bool:
    """Whether a text has the thing of a question such as 'Who installed the gate?'."""
    found = _THING.match(question)
    thing, said = frozenset(words_of(found[1]) if found else ()), set(words_of(text))
    known = [forms for forms in (thing, *FORMS) if not forms.isdisjoint(thing)]
    return not known or any(not forms.isdisjoint(said) for forms in known)


def _passage(answer: Answer, fact: Fact) -> str:
    """The title and text of a fact's passage; '' if there is none."""
    if fact.passage is None:
        return ''
    return f'{fact.title or ""}: {answer.store.prepared.passage(fact.passage)["text"]}'


def _near(answer: Answer, fact: Fact) -> str:
    """The title of a fact's passage, and its sentence with the one before and the one after."""
    if fact.passage is None or fact.places is None:
        return _passage(answer, fact)
    passage = answer.store.prepared.passage(fact.passage)
    starts = [*passage['sentence_starts'], len(passage['text'])]
    first, last = fact.places[1]
    before = max((start for start in starts if start < first), default=0)
    after = [start for start in starts if start >= last][1:2] or starts[-1:]
    return f'{fact.title or ""}: {passage["text"][before : after[0]]}'


def _own_part(fact: Fact) -> str:
    """The part of a sentence with a target and another verb, 'and was mended by Bo'; '' if none."""
    text, (start, _) = fact.sentence or '', fact.target_span or (0, 0)
    begins = [found.start() for found in _AND_WAS.finditer(text, 0, start)]
    return text[begins[-1] :] if begins else ''
