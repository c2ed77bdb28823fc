"""Yes or no, where a sentence says in a question's own words what that asks, or denies it.

'Did Ada Finch lead the first survey of the Harl?' is yes by 'Finch led the first full survey of the
Harl in 1911.' Of other questions the plain ones of `fact_questions` may decide; where
these do not, the reader says what is likelier.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from opql_jax.corpus.spans import VALUES
from opql_jax.kb.answers import Answer
from opql_jax.kb.calibration import LEAST
from opql_jax.kb.text import values
from opql_jax.kb.text.claims import NOUN, Claim, judged
from opql_jax.kb.text.comparison import linked_names
from opql_jax.kb.text.marked_questions import IS, Name, mark_names, readings
from opql_jax.kb.text.negation import rewritten
from opql_jax.kb.text.polarity import ASIDE
from opql_jax.kb.text.referents import Referent, places_of, sentences_of
from opql_jax.kb.text.values import DATE, same_name
from opql_jax.kb.text.word_lists import LISTS, stems
from opql_jax.models.reader import Span
from opql_jax.retrieval.words import words_of

_ASKS = re.compile(rf'(?P<aux>{IS}|did|do|does|has|have|had|can|may|must|will) (?P<rest>\S.*)')
_AUX = {'are': 'is', 'were': 'was', 'have': 'has', 'had': 'has', 'may': 'can'}
_OR = re.compile(r'\bor\b')
# The greatest probability of what the reader alone takes to be so, which is unsure, and its note.
_LIKELIER = 0.55
# How often a question is answered with yes for once that the reader's examples are, beside no.
_YES = 4.0
_NOT_SAID = 'no sentence says this in words: the reader takes it so'
_NOT_ASKED = re.compile(r'\b(?:same|different|both|or|not|never|than)\b')
_NUMBER, _NEAR = re.compile(r' \d[\w.]*\b'), 30
_TOKEN = re.compile(r"@\d|['’]s\b|[^\W_]+(?:[-.,]\w+)*|[^\w\s]")
# Words of a question that say nothing of what it asks, and those of which a sentence has others.
_FILLERS = frozenset(
    'the a an ever any still now currently also really actually already yet there'.split()
)
_ANYBODY = {'anyone': 'anybody', 'somebody': 'anybody', 'someone': 'anybody'}
_ARTICLES = frozenset(('the', 'a', 'an'))
# Subjects that are none of the things that a text is about.
_WORDS = frozenset(('there', 'anybody', 'anything'))
# Words of a subject that is no name, at most.
_LONGEST_SUBJECT = 6
# Names of a question, which have the marks '@0' to '@8'.
_MOST_NAMES = 9
# What says that what was over is so again.
_AGAIN = re.compile(r'\b(?:again|back|still|return|re-?(?:join|gain|purchas|open))', re.IGNORECASE)
_PREPOSITIONS = frozenset('in on at of by for from with to during'.split())
# What is over by what: who sold a mill does not own it.
_ENDS = tuple(tuple(tuple(words.split()) for words in pair) for pair in LISTS['ended_by'])
# Possessive pronouns, which are whose they mean.
_OWNS = re.compile(r'(?:its|their|his|her)', re.IGNORECASE)
# 'Ada, who led the survey', 'Ada is a chemist who led it'.
_RELATIVE = re.compile(r'(@\d)(?:,| (?:is|was) an? [\w -]{1,40}?)? (?:who|which) ([^,.;]*)')
# 'It was not Ada who led the survey'.
_CLEFT = re.compile(r'^It (?:is|was) (not )?(.{1,60}?),? (?:who|that|which) ')


class _Asked(NamedTuple):
    """A reading of a question: what marks in it stand for, by mark, and claims to be judged."""

    referents: Mapping[str, Referent]
    claims: Sequence[Claim]


def stated(answer: Answer) -> Answer | None:
    """Yes or no by the sentences of the passages that were read; None if these leave it open."""
    if answer.evidence is None:
        return None
    said: dict[str, tuple[float, Span]] = {}
    for asked in _readings(answer):
        for number, passage in enumerate(answer.evidence.passages):
            row = answer.store.prepared.passage(passage)
            for (word, probability), (start, end) in _says(asked, answer, row):
                if probability > said.get(word, (0.0, None))[0]:
                    said[word] = probability, Span(number, start, end, 1.0)
    if len(said) != 1:
        return None
    ((word, (probability, span)),) = said.items()
    return _with(answer, word, probability, span)


def likelier(answer: Answer) -> Answer | None:
    """Yes or no as the reader takes the passages; None if it takes them to say neither.

    It is never sure, and rests on the sentence that has most words of the question.
    """
    if answer.evidence is None or _OR.search(answer.question.text):
        return None
    reading, asked = answer.evidence.reading, stems(answer.question.text)
    decided = reading.yes + reading.no
    yes = _YES * reading.yes / max(_YES * reading.yes + reading.no, LEAST)
    word, probability = max(('yes', yes), ('no', 1 - yes), key=lambda pair: pair[1])
    found = []
    for number, passage in enumerate(answer.evidence.passages):
        row = answer.store.prepared.passage(passage)
        sentences = sentences_of(row)
        cut = sentences[0].start if sentences else 0
        for start, end in sentences:
            shared = len(asked.intersection(words_of(row['text'][start:end])))
            found.append((shared, -number, Span(number, start - cut, end - cut, 1.0)))
    shared, _, span = max(found, key=lambda each: each[:2], default=(0, 0, None))
    if reading.unanswered > decided or not shared or span is None:
        return None
    return _with(answer, word, min(decided * probability, _LIKELIER), span, _NOT_SAID)


def _with(answer: Answer, word: str, probability: float, span: Span, note: str = '') -> Answer:
    """An answer of one word by one sentence."""
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
        note=note,
    )


def _readings(answer: Answer) -> Iterator[_Asked]:
    """What a question of yes or no may ask; nothing of other questions."""
    text = answer.question.text
    names = list(_names(text, linked_names(answer.question, answer.store.vocab.kinds)))
    for marked in readings(text, names) if names else [mark_names(text, [])]:
        found = _ASKS.fullmatch(marked.text)
        if not found or _NOT_ASKED.search(found['rest']) or len(marked.names) > _MOST_NAMES:
            continue
        referents = {
            f'@{number}': Referent(name.entity, re.sub(r'^[Tt]he ', '', said))
            for number, (name, said) in enumerate(zip(marked.names, marked.said))
        }
        aux, tokens = _AUX.get(found['aux'], found['aux']), _TOKEN.findall(found['rest'])
        for noun, lead, words in _subjects(tokens):
            subject = noun if noun in _WORDS else NOUN if noun else tokens[0]
            marks = referents | ({NOUN: Referent(-1, noun, True)} if subject == NOUN else {})
            yield _Asked(marks, list(_claims(aux, subject, lead, words, marks)))
        # Of 'did @0 design the bridge' whether the bridge was designed by @0.
        verb, *thing = [one for one in tokens[1:] if one not in _FILLERS] or ['']
        is_thing = verb.isalpha() and _PREPOSITIONS.isdisjoint((verb, *thing))
        is_thing = is_thing and 1 <= len(thing) <= 3 and all(map(str.isalpha, thing))
        if found['aux'] == 'did' and tokens[0][0] == '@' and is_thing:
            marks = referents | {NOUN: Referent(-1, ' '.join(thing), True)}
            yield _Asked(marks, [Claim('was', NOUN, (verb, 'by', tokens[0]))])
        return


def _names(text: str, names: Sequence[Name]) -> Iterator[Name]:
    """The names of a question but for values and common nouns, with the numbers that end them."""
    for name in names:
        said = text[name.start : name.end]
        if said.islower() or name.kind in VALUES or DATE.fullmatch(said):
            continue
        number = _NUMBER.match(text, name.end)
        measured = number and values.number(text[name.end : name.end + _NEAR])
        number = None if measured and measured[1] else number  # 'Is the Harl 40 metres long?'
        yield Name(name.start, number.end(), kind=name.kind) if number else name


def _subjects(tokens: Sequence[str]) -> Iterator[tuple[str, list[str], list[str]]]:
    """What may be a question's subject, the words that belong to it, and the further words.

    '' is its first name; 'offices', 'of @0' and 'in Leeds' are those of 'the offices of @0 in
    Leeds'.
    """
    words = lambda rest: [one for one in rest if one not in _FILLERS]
    if tokens[0][0] == '@':
        yield '', [], words(tokens[1:])
    elif tokens[0] == 'there':
        yield 'there', [], words(tokens[1:])
    else:
        begin = tokens[0] in _FILLERS
        for end in range(begin + 1, min(len(tokens), begin + _LONGEST_SUBJECT)):
            subject, after = words(tokens[begin:end]), words(tokens[end:])
            if not subject or not after or tokens[end - 1] in (*_PREPOSITIONS, *_FILLERS):
                continue
            inner = (at for at, one in enumerate(subject) if one in _PREPOSITIONS)
            cut = next(inner, len(subject))
            noun = _ANYBODY.get(subject[0], ' '.join(subject[:cut]))
            if noun and '@' not in noun:
                yield noun, subject[cut:], after


def _claims(
    aux: str,
    subject: str,
    lead: Sequence[str],
    words: Sequence[str],
    referents: Mapping[str, Referent],
) -> Iterator[Claim]:
    """What a question asks for, in the ways in which sentences may say it."""
    if aux == 'has' and words[:1] == ['been']:
        aux, words = 'was', words[1:]
    if lead:
        yield Claim(aux, subject, (*lead, *words), lead=len(lead))
        if len(lead) == 2 and lead[0] == 'of' and lead[1] in referents:
            said = ("'s", subject, *words)
            yield Claim(aux, lead[1], said, lead=2)
        return
    yield Claim(aux, subject, tuple(words))
    if len(words) > 2 and words[-2] == 'of' and words[-1][0] == '@':
        begin = aux not in ('is', 'was')  # 'its director' for 'director of it'
        yield Claim(aux, subject, (*words[:begin], words[-1], "'s", *words[begin:-2]))
    # 'The bridge was designed by Orr' for 'Orr designed the bridge', and the reverse.
    if aux in ('did', 'does', 'do') and len(words) == 2 and words[1][0] == '@':
        yield Claim('was' if aux == 'did' else 'is', words[1], (words[0], 'by', subject))
    if aux in ('is', 'was') and len(words) == 3 and words[1] == 'by' and words[2][0] == '@':
        yield Claim('did' if aux == 'was' else 'does', words[2], (words[0], subject))
    is_of = words[-2:-1] == ['of'] or (
        words[-2:-1] in (['in'], ['at']) and subject[1:] in ('9', 'here')
    )
    if len(words) > 2 and is_of and not words[-1].isdigit():
        last = referents[words[-1]].name if words[-1] in referents else words[-1]
        yield Claim(aux, subject, tuple(words[:-2]), (last,))
    if words[:1] == ['have'] and words[1:] and subject in referents:
        yield Claim('is', 'there', tuple(words[1:]), (referents[subject].name,))
    if aux in ('does', 'do'):
        for state, end in _ENDS:
            if tuple(words[: len(state)]) == state:
                yield Claim('did', subject, (*end, *words[len(state) :]), is_end=True)


def _says(
    asked: _Asked, answer: Answer, row: Mapping[str, Any]
) -> Iterator[tuple[tuple[str, float], tuple[int, int]]]:
    """What each sentence of a passage says of what is asked, with its characters in the text."""
    vocab = answer.store.vocab
    places = sorted(
        (start, end, mark)
        for mark, referent in asked.referents.items()
        for start, end in places_of(referent, row, vocab)
    )
    sentences = sentences_of(row)
    cut = sentences[0].start
    before: list[str] = []
    for start, end in sentences:
        here = [place for place in places if start <= place[0] and place[1] <= end]
        said = _marked(row['text'], start, end, here)
        whole = _tokens(ASIDE.sub(' ', said))
        parts = [whole, *map(_tokens, map(' '.join, _RELATIVE.findall(said)))]
        for claim, tokens in itertools.product(asked.claims, parts):
            is_about = all(_is_about(name, row) for name in claim.about)
            is_about = is_about and not (claim.is_end and _AGAIN.search(row['text']))
            if is_about and (found := judged(claim, tokens, before)):
                yield found, (start - cut, end - cut)
                break
        before = whole


def _is_about(name: str, row: Mapping[str, Any]) -> bool:
    """Whether a passage is about what is called so, by its title or first sentence."""
    title = row['title'] or ''
    first = row['text'][slice(*sentences_of(row)[0])]
    words = stems(name)
    return same_name(title, name) or words <= stems(f'{title} {first}')


def _marked(text: str, start: int, end: int, places: Sequence[tuple[int, int, str]]) -> str:
    """A sentence with marks for what a question names."""
    pieces, place, text = [], start, text.replace('@', ' ')  # which marks begin with
    for first, last, mark in places:
        if first >= place:
            owns = "'s" if _OWNS.fullmatch(text[first:last]) else ''
            ends = '.' if re.match(r'\. [A-Z]', text[last - 1 : last + 2]) else ''
            pieces += [text[place:first], f'{mark}{owns}{ends}']
            place = last
    return _CLEFT.sub(r'\2 \1', ''.join([*pieces, text[place:end]]).strip())


def _tokens(text: str) -> list[str]:
    """The words and signs of a sentence, without articles and with denials in one form."""
    found = _TOKEN.findall(rewritten(text.replace('’', "'")))
    return [one for one in found if one.lower() not in _ARTICLES]
