"""Whether a sentence says of others that they did what a question asks for.

"Ann thanked the Guild, which paid for it" does not say that Ann paid, and "Ann's sister teaches"
not that Ann does.
"""

import re

from opql_jax.kb.text.roles import is_man, places_of
from opql_jax.kb.text.wanted import is_person_noun
from opql_jax.kb.text.word_lists import FORMS, any_of, stems
from opql_jax.retrieval.words import words_of

_WORD = re.compile(r'[\w-]+')
# "Who first opened it".
_WHO_DID = re.compile(r'\bwho (?:also |first |then |originally )?([a-z]{3,})\b', re.IGNORECASE)
_WHEN_DID = re.compile(
    r"\b(?i:when|where|in (?:which|what) \w+) did ((?:[A-Z][\w'’.-]* )+)([a-z]{3,})\b"
)
_NO_DEED = re.compile(rf'(?:{any_of("auxiliaries")})\b')
_NAME = r"(?!(?:I|We|My|Our)\b)[A-Z][\w'’.-]*"
_SUBJECT = re.compile(
    rf'((?:{_NAME}(?: (?:of|and|&) (?:the )?|, (?:and )?| ))*{_NAME})'
    r'(?P<relative>,? (?:which|who|that))? (?:also |first |then |had |has |later )*$'
)
_CLAUSES = re.compile(r'[,.;:]|\b(?:that|who|which|when|while|because|but|if|as|before|after)\b')
# Deeds of two, which each does, and what a thing does by itself: "Ann married Bo".
_BY_BOTH = re.compile(
    r'married|marries|met|meets|divorced|wed|joined|joins|opened|opens|closed|closes|started|starts'
    r'|began|begins|moved|moves|ended|ends|left|leaves'
)
_THEY = re.compile(r'\b(?:(?P<he>[Hh]e)|[Ss]he) (?:also |first |then |had |has |later )*$')
# "Ann's sister" is not Ann.
_HAS = re.compile(r"['’]s? (?:(?!(?:film|novel|book)\b)[a-z-]+ )??(?:[a-z]+-)*([a-z]+)\b")
# "whose sister", "Ann's sister", before a verb.
_THEIR = re.compile(
    r"(?:\bwhose|['’]s) (?:[a-z-]+ )??(?:[a-z]+-)*([a-z]+) (?:also |first |had |has )*$"
)
_IS = re.compile(r'\b(?:is|was|are|were|became) (?:the )?$')
_WHOSE = re.compile(r'\bwhose\b|\bown|\bbelong', re.IGNORECASE)
# Characters before a verb that are searched for its subject.
_NEAR = 120


def is_deed_of_another(question: str, name: str, sentence: str) -> bool:
    """Whether a sentence says only of others that they did what "who" or "when did" asks for.

    Of "Ann thanked the Guild, which paid for it" it is not Ann who paid.
    """
    if found := _WHEN_DID.search(question):
        asked, doer = found[2], found[1]
        if not set(words_of(doer)[-1:]) <= set(words_of(sentence)):
            return False  # it may have another name there
    elif found := _WHO_DID.search(question):
        asked, doer = found[1], name
    else:
        return False
    if _NO_DEED.match(asked) or sentence.isupper():
        return False
    deeds = [word for word in _WORD.finditer(sentence) if _is_form(word[0].lower(), asked.lower())]
    said, by_both = stems(question), bool(_BY_BOTH.fullmatch(asked))
    ends = [*(deed.start() for deed in deeds[1:]), len(sentence)]
    # Those done to what is asked about, if any is.
    to_it = [
        deed
        for deed, end in zip(deeds, ends)
        if not said.isdisjoint(words_of(sentence[deed.end() : end]))
    ]
    return bool(deeds) and all(
        not sentence.startswith(' by ', deed.end())
        and _is_other(_subject(sentence, deed.start()), doer, said, by_both)
        for deed in to_it or deeds
    )


def _is_form(word: str, asked: str) -> bool:
    """Whether a word is a form of a verb."""
    one, other = words_of(word), words_of(asked)
    return bool(one) and (one == other or any(forms.issuperset(one + other) for forms in FORMS))


def _subject(sentence: str, verb: int) -> re.Match | None:
    """The names, or the pronoun, right before a verb, whose subject they are."""
    start = max(verb - _NEAR, 0)
    found = (each.search(sentence, start, verb) for each in (_SUBJECT, _THEY, _THEIR))
    return next(filter(None, found), None)


def _is_other(subject: re.Match | None, doer: str, asked: frozenset[str], by_both: bool) -> bool:
    """Whether the subject of a verb is known to be another than who did what is asked."""
    if subject is None:
        return False
    if subject.re is _THEY:
        return {subject['he'] is not None, is_man(doer)} == {True, False}
    if subject.re is _THEIR:
        return is_person_noun(subject[1])
    names = words_of(subject[1])
    if not names or not set(names).isdisjoint(words_of(doer)):
        return False
    # Of 'Ann Low and her brother Bo Orr founded it' and 'Ann Low in Brix painted it' Ann may be.
    before = _CLAUSES.split(subject.string[: subject.start()])[-1]
    if not subject['relative'] and not set(words_of(before)).isdisjoint(words_of(doer)):
        return False
    return asked.isdisjoint(names) or not by_both


def is_owner_only(question: str, name: str, sentence: str) -> bool:
    """Whether a sentence has a name only as whose somebody is: "Ann's sister" is not Ann."""
    places = list(places_of(name, sentence))
    if _WHOSE.search(question) or sentence.isupper() or not places:
        return False
    if any(_IS.search(sentence, 0, place.start()) for place in places):
        return False  # 'Bo was Ann's pupil' tells who taught him
    owned = [_HAS.match(sentence, place.end()) for place in places]
    return all(of and is_person_noun(of[1]) for of in owned)
