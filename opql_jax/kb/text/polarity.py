"""Whether a fact's sentence denies it, or says that it used to be true, or may come true."""

import re

from opql_jax.kb.paths import Fact
from opql_jax.kb.text.word_lists import LISTS, any_of, stems
from opql_jax.retrieval.words import words_of

_NEGATED = re.compile(
    r'\b(?:not(?! only)|never|nor|neither|denie[sd]|denying|deny|refuse[sd]|declined|rejected'
    r'|falsely|wrongly|mistakenly|allegedly'
    r'|supposedly|rumou?red|unlike|instead of|rather than'
    r"|(?:would|could|might|should) have)\b|n['’]t\b",
    re.IGNORECASE,
)
# What is denied in favour of what follows: 'was not written by Ann, but by Bob' states something
# of Bob.
_NOT_BUT = re.compile(r'\bnot\b[^.;]*\bbut\b', re.IGNORECASE)
# What is said between a name and its verb: ', who was never married,'.
ASIDE = re.compile(r', (?:[a-z]+ )?(?:who|which|whose|where|whom)\b[^,]*,|\([^()]*\)')
_NO_LONGER = re.compile(
    r'\b(?:no longer|used to|former|formerly|previously|until|once|ex-\w+|then-\w+'
    r'|(?:was|were) then)\b',
    re.IGNORECASE,
)
_UNTIL = re.compile(r'\b(?:until|till)\b', re.IGNORECASE)
# What follows a fact at once: 'the mayor of Ely from 1990 to 1995,'.
_YEARS = re.compile(
    r'[^,.;]{0,40}\bfrom (?:\w+ ){0,2}[12]\d{3} (?:to|until|through) (?:\w+ ){0,2}[12]\d{3}'
    r'(?=\W*$|[,.;)]| and\b)'
)
# Whether what is said was so before some time, or after it.
_BEFORE_OR_AFTER = re.compile(
    r'\b(?:([Bb]efore|[Uu]ntil|[Tt]ill|[Pp]rior to)|[Ss]ince|[Aa]fter|[Ff]rom)'
    r' (?:\d{1,2} )?([A-Z]\w+|\d{4})\b'
)
# What somebody is to do, in a list of tasks: 'Bo: add an index by 1 May', 'Bo to add an index'.
_TASK = re.compile(r'\W*[A-Z][\w.’-]*(?: [A-Z][\w.’-]*){0,3}(?::(?: to)?| to) ([a-z]+)\b')
_DID = re.compile(r'\bdid\b')
# Which end of 'from 1903 until 1938' a question asks for.
_STARTS = re.compile(r'\b(?:start|begin|began|first|join|since)', re.IGNORECASE)
_STOPS = re.compile(r'\b(?:stop|end|finish|leave|left|retire|quit|until|last|cease)', re.IGNORECASE)
_FROM, _TO = re.compile(r'(?:\bfrom|\()\W*$'), re.compile(r'\W*(?:until|till|to|through)\b')
_TILL = re.compile(r'(?:\bfrom|\()[^()]{3,25} (?:until|till|to|through)\W*$')
_NEARLY = re.compile(r'\b(?:nearly|almost) [a-z]+ed\b')
# What is planned, wished for or tried, which does not say that it came true.
_PLANNED = re.compile(
    r'\b(?:(?:is|are|was|were|be|been) (?:now |still |also |soon )?(?:due to be|about to'
    r'|set to (?!music)|(?:expected|supposed|meant|scheduled|planned|intended|asked|invited) to)'
    r'|(?:is|are) to (?!(?:the|an?|his|her|its|their|this|that|some)\b)[a-z]+|(?:was|were) to have'
    r'|(?<!\bhis )(?<!\bher )(?<!\ba )(?<!\bthe )will(?! of\b)'
    r'|(?:hop|plan|intend|want|wish|expect|aim|offer|attempt|threaten|promis|tr)'
    r'(?:s|ed|es|e|ned|ning|ing|ies|ied|y)? to'
    rf'|{_NEARLY.pattern}|applied (?:for|to)|planned in|(?:has|have|had) (?:also )?considered)\b'
)
_ASKS_PLAN = re.compile(
    r'\b(?:will|would|next|future|plan|hop(?:e|ing)|intend|want|wish|expect|aim|offer|attempt|threat'
    r'|promis|tried|tries|try|due|suppos|schedul|invit|asked|appl(?:y|ied)|consider|nearly|almost)'
)
# What somebody stays who has left or died.
_FOR_GOOD = re.compile(
    r'\b(?:found(?:er|ers|ed)|authors?|writers?|wrote|written|creat(?:or|ed)|invent(?:or|ed)'
    r'|discover(?:er|ed)|compos(?:er|ed)|architects?|design(?:er|ed)|paint(?:er|ed)|buil(?:der|t)'
    r'|directed|stars?|starred|first|killed|winner|won)\b'
)
# A name has left, retired or died: 'left Up', 'left in May', not 'left the meeting'.
_LEFT = re.compile(
    r',?(?: who)?(?: has| have| had)? (?:(?:left|quit)(?=[,.;]|$| (?:in|on|at|last|after|when)\b'
    r'| (?:the )?(?P<what>[A-Z][\w-]*))|(?:resigned|stepped down|handed over)\b'
    r'|(?:retired|died)(?=[,.;]|$| (?:in|on|at|from|last|after|when|this|as|and|to)\b)'
    r'|was (?:replaced|succeeded|dismissed|sacked)\b)'
)
_CLAUSE_ENDS = re.compile(r'[.;…] |, but ')
_PART_ENDS = re.compile(r'[,.;:]|\b(?:and|but|that|which|who)\b')
_AND = re.compile(r'\b(?:and|but)\b')
# 'Who is', 'where does', 'who maintains', 'which firm owns'.
_PRESENT = re.compile(
    r'^(?:(?:\w+\s+){0,4}?(?:is|are|does|do)\b'
    r'|(?:who|(?:which|what) [a-z]+) (?!was\b|has\b)[a-z]+[^s\W]s\b'
    r'(?! (?:did|was|were|had|[a-z]+ed)\b))',
    re.IGNORECASE,
)
_NOW = re.compile(r'\b(?:now|currently|today|still)\b', re.IGNORECASE)
# A state that the past tense says is over, or leaves open.
_WAS = re.compile(r'\b(?:was|were|lived|worked|stayed|resided|served|owned|had)\b', re.IGNORECASE)

_KIN = frozenset().union(*map(stems, LISTS['families']))
# What leaves open whether something is so.
_OPEN = re.compile(
    rf'\b(?:{any_of("hedges")}|(?:is|are|was|were) (?:said|thought|believed) to'
    r'|(?:said|say|believed?|thought|claim\w*) that|some say)\b',
    re.IGNORECASE,
)


def leaves_open(fact: Fact) -> bool:
    """Whether a fact's sentence leaves open whether it is so, in the clause of its target."""
    if not (fact.sentence and fact.target_span):
        return False
    begin, end = _clause(fact.sentence, fact.target_span)
    first = min(begin, *(fact.topic_span or (begin,)))
    return bool(_OPEN.search(fact.sentence, first, end))


def denies(fact: Fact, of_present: bool, of_now: bool = False) -> bool:
    """Whether a fact's sentence, if any, says that it is not so, or is no longer, if that matters.

    `of_present` 'former', 'until' and the like deny it; `of_now` a state in the past tense, too.
    """
    if fact.sentence is None:
        return False
    text = between = fact.sentence
    is_until = False
    if fact.target_span:
        first, last = sorted((fact.topic_span or fact.target_span, fact.target_span))
        begin, end = _clause(fact.sentence, fact.target_span)
        around = fact.sentence[last[1] : end]
        if fact.topic_span:
            start = max(text.rfind(mark, 0, first[0]) for mark in ('. ', '; ')) + 1
            text = ASIDE.sub(' ', fact.sentence[start : last[1]])
            # What is over is said in the clause of the target.
            between = ASIDE.sub(' ', fact.sentence[max(first[0], begin) : min(last[1], end)])
            around = fact.sentence[begin : max(first[0], begin)] + around
        is_until = bool(_UNTIL.search(around) or _YEARS.match(fact.sentence, last[1], end))
    if _NEGATED.search(_NOT_BUT.sub(' ', text)):
        return True
    is_over = is_until or bool(_NO_LONGER.search(between))
    return bool((of_present and is_over) or (of_now and _WAS.search(between)))


def _clause(text: str, span: tuple[int, int]) -> tuple[int, int]:
    """Start and end of the clause around some characters."""
    starts = [found.end() for found in _CLAUSE_ENDS.finditer(text, 0, span[0])]
    after = _CLAUSE_ENDS.search(text, span[1])
    return starts[-1] if starts else 0, after.start() if after else len(text)


def denies_answer(fact: Fact, question: str) -> bool:
    """Whether the sentence of a fact denies what a question asks for."""
    is_now = bool(_NOW.search(question))
    is_denied = denies(fact, is_now or bool(_PRESENT.search(question)), is_now)
    is_denied = is_denied and not _NEGATED.search(question)
    is_other = _is_of_other_time(fact, question) or _is_other_end(fact, question)
    return is_denied or is_other or _is_planned(fact, question) or _is_task(fact, question)


def _is_task(fact: Fact, question: str) -> bool:
    """Whether a sentence says who is to do what a question takes to be done."""
    task = _TASK.match(fact.sentence or '')
    return bool(task and _DID.search(question) and task[1] in question.split())


def _is_other_end(fact: Fact, question: str) -> bool:
    """Whether a target is where a time began, of a question when it ended, or the reverse."""
    if not (fact.sentence and fact.target_span):
        return False
    start, end = fact.target_span
    before = fact.sentence[max(start - 40, 0) : start]
    if _FROM.search(before) and _TO.match(fact.sentence, end):
        return bool(_STOPS.search(question)) and not _STARTS.search(question)
    is_end = _TILL.search(before) and _STARTS.search(question)
    return bool(is_end) and not _STOPS.search(question)


def _is_of_other_time(fact: Fact, question: str) -> bool:
    """Whether a sentence says what was so since a time that a question asks for the time before.

    Or the other way round.
    """
    if not (fact.sentence and fact.target_span and (asked := _sides(question))):
        return False
    begin, end = _clause(fact.sentence, fact.target_span)
    said = _sides(fact.sentence[begin:end])
    return said.isdisjoint(asked) and any((not side, time) in said for side, time in asked)


def _sides(text: str) -> set[tuple[bool, str]]:
    """The times before which (True), or since which, something is said."""
    return {(bool(match[1]), match[2]) for match in _BEFORE_OR_AFTER.finditer(text)}


def has_left(fact: Fact, question: str) -> bool:
    """Whether a fact's sentence says that its target, of a question of today, has gone."""
    is_now = _PRESENT.search(question) or _NOW.search(question)
    if not (is_now and fact.sentence and fact.target_span):
        return False
    if _FOR_GOOD.search(question) or _asks_kin(question):
        return False
    found = _LEFT.match(fact.sentence, fact.target_span[1])
    return found is not None and (not found['what'] or found['what'] in question)


def _is_planned(fact: Fact, question: str) -> bool:
    """Whether a sentence only plans what a question asks for, or says that it nearly was so."""
    if not (fact.sentence and fact.target_span) or _ASKS_PLAN.search(question):
        return False
    begin, end = _clause(fact.sentence, fact.target_span)
    said = _PART_ENDS.split(ASIDE.sub(' ', fact.sentence[fact.target_span[1] : end]))[0]
    before = _AND.split(ASIDE.sub(' ', fact.sentence[begin : fact.target_span[0]]))[-1]
    unreal = _NEARLY if _asks_kin(question) else _PLANNED  # 'will be led by his son, Bo'
    return bool(unreal.search(f'{before}{fact.target}{said}'))


def _asks_kin(question: str) -> bool:
    """Whether a question has a word for kin."""
    return not _KIN.isdisjoint(words_of(question))
