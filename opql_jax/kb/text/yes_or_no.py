"""Yes or no, where a sentence says in a question's own words what that asks, or denies it.

'Did Ada Finch lead the first survey of the Harl?' is yes by 'Finch led the first full survey of the
Harl in 1911.' Of other questions the plain ones of `fact_questions` may decide.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from opql_jax.corpus.name_resolution import fold, without_brackets
from opql_jax.corpus.splitting import text_start
from opql_jax.kb.answers import Answer
from opql_jax.kb.text.comparison import linked_names
from opql_jax.kb.text.fact_questions import past_of
from opql_jax.kb.text.marked_questions import BASES, FORMS, IS, PAST_OF_PARTICIPLE, Marked, readings
from opql_jax.kb.text.polarity import ASIDE
from opql_jax.kb.text.values import same_name
from opql_jax.models.reader import Span
from opql_jax.retrieval.words import words_of

# The probability of what a sentence states, and of what it states of less: the first successful
# survey need not be the first.
_STATED, _OF_LESS = 0.85, 0.5
_ASKS = re.compile(rf'(?P<aux>{IS}|did|do|does|has|have|had) @(?P<subject>\d) (?P<rest>.+)')
_NOT_ASKED = re.compile(r'\b(?:same|different|both|or|not|never|than)\b')
_TOKEN = re.compile(r"@\d|\w+n['’]t\b|['’]s\b|[^\W_]+(?:[-.]\w+)*|[^\w\s]")
_ARTICLES = frozenset(('the', 'a', 'an', 'ever'))
# How many words a sentence may have between two of the question's, such as 'full' above, and which
# it may not: who wrote of the survey, or wanted to lead it, has not led it.
_MOST_BETWEEN = 3
_BREAKS = re.compile(
    r"[^\w@]|['’]s|and|or|nor|but|that|which|wh\w+|if|as|for|to|of|in|on|at|by|with|from|into|about"
    r'|against|after|before|until|be|been|being|no|nearly|almost|hardly|barely|instead|rather|than'
    r'|former|formerly|previously|once|vice|deputy|acting|honorary|future|planned|proposed|failed'
    r'|unsuccessful|unsuccessfully|alleged|fake|mock',
    re.IGNORECASE,
)
_PRONOUN = re.compile(r'\b(?:he|she)\b', re.IGNORECASE)
_NOT = re.compile(r"not|never|\w+n['’]t", re.IGNORECASE)
# What may stand before the subject: 'the widow of Ada' and 'neither Abe nor Ada' are others, and
# what is said 'in the novel' is not so.
_BEFORE_SUBJECT = re.compile(r'(?:(?:In|On|By|During|Since)(?: [A-Z]\w+| \d{1,4})+(?: ,)?)?')
# Words that leave a sentence open.
_OPEN = re.compile(
    r'\b(?:if|whether|would|could|might|(?-i:may)|perhaps|maybe|allegedly|reportedly|supposed\w*'
    r'|falsely|wrongly|claim\w*|rumou?r\w*|legend\w*|myths?|believ\w+|thought|deni\w+|deny|doubt\w*|until'
    r'|yet|only|unless)\b|\?',
    re.IGNORECASE,
)
# What is the first, or the largest, is so of what the next word says.
_OF_NEXT = re.compile(r'first|second|third|last|only|most|least|\w{2,}est')
# What may follow the last word: 'surveyed the Harl valley' is not said of the Harl.
_FOLLOWS = re.compile(
    r"[^\w@'’-]|\d.*|after|again|against|among|around|before|between|but|near|once|over|since|then"
    r'|through|throughout|twice|under|until|while|without|within',
    re.IGNORECASE,
)


class _Asked(NamedTuple):
    """What a question asks: its auxiliary verb, the mark of its subject, and its other words."""

    marked: Marked
    aux: str
    subject: str
    words: list[str]


def stated(answer: Answer) -> Answer | None:
    """Yes or no by the sentences of the passages that were read; None if these leave it open."""
    if answer.evidence is None or not (asked := _asked(answer)):
        return None
    said: dict[str, tuple[float, Span]] = {}
    for number, passage in enumerate(answer.evidence.passages):
        row = answer.store.prepared.passage(passage)
        cut = text_start(row)
        starts = [cut, *(start for start in row['sentence_starts'] if start > cut)]
        for before, start, end in zip([cut, *starts], starts, [*starts[1:], len(row['text'])]):
            if found := _says(asked, answer, row, before, start, end):
                word, probability = found
                if probability > said.get(word, (0.0, None))[0]:
                    said[word] = probability, Span(number, start - cut, end - cut, 1.0)
    if len(said) != 1:
        return None
    ((word, (probability, span)),) = said.items()
    one = np.ones(1, np.float32)
    return dataclasses.replace(
        answer,
        entities=np.array([-1]),
        weights=one,
        probabilities=probability * one,
        phrases=(word,),
        read={-1: (span,)},
        traces=(),
        plans=(),
        note='',
    )


def _asked(answer: Answer) -> _Asked | None:
    """What a question of yes or no asks of a name; None of other questions."""
    names = linked_names(answer.question, answer.store.vocab.kinds)
    for marked in readings(answer.question.text, names):
        if (found := _ASKS.fullmatch(marked.text)) and not _NOT_ASKED.search(found['rest']):
            words = [word for word in _TOKEN.findall(found['rest']) if word not in _ARTICLES]
            return _Asked(marked, found['aux'], f'@{found["subject"]}', words) if words else None
    return None


def _says(
    asked: _Asked, answer: Answer, row: Mapping[str, Any], before: int, start: int, end: int
) -> tuple[str, float] | None:
    """Whether a sentence states or denies what is asked: 'yes' or 'no' with a probability, or None.

    It is the characters `[start, end)` of a passage; the one `before` begins there.
    """
    text = row['text'][start:end]
    if _OPEN.search(text):
        return None
    spans = [
        (span[0] - start, span[1] - start, f'@{number}')
        for number in range(len(asked.marked.names))
        for span in _mentions(asked, number, answer, row, before)
        if start <= span[0] and span[1] <= end
    ]
    pieces, place = [], 0
    for first, last, mark in sorted(spans):
        if first >= place:
            pieces += [text[place:first], mark]
            place = last
    tokens = _TOKEN.findall(ASIDE.sub(' ', ''.join([*pieces, text[place:]])))
    at = tokens.index(asked.subject) if asked.subject in tokens else len(tokens)
    if not _BEFORE_SUBJECT.fullmatch(' '.join(tokens[:at])):
        return None
    return _follows(asked, tokens[at + 1 :])


def _mentions(
    asked: _Asked, number: int, answer: Answer, row: Mapping[str, Any], before: int
) -> Iterator[tuple[int, int]]:
    """The characters of a passage that mean one of the question's names.

    'He' or 'she' does in a text about that name, if nobody else was named from `before` on.
    """
    vocab, name = answer.store.vocab, asked.marked.names[number]
    bare = re.sub(r'^[Tt]he ', '', asked.marked.said[number])
    full = without_brackets(vocab.names[name.entity]) if name.entity >= 0 else bare
    others = []
    for mention in row['mentions']:
        span, entity = (mention['start'], mention['end']), mention['entity']
        if is_person := vocab.kinds[entity] == 'person':
            is_alike = same_name(without_brackets(vocab.names[entity]), full)
        else:
            is_alike = fold(row['text'][slice(*span)]) == fold(bare)
        if entity == name.entity or is_alike:
            yield span
        elif is_person and span[0] >= before:
            others.append(span[0])
    if f'@{number}' == asked.subject and same_name(row['title'] or '', full):
        for found in _PRONOUN.finditer(row['text'], before, min(others, default=len(row['text']))):
            yield found.span()


def _follows(asked: _Asked, tokens: Sequence[str]) -> tuple[str, float] | None:
    """'yes' or 'no' if the words after a subject are what is asked of it, or deny that."""
    place, is_denied, before, probability = 0, False, '', _STATED
    for word in asked.words:
        ends = place + _MOST_BETWEEN + 1
        at = next((i for i, one in enumerate(tokens[:ends]) if i >= place and _is(word, one)), None)
        if at is None:
            return None
        between = tokens[place:at]
        if not before:
            is_denied = any(map(_NOT.fullmatch, between))
            between = [one for one in between if not _NOT.fullmatch(one)]
            has_name = any(one[0].isupper() or one[0] == '@' for one in between)
            if has_name or not _is_form(asked.aux, between, tokens[at], is_denied):
                return None
        if any(map(_BREAKS.fullmatch, between)) or any(map(_NOT.fullmatch, between)):
            return None
        if between and _OF_NEXT.fullmatch(before):
            probability = _OF_LESS
        place, before = at + 1, word
    after = tokens[place : place + 1]
    if any(words_of(one) and not _FOLLOWS.fullmatch(one) for one in after):
        return None
    return 'no' if is_denied else 'yes', probability


def _is(word: str, token: str) -> bool:
    """Whether a word of a sentence is one of the question's, in any form."""
    if '@' in (word[0], token[0]):
        return word == token
    one, other = words_of(word), words_of(token)
    if not one or not other:
        return word == token.lower()
    is_form = any(forms.issuperset(one + other) for forms in FORMS)
    return one == other or is_form or token.lower() == past_of(word)


def _is_form(aux: str, between: Sequence[str], verb: str, is_denied: bool) -> bool:
    """Whether what stands after a subject is in the form that the question's auxiliary asks for."""
    is_past = verb.endswith('ed') or verb in BASES or verb in PAST_OF_PARTICIPLE
    found = [one.lower() for one in between if re.fullmatch(IS, one.lower())]
    if re.fullmatch(IS, aux):
        return found in ([['is'], ['are']] if aux in ('is', 'are') else [['was'], ['were']])
    if found or verb.endswith('ing'):
        return False
    return is_denied or is_past == (aux not in ('do', 'does'))
