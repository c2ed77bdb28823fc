"""Questions that offer two to choose from: 'Who is a painter, Orla Finch or Joel Stern?'.

Where `comparison` does not, the reader chooses one of the two.
"""

import dataclasses
import re

import numpy as np

from opql_jax.corpus.name_resolution import fold, without_brackets
from opql_jax.kb import calibration
from opql_jax.kb.answers import Answer
from opql_jax.kb.text.marked_questions import (
    MOST_CHARACTERS,
    Name,
    Side,
    find_pair,
    readings,
)
from opql_jax.kb.text.question_plans import compares

# Pseudo-count of each of the two, and the most that their probabilities may be, so that neither is
# sure: the reader, which was taught by few such questions, is right in 7 of 10, whatever it says.
_PRIOR, _MOST = 1.0, calibration.SURE - 0.01
# Where the two stand that a question chooses from, in its text without them; elsewhere 'or' joins
# what is asked about, as in 'Which war did Norland or Sudland lose?'.
_OFFERS = tuple(
    re.compile(pattern)
    for pattern in (
        r'(?:in )?(?:between|of|out of|among)\b.*\bX[,:]? (?:which|who|what)\b.*',
        r'(?:which|who|what)(?: one)? of X\b.*',
        r'(?:which|who|what)(?: [a-z-]+){0,3}, ?X, ?.*',
        r'(?:which|who|what)\b.*[,:;] ?X',
    )
)
# The two of a question that compares, in its own words: 'Which is higher, the rent or the deposit?'
_SPOKEN = re.compile(
    r'(?:which|who|what)\b[^,\n]*[,:;] (?P<left>[^,\n]{1,60}?),? or (?P<right>[^,?\n]{1,60})[\s?]*',
    re.I,
)
# Another name beside the two.
_THIRD = re.compile(r'@\d+,? ?(?:and |or )?X')


def alternatives(text: str, names: list[Name]) -> tuple[Side, Side] | None:
    """The two names or words that a question offers; `names` are `marked_questions.names_of`."""
    for marked in readings(text, names):
        pair = find_pair(marked.text)
        if not pair:
            continue
        if _THIRD.search(pair.text):
            return None
        offers = _OFFERS if pair.word == 'or' else _OFFERS[:1]
        if any(pattern.fullmatch(pair.text) for pattern in offers):
            return marked.sides(pair)
    if len(text) > MOST_CHARACTERS or not compares(text) or not (two := _SPOKEN.fullmatch(text)):
        return None
    left, right = (Side(two[side], -1, ()) for side in ('left', 'right'))
    return None if ' or ' in right.name else (left, right)


def chosen(answer: Answer, sides: tuple[Side, Side], note: str = '') -> Answer:
    """What was read, without all but the two that the question offers, the likelier first."""
    assert answer.probabilities is not None  # what was read has them
    of_side: dict[int, list[int]] = {0: [], 1: []}
    for place, entity in enumerate(answer.entities.tolist()):
        if (number := _side(answer, entity, sides)) is not None:
            of_side[number].append(place)
    known = {number: answer.probabilities[places].sum() for number, places in of_side.items()}
    there = (number for number, places in of_side.items() if places)
    ranked = sorted(there, key=lambda number: -known[number])
    if not ranked:
        nothing = {name: getattr(answer, name)[:0] for name in ('entities', 'weights')}
        note = 'the text does not decide between the two'
        return dataclasses.replace(answer, **nothing, probabilities=None, note=note)
    total = sum(known.values()) + 2 * _PRIOR
    likely = [min((known[number] + _PRIOR) / total, _MOST) for number in ranked]
    shares = np.array(likely, np.float32)
    best = {number: int(answer.entities[of_side[number][0]]) for number in ranked}
    # What was read, 'eel', is called as in the question, 'the smoked eel'.
    phrases = list(answer.phrases)
    for number, entity in best.items():
        if entity < 0 and sides[number].entity < 0:
            phrases[-1 - entity] = sides[number].name
    return dataclasses.replace(
        answer,
        entities=np.array(list(best.values())),
        weights=shares / shares.sum(),
        probabilities=shares,
        phrases=tuple(phrases),
        note=answer.note or note,
    )


def _side(answer: Answer, entity: int, sides: tuple[Side, Side]) -> int | None:
    """Which of the two an answer is: by its words, or by the title of its passage."""
    words, names = _words(answer.name_of(entity)), [_words(side.name) for side in sides]
    is_named = lambda name: words and name and (words <= name or name <= words)
    named = [number for number, name in enumerate(names) if is_named(name)]
    if len(named) == 1:
        return named[0]
    titles = [_words(path[-1].title or '') for path in answer.paths(entity, 1)]
    about = [number for number, name in enumerate(names) if name in titles and words & name]
    return about[0] if len(about) == 1 else None


def _words(name: str) -> frozenset[str]:
    return frozenset(fold(without_brackets(name)).split()) - {'the'}
