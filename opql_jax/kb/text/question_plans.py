"""How a question in plain words may be answered hop by hop, without knowing how many hops it takes.

A phrase that holds the topic may stand for an entity that is to be found first: 'where did the
father of [Ada Lovelace] die' is 'the father of [Ada Lovelace]' and then 'where did [it] die'. Which
of the plans is right is decided by the memory.
"""

import itertools
import re
from typing import NamedTuple

from opql_jax.kb.text.word_lists import LISTS, any_of

# Where a phrase may begin, and words at which it may end.
_BEGIN = re.compile(r'\b(?:the|a|an|those|all)\s+', re.IGNORECASE)
_POSSESSIVE = re.compile(r"['’]s?\s+((?:[a-z-]+\s){0,2}[a-z-]+)\b")
_WORD, _AFTER_WORD = re.compile(r"[\w'’.-]+"), "'’.-"
_QUESTION_WORDS = re.compile(rf'\b(?:{any_of("question_words", "auxiliaries")})\b', re.IGNORECASE)
_RELATIVE = r'\b(?:who|whom|that|which|whose|where)\b'
# Words after the topic at which a phrase may end.
_MOST_ENDS = 4
_MOST_HOPS, _MOST_PLANS = 4, 10
# Kinship that texts rarely state in one word, as the steps that lead there: a paternal grandfather
# is the father of the father.
_KIN = {kin: steps for kin, *steps in LISTS['kin_in_steps']}
_OF_KIN = re.compile(
    rf'\b(?:the )?({"|".join(_KIN)}) of (?=@)|(?<=@)[\'’]s? ({"|".join(_KIN)})\b(?![\'’])',
    re.IGNORECASE | re.ASCII,
)
_ONLY_WHERE = re.compile(r'\s*where (?:is|are|was|were) ', re.IGNORECASE)
# The rest of a question must have a word beyond these.
_EMPTY = frozenset(
    'it a an the of in on at to by for from with and or that this these those name s'.split()
)


class Step(NamedTuple):
    """A question of one hop: its text, and the characters of its topic."""

    text: str
    topic: tuple[int, int]


Plan = tuple[Step, ...]


def plans(text: str, topic: tuple[int, int]) -> list[Plan]:
    """The plans for a question about one topic, of which these are the characters.

    That of one hop first, then those with more.
    """
    # A name may end with such, too.
    whole = Step(text[: max(topic[1], len(text.rstrip(' ?.!')))], topic)
    found: dict[Plan, None] = {}
    for step in (whole, _in_steps(whole)):
        if step:
            _extend(step, (), found)
    return sorted(found, key=len)[:_MOST_PLANS]


def _in_steps(whole: Step) -> Step | None:
    """A question for the kin of its topic with the steps that lead there; None of others."""
    text, (start, end) = whole
    kin = _OF_KIN.search(f'{text[:start]}@{text[end:]}')
    if not kin:
        return None
    last, first = _KIN[(kin[1] or kin[2]).lower()]
    before, after = (
        (text[: kin.start()], text[end:])
        if kin[1]
        else (text[:start], text[end + kin.end() - start - 1 :])
    )
    before += f'the {last} of the {first} of '
    return Step(f'{before}{text[start:end]}{after}', (len(before), len(before) + end - start))


def _extend(step: Step, after: Plan, found: dict[Plan, None]) -> None:
    """Adds the plans that answer `step` and then the steps `after`."""
    found[step, *after] = None
    if len(after) + 1 >= _MOST_HOPS:
        return
    for start, end in _phrases(step):
        inner = Step(step.text[start:end], (step.topic[0] - start, step.topic[1] - start))
        rest = Step(f'{step.text[:start]}it{step.text[end:]}', (start, start + 2))
        if says_something(inner) and (says_something(rest) or asks_only_where(rest)):
            _extend(inner, (rest, *after), found)


def says_something(step: Step) -> bool:
    """Whether a step has a word that may name a relation."""
    around = f'{step.text[: step.topic[0]]} {step.text[step.topic[1] :]}'.lower()
    return any(
        word not in _EMPTY and not _QUESTION_WORDS.fullmatch(word)
        for word in re.findall(r'[^\W\d_]+', around)
    )


def asks_only_where(step: Step) -> bool:
    """Whether a step asks where its topic is, and no more."""
    return bool(_ONLY_WHERE.fullmatch(step.text, 0, step.topic[0])) and not re.search(
        r'\w', step.text[step.topic[1] :]
    )


def _phrases(step: Step) -> list[tuple[int, int]]:
    """The spans of phrases that contain the topic and more, but not the whole question."""
    text, (start, end) = step
    found = []
    if possessive := _POSSESSIVE.match(text, end):  # "Ada Lovelace's father"
        words = possessive.group(1).split(' ')
        place = possessive.start(1)
        for word in words:
            place += len(word)
            found.append((start, place))
            place += 1
    begins = [match.span() for match in _BEGIN.finditer(text, 0, start)][-3:]
    words = ((match.start(), match[0].rstrip(_AFTER_WORD)) for match in _WORD.finditer(text, end))
    ends = [
        end,
        *itertools.islice((start + len(word) for start, word in words if word), _MOST_ENDS),
    ]
    for begin, after_article in reversed(begins):
        inside = text[begin:start]
        if _QUESTION_WORDS.search(inside) and not re.search(_RELATIVE, inside):
            continue  # not one phrase
        if not re.search(r'\w', text[after_article:start]):
            continue  # an article of the topic alone
        for stop in ends if re.search(_RELATIVE, inside) else ends[:1]:
            found.append((begin, stop))
    return list(dict.fromkeys(found))


YES_OR_NO = re.compile(rf'\s*(?:{any_of("auxiliaries")}|may|must)\b', re.IGNORECASE)
_SIZES = [word for words, *_ in LISTS['sizes'] for word in words.split()]
_MORE = '|'.join(
    'older elder younger newer more less fewer better worse nearer closer cheaper dearer '
    'stronger'.split()
    + [word for word in _SIZES if word.endswith('er')]
)
_MOST = '|'.join(word for word in _SIZES if word.endswith('est'))
_COMPARISON = re.compile(
    rf'\b(?:first|last|earlier|later|same|both|{_MORE}|{_MOST})\b', re.IGNORECASE
)
_OR_AND = re.compile(r'\b(?:or|and)\b', re.IGNORECASE)


def compares(text: str) -> bool:
    """Whether a question compares two things."""
    return any(
        (word := _COMPARISON.search(line)) and _OR_AND.search(line, word.end())
        for line in text.split('\n')
    )


def is_question(text: str) -> bool:
    """Whether a text has one of the words by which English asks."""
    return bool(_QUESTION_WORDS.search(text))


# "the largest city", "the most films"; what is no superlative, or is one of a thing itself, is
# left out.
_SUPERLATIVE = re.compile(
    r'\bthe (?:(?:(?:second|third|fourth|fifth)[ -])?(?!(?:best known|latest|first|forest|west|east'
    r'|rest|test|guest|chest|interest|request|priest|nest|quest|honest)\b)([a-z]{2,}est)|(most'
    r'|fewest|least) [a-z]+)\b',
    re.IGNORECASE,
)
# "Which of the bells is older?", "Who has more books than Ann?"; what stands before a noun, as in
# "her older brother", only says which.
_COMPARATIVE = re.compile(rf'(?<!\bno )\b({_MORE})\b(?=\W*$| (?:[a-z]+ )??(?:than|for)\b)')
# "how many films did she direct", rather than "how many people live there", which sentences state
# in many ways.
_COUNT = re.compile(
    r'\bhow many (?:(?!does\b)[a-z-]+ ){0,2}?(?!(?:people|does)\b)([a-z]+) (?:did|has|have|had)\b',
    re.IGNORECASE,
)
_WHY = re.compile(
    r'\s*(?:and |but |so )?(why|how come|how (?=(?:did|do|does|is|are|was|were|has|have|had|can'
    r'|could|would|should|to)\b))',
    re.IGNORECASE,
)
_COUNTED = (
    r'\b(?:\d[\d,.]*|an?|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen'
    r'|\w+ty(?:-\w+)?|hundred|dozens?|several) (?:[\w-]+ ){0,3}'
)


def out_of_reach(text: str, stated: str = '') -> str | None:
    """Why what is found is no answer to a question, or a doubtful one; None if it is one.

    What `comparison` understands is not asked for here. A count, or what is larger or the largest,
    is in reach if `stated`, the sentences that the best answer rests on, state it.
    """
    about = 'what follows is what the text says about its names'
    if YES_OR_NO.match(text):
        return f'this asks for yes or no in a way that is not understood: {about}'
    if compares(text):
        each = about.replace('about its', 'about each of its')
        return f'this compares in a way that is not understood: {each}'
    if why := _WHY.match(text):
        return f'this asks {why[1].split()[0].lower()}, which no single name answers: {about}'
    is_said = lambda words: re.search(words, stated, re.IGNORECASE)
    if counted := _COUNT.search(text):
        if not is_said(rf'{_COUNTED}{counted[1]}|\b{counted[1]}: \d'):
            return f'this counts, and no sentence that was found states the number: {about}'
    if best := _SUPERLATIVE.search(text):
        if not is_said(rf'\b{(word := best[1] or best[2])}\b'):
            asks = f'this asks for the {word}, and no sentence that was found says'
            return f'{asks} which that is: nothing is compared'
    asked = re.search(r'\b(?:which|who|what)\b', text, re.IGNORECASE)
    more = _COMPARATIVE.search(text, asked.end()) if asked else None
    if more and not is_said(rf'\b{more[1]}\b'):
        asks = f'this compares (“{more[1]}”), and no sentence that was found does'
        return f'{asks}: nothing is compared'
    return None
