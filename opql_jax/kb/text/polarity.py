"""Whether a fact's sentence denies it, or says that it was so once and is no longer."""

import re

from opql_jax.kb.paths import Fact

_NEGATED = re.compile(
    r'\b(?:not(?! only)|never|nor|neither|denie[sd]|denying|deny|refuse[sd]|declined|rejected'
    r'|falsely|wrongly|mistakenly|allegedly'
    r"|supposedly|rumou?red|unlike|instead of|rather than)\b|n['’]t\b",
    re.IGNORECASE,
)
# What is denied in favour of what follows: 'was not written by Ann, but by Bob' states something
# of Bob.
_NOT_BUT = re.compile(r'\bnot\b[^.;]*\bbut\b', re.IGNORECASE)
# What is said between a name and its verb: ', who was never married,'.
_ASIDE = re.compile(r', (?:who|which|whose|where|whom)\b[^,]*,|\([^()]*\)')
_NO_LONGER = re.compile(
    r'\b(?:no longer|used to|former|formerly|previously|until|once|ex-\w+|then-\w+)\b',
    re.IGNORECASE,
)
_PRESENT = re.compile(r'^(?:\w+\s+){0,4}?(?:is|are|does|do)\b', re.IGNORECASE)
_NOW = re.compile(r'\b(?:now|currently|today|still)\b', re.IGNORECASE)
# A state that the past tense says is over, or leaves open.
_WAS = re.compile(r'\b(?:was|were|lived|worked|stayed|resided|served|owned|had)\b', re.IGNORECASE)


def denies(fact: Fact, of_present: bool, of_now: bool = False) -> bool:
    """Whether a fact's sentence, if any, says that it is not so.

    Or, if that matters, that it was so once.

    What is asked for `of_present` is denied by 'former', 'until' and the like; `of_now`, by a state
    in the past tense, too.
    """
    if fact.sentence is None:
        return False
    text = between = fact.sentence
    if fact.topic_span and fact.target_span:
        first, last = sorted((fact.topic_span, fact.target_span))
        start = max(text.rfind(mark, 0, first[0]) for mark in ('. ', '; ')) + 1
        text = _ASIDE.sub(' ', fact.sentence[start : last[1]])
        between = _ASIDE.sub(' ', fact.sentence[first[0] : last[1]])
    if _NEGATED.search(_NOT_BUT.sub(' ', text)):
        return True
    return bool((of_present and _NO_LONGER.search(between)) or (of_now and _WAS.search(between)))


def denies_answer(fact: Fact, question: str) -> bool:
    """Whether the sentence of a fact denies what a question asks for."""
    is_now = bool(_NOW.search(question))
    return not _NEGATED.search(question) and denies(
        fact, is_now or bool(_PRESENT.search(question)), is_now
    )
