"""Whether the sentence behind an answer states what the question asks, judged by its words.

In a short text the reader may take any person for the founder, or the date of an election for a
date of birth. An answer is not sure if its sentence has no word for the relation that is asked for,
or its passage is about something else; it may still be right.
"""

from __future__ import annotations

from opql_jax.kb import calibration
from opql_jax.kb.answers import Answer
from opql_jax.kb.paths import Fact, Path
from opql_jax.kb.text.relation_words import says
from opql_jax.kb.text.subject import is_about

# Facts of an answer that are checked; the factor of its probability if none states it, which leaves
# it unsure.
_FACTS, _UNSTATED = 3, calibration.SURE


def left(answer: Answer, entity: int) -> float:
    """The factor of the probability of one of an answer's entities: 1 if a sentence states it.

    The passage of one of the best facts behind it has to be about what is asked, and its sentence
    to state the relation.
    """
    last = max(answer.plans, key=len, default=())
    step = last[-1].text if len(last) > 1 else answer.question.text
    for start, end in answer.question.topics:
        step = step.replace(answer.question.text[start:end], ' ')
    paths = answer.paths(entity, _FACTS)
    return 1.0 if not paths or any(_states(answer, path, step) for path in paths) else _UNSTATED


def _states(answer: Answer, path: Path, relation: str) -> bool:
    """Whether a path is about what is asked, and its last sentence states the relation."""
    fact = path[-1]
    return is_about(answer, path[0]) and says(relation, fact.sentence or '', _near(answer, fact))


def _near(answer: Answer, fact: Fact) -> str:
    """The title of a fact's passage, and its sentence with the one before and the one after."""
    if fact.passage is None or fact.places is None:
        return ''
    passage = answer.store.prepared.passage(fact.passage)
    starts = [*passage['sentence_starts'], len(passage['text'])]
    first, last = fact.places[1]
    before = max((start for start in starts if start < first), default=0)
    after = [start for start in starts if start >= last][1:2] or starts[-1:]
    return f'{fact.title or ""}: {passage["text"][before : after[0]]}'
