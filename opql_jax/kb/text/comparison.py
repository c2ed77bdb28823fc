"""Comparisons and questions of yes or no, by plain questions about each thing they name.

'Which film is older, Night Ferry or Dawn Ferry?' asks when each was released, and compares the
dates; 'Was Night Ferry directed by Ingrid Solberg?' asks who directed it, and looks whether that
is she. Which plain questions these are is in `comparison_questions` and `fact_questions`; whatever
answers such answers them.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from opql_jax.corpus.name_resolution import fold
from opql_jax.corpus.question_linking import written_as_names
from opql_jax.corpus.questions import Question
from opql_jax.corpus.spans import VALUES
from opql_jax.kb import paths
from opql_jax.kb.answers import Answer
from opql_jax.kb.fact_store import FactStore
from opql_jax.kb.paths import Fact, Path
from opql_jax.kb.text import values
from opql_jax.kb.text.comparison_questions import parse
from opql_jax.kb.text.marked_questions import Comparison, Name, Side, names_of
from opql_jax.kb.text.polarity import denies, leaves_open
from opql_jax.kb.text.subject import GOES_ON, asked_about, is_about
from opql_jax.kb.text.values import country, same_name
from opql_jax.kb.text.word_lists import FORMS, LISTS, stems
from opql_jax.kb.weighted_entities import Member
from opql_jax.retrieval.words import words_of

# Answers to a plain question that are considered, and the least probability of one that counts.
_LOOKED_AT, _LEAST = 5, 0.05
# Factor of a verdict's probability if a sentence behind it names nothing that is asked about, or a
# place may lie in the one that is asked for: such a verdict is never sure.
_DOUBTFUL = 0.6
# Another value speaks against the one that is asked for if that has less than this share of its
# probability.
_RIVAL = 0.5
# Factors of an answer's probability if its sentence does not name the topic: if it seems to be
# about something else, and if the topic stands some sentences before.
_OF_ANOTHER, _FAR = 0.3, 0.6
# Factor if the sentence has none of the words of a fact that the question wants confirmed.
_OTHER_WORDS = 0.5
# What says that a name stands for what it owns, for a part of it, or for one of two.
_OWNS = re.compile(r"['’]s [a-z]| or [A-Z]")
_PART_OF = re.compile(
    r'\b(?:half|parts?|shares?|some|preface|ending|cover|end|rest) (?:of|in|to) (?:the )?$'
)
# Nouns of places that may have the name of a country.
_ANY_PLACE = ('place', 'birthplace', 'island', 'state')
# Paths to an answer, of which the best is taken.
_PATHS = 3
# What stands before the words that belong to a noun.
_PHRASE_BEGINS = re.compile(r'[.,;:()]|\b(?:is|was|are|were|an?|the|as|of|by)\b', re.IGNORECASE)
# Words that a sentence need not have.
_ANY_WORDS = stems(LISTS['need_not_be_said'])


class Found(NamedTuple):
    """What answers a plain question.

    The whole answer, the entity of it, its name and probability, the last fact it rests on, its
    weight.

    `preferred` is the probability less what its sentences leave open, by which it was chosen; it is
    doubtful if their words are not those that are asked for, or `of_another` thing.
    """

    answer: Answer
    entity: int
    name: str
    probability: float
    fact: Fact | None
    weight: float
    preferred: float
    is_doubtful: bool = False
    of_another: bool = False


Answerer = Callable[[list[str]], list[Answer]]
# Factor of an answer's probability if the text has only a part of the name that is asked about.
_PART_OF_NAME = 0.5


def linked_names(question: Question, kinds: Sequence[str] | np.ndarray) -> list[Name]:
    """The names of a question, of which its topics are those that the text has; see `names_of`."""
    linked = [
        Name(start, end, entity, kinds[entity] if entity >= 0 else '')
        for (start, end), entity in zip(question.topics, question.entities)
    ]
    return names_of(question.text, linked)


def parse_question(question: Question, kinds: Sequence[str]) -> Comparison | None:
    """What a question compares, whose topics are the names in it that the text has; see `parse`."""
    return parse(question.text, linked_names(question, kinds))


def answer(question: Question, kinds: Sequence[str], plain: Answerer) -> Answer | None:
    """The answer to a question that compares, or wants a fact confirmed; None if neither.

    It is 'yes', 'no' or one of its names, and no surer than any of the values that it rests on. It
    has no entities, and a note, if the text does not state what decides.

    Args:
        question: with its names as topics.
        kinds: of the entities.
        plain: answers plain questions; an answer without entities says that there is none.
    """
    if (comparison := parse_question(question, kinds)) is None:
        return None
    asked = [question for side in comparison.sides for question in side.questions]
    answers = dict(zip(asked, plain(asked), strict=True))
    candidates = [
        _candidates(comparison, side, [answers[question] for question in side.questions])
        for side in comparison.sides
    ]
    if comparison.units:
        candidates = _of_one_measure(comparison.units, candidates)
    best = [_best(comparison, of_side) for of_side in candidates]
    sides = list(zip(comparison.sides, best))
    note = '; '.join(f'{side.name}: {one.name if one else "not stated"}' for side, one in sides)
    parts = tuple(_only(one) if one else answers[side.questions[0]] for side, one in sides)
    found = Answer(parts=parts, is_cut=any(part.is_cut for part in parts), note=note)
    said, probability, is_doubtful = _decided(comparison, best, plain)
    if said is None:  # reading the question as it is may still choose
        undecided = dataclasses.replace(found, note=f'the text does not decide this: {note}')
        return None if comparison.how == 'which' else undecided
    entity, phrases = -1, (str(said),)
    if isinstance(said, int):
        side = comparison.sides[said]
        entity, phrases = (side.entity, ()) if side.entity >= 0 else (-1, (side.name,))
    return dataclasses.replace(
        found,
        entities=np.array([entity]),
        weights=np.ones(1, np.float32),
        probabilities=np.array([probability * (_DOUBTFUL if is_doubtful else 1)], np.float32),
        phrases=phrases,
    )


# 'yes', 'no', the place of the chosen side, or None if nothing states it; how probable it is that
# the values it rests on are right; and whether one of them may be about something else.
_Said = tuple[str | int | None, float, bool]
_UNKNOWN: _Said = (None, 0.0, False)


def _decided(comparison: Comparison, found: Sequence[Found | None], answer: Answerer) -> _Said:
    """What the values found for the sides come to."""
    if comparison.how == 'which':
        each = [_confirm(comparison, one, answer) if one else _UNKNOWN for one in found]
        chosen = [number for number, (said, *_) in enumerate(each) if said == 'yes']
        return (chosen[0], *each[chosen[0]][1:]) if len(chosen) == 1 else _UNKNOWN
    known = [one for one in found if one]
    if len(known) < len(found):
        return _UNKNOWN
    if len(known) == 2 and not comparison.asked:
        left, right = known
        return _of_two(comparison, left, right, answer)
    each = [_confirm(comparison, one, answer) for one in known]
    if any(said != 'yes' for said, *_ in each):
        each = sorted((one for one in each if one[0] == 'no'), key=lambda one: -one[1])[:1]
    if not each:
        return _UNKNOWN
    probability = min(probability for _, probability, _ in each)
    return each[0][0], probability, any(is_doubtful for *_, is_doubtful in each)


def _only(found: Found) -> Answer:
    """What was found, as an answer of its own."""
    place = found.answer.entities == found.entity
    return dataclasses.replace(
        found.answer,
        entities=found.answer.entities[place],
        weights=found.answer.weights[place],
        probabilities=np.array([found.probability], np.float32),
    )


def _candidates(comparison: Comparison, side: Side, answers: Sequence[Answer]) -> list[Found]:
    """The answers to the questions about a side that are values of the right kind."""
    candidates: list[Found] = []
    for answer, member in ((each, one) for each in answers for one in list(each)[:_LOOKED_AT]):
        probability = (member.probability or 0.0) * (_PART_OF_NAME if side.entity < 0 else 1)
        if probability < _LEAST or not _is_value(comparison, member):
            continue
        supports = [
            (_support(answer, path), _wording(comparison, answer, path), path[-1])
            for path in answer.paths(member.id, _PATHS)
            if path
        ]
        none: tuple[float, float, Fact | None] = 1.0, 1.0, None
        support, wording, fact = max(supports, key=lambda one: one[0] * one[1], default=none)
        name, of_another = member.name, support <= _OF_ANOTHER
        if comparison.measure == 'number' and fact and fact.sentence and fact.target_span:
            name = values.with_unit(name, fact.sentence[fact.target_span[1] :])
        weight, preferred = (n * support * wording for n in (member.weight, probability))
        found = Found(answer, member.id, name, probability, fact, weight, preferred)
        candidates.append(
            found._replace(is_doubtful=of_another or wording < 1, of_another=of_another)
        )
    return candidates


def _of_one_measure(
    units: Sequence[str], candidates: Sequence[Sequence[Found]]
) -> list[list[Found]]:
    """Those of each side that are of the first measure that all sides have, or of any of these."""
    of_unit = [
        [
            [one for one in side if (values.number(one.name) or ('', None))[1] == unit]
            for side in candidates
        ]
        for unit in units
    ]
    any_unit = [list(itertools.chain(*of_side)) for of_side in zip(*of_unit)]
    return next((sides for sides in of_unit if all(sides)), any_unit)


def _best(comparison: Comparison, candidates: list[Found]) -> Found | None:
    """The likeliest; where a question names a value, that first if it is not much less likely."""
    if comparison.measure == 'country':
        candidates = [one for one in candidates if country(one.name)] or candidates
    by_preference = sorted(candidates, key=lambda one: -one.preferred)
    least = by_preference[0].weight * _RIVAL if candidates and comparison.exclusive else 0
    asked = (
        one
        for one in by_preference
        if comparison.asked and one.weight >= least and _is_asked(comparison, one.name)
    )
    return next(asked, next(iter(by_preference), None))


def _wording(comparison: Comparison, answer: Answer, path: Path) -> float:
    """Less than 1 if a fact's sentence has no word of what a question wants confirmed.

    Who directed something has not written it.
    """
    text, sentence = answer.question.text, path[-1].sentence
    if sentence is None or comparison.how not in ('is', 'which'):
        return 1.0
    places = itertools.pairwise([(0, 0), *answer.question.topics, (len(text), 0)])
    asked = set(words_of(''.join(text[end:start] for (_, end), (start, _) in places))) - _ANY_WORDS
    for forms in FORMS:
        asked |= forms if asked & forms else set()
    return _OTHER_WORDS if asked and asked.isdisjoint(words_of(sentence)) else 1.0


def _support(answer: Answer, path: Path) -> float:
    """How much a path's sentences let its end be said of what a question asks, 0 .. 1.

    1 if each has both names.
    """
    if path[0].topic in asked_about(answer):
        return float(np.prod([_says(answer.store, fact) for fact in path]))
    return 1.0 if is_about(answer, path[0]) else _OF_ANOTHER


def _says(store: FactStore, fact: Fact) -> float:
    if fact.sentence is None or not fact.topic_span or not fact.target_span:
        return 1.0
    said = paths.target_sentence(store, fact)
    start = fact.sentence.find(said)
    if start <= fact.topic_span[0] < start + len(said):
        return 1.0
    names = written_as_names(said)
    if fact.topic_span[0] > start or (names and not names[0][0]):
        return _OF_ANOTHER  # it is before the topic, or begins with a name
    return 1.0 if GOES_ON.match(said) and not fact.sentence[:start].endswith('… ') else _FAR


def _is_value(comparison: Comparison, member: Member) -> bool:
    if comparison.measure in ('date', 'year'):
        return values.date(member.name) is not None
    if comparison.measure == 'number':
        return values.number(member.name) is not None
    is_within = comparison.measure == 'name' and comparison.place not in ('', *_ANY_PLACE)
    return member.kind not in VALUES and not (is_within and country(member.name))


def _of_two(comparison: Comparison, left: Found, right: Found, answer: Answerer) -> _Said:
    """What two values come to."""
    how, measure = comparison.how, comparison.measure
    probability, is_doubtful = min(left.probability, right.probability), False
    if _is_denied(left, comparison) or _is_denied(right, comparison):
        return _UNKNOWN
    said: str | int
    if how in ('same', 'different'):
        same = _same_value(measure, left.name, right.name)
        if same is None:
            return _UNKNOWN
        said = 'yes' if same == (how == 'same') else 'no'
        # Of two cities one is not the other, but a city may lie in the region that was found.
        is_doubtful = bool(comparison.place) and not (
            same or all(_is_called(one.name, comparison.place, answer) for one in (left, right))
        )
    else:
        order = values.compare(measure, left.name, right.name)
        if not order:
            return _UNKNOWN
        if how in ('less', 'more'):
            said = 'yes' if (order < 0) == (how == 'less') else 'no'
        else:
            said = int((order > 0) == (how == 'least'))
    return said, probability, is_doubtful or left.is_doubtful or right.is_doubtful


def _is_called(name: str, noun: str, answer: Answerer) -> bool:
    """Whether the text says that something is of a kind: that Oslo is a city."""
    if noun == 'country' and country(name):
        return True
    (found,) = answer([f'What type of thing is {name}?'])
    said = (
        path[-1]
        for one in list(found)[:_LOOKED_AT]
        if fold(one.name).split()[-1:] == [noun]
        for path in found.paths(one.id, _PATHS)
    )
    return any(same_name(fact.topic, name) and _says(found.store, fact) == 1 for fact in said)


def _confirm(comparison: Comparison, found: Found, answer: Answerer) -> _Said:
    """Whether what was found is what is asked: 'yes', 'no' or None."""
    is_negated, how_sure = _is_denied(found, comparison), (found.probability, found.is_doubtful)
    if comparison.how in ('less', 'more'):
        order = values.compare('date', found.name, comparison.asked)
        if is_negated or not order:
            return None, *how_sure
        return 'yes' if (order < 0) == (comparison.how == 'less') else 'no', *how_sure
    if found.of_another:
        return None, 0.0, True
    if _is_asked(comparison, found.name):
        is_stated = not (is_negated or _is_of_part(found)) and _is_described(comparison, found)
        return 'yes' if is_stated else None, *how_sure
    if is_negated or not comparison.exclusive:
        return None, 0.0, found.is_doubtful
    if comparison.measure == 'country' or (comparison.place and country(found.name)):
        is_other = country(found.name) and country(comparison.asked)
        return 'no' if is_other else None, *how_sure
    if not comparison.place:
        return 'no', *how_sure
    if not country(comparison.asked) and _is_apart(comparison.asked, found):
        return 'no', *how_sure
    where = 'Where is {} located?'
    places = _named(answer([where.format(comparison.asked)]))
    least = _RIVAL * max((probability for _, probability in places), default=0.0)
    if any(same_name(name, found.name) and probability >= least for name, probability in places):
        return None, 0.0, True  # the place that is asked for lies in the one that was found
    further = answer([where.format(found.name), f'In which country is {found.name} located?'])
    within = [one for one in _named(further) if one[1] >= _LEAST]
    if at := [probability for name, probability in within if _is_asked(comparison, name)]:
        return 'yes', found.probability * max(at), found.is_doubtful
    if country(comparison.asked):
        at = [probability for name, probability in within if country(name)]
        return ('no' if at else None), found.probability * max(at, default=0.0), found.is_doubtful
    return 'no', found.probability, True  # one may have a place in it that no sentence tells of


def _named(answers: Sequence[Answer]) -> list[tuple[str, float]]:
    """The names that are looked at of answers, and their probabilities."""
    members = itertools.chain(*(list(one)[:_LOOKED_AT] for one in answers))
    return [(member.name, member.probability or 0.0) for member in members]


def _is_of_part(found: Found) -> bool:
    """Whether a sentence ends with a part of what a fact is of: 'wrote the preface of Low Tide'."""
    if not (found.fact and found.fact.sentence and found.fact.topic_span):
        return False
    spans = [span for span in (found.fact.topic_span, found.fact.target_span) if span]
    start, end = max(spans)
    text = found.fact.sentence
    return bool(_OWNS.match(text, end) or _PART_OF.search(text[:start]))


def _is_apart(place: str, found: Found) -> bool:
    """Whether a sentence has a place beside the one found: 'born in Riga, died in Oslo'."""
    sentence, span = (found.fact.sentence, found.fact.target_span) if found.fact else ('', None)
    if not (sentence and span):
        return False
    after = re.escape(place)
    is_within = re.compile(rf'(?:,|\(| in| of| near)(?: the)? {after}').match(sentence, span[1])
    return bool(re.search(rf'\b{after}\b', sentence)) and not is_within


def _is_asked(comparison: Comparison, name: str) -> bool:
    """Whether a value is the one that a question names."""
    asked = comparison.asked
    if comparison.how in ('less', 'more'):
        return True
    if comparison.measure == 'date':
        return values.lies_in(name, asked)
    if (nation := country(asked)) and nation == country(name):
        return True
    return same_name(name, asked)


def _is_described(comparison: Comparison, found: Found) -> bool:
    """Whether a value stands with the words that a question describes it by.

    A jazz singer need not be an opera singer.
    """
    said = found.name
    if found.fact and found.fact.sentence and found.fact.target_span:
        before = found.fact.sentence[: found.fact.target_span[0]]
        said = f'{_PHRASE_BEGINS.split(before)[-1]} {said}'
        said = found.fact.sentence if comparison.measure == 'country' else said
    return comparison.described <= set(words_of(said))


def _same_value(measure: str, left: str, right: str) -> bool | None:
    if measure == 'country':
        nations = country(left), country(right)
        if all(nations):
            return nations[0] == nations[1]
        return True if same_name(left, right) else None if any(nations) else False
    if measure == 'year':
        one, other = values.date(left), values.date(right)
        return int(one[0]) == int(other[0]) if one and other else None
    if measure in ('date', 'number'):
        return values.compare(measure, left, right) == 0
    return same_name(left, right)


def _is_denied(found: Found, comparison: Comparison) -> bool:
    fact = found.fact
    return fact is not None and (denies(fact, comparison.now) or leaves_open(fact))
