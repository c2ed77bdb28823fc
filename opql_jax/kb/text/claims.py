"""Whether the words of a sentence state a claim, such as a question of yes or no asks, or deny it.

'Ada led the first survey of the Harl' states that Ada led the survey, and 'Ada studied in Leeds but
never led a survey' denies it.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from opql_jax.kb.text import values
from opql_jax.kb.text.fact_questions import ONCE as DONE_ONCE
from opql_jax.kb.text.fact_questions import past_of
from opql_jax.kb.text.negation import EXCEPT, NOT, ONCE
from opql_jax.kb.text.word_lists import BASES, FORMS, LISTS, PAST_OF_PARTICIPLE, any_of, stems
from opql_jax.retrieval.words import words_of

# The probability of what a sentence states, and of what it states of less: the first successful
# survey need not be the first. A factor if it leaves out the name that its document is about.
_STATED, _OF_LESS, _LEFT_OUT = 0.85, 0.5, 0.8


# The mark of a noun; names have those of their numbers.
NOUN = '@9'


class Claim(NamedTuple):
    """What may be true of a subject.

    Attributes:
        aux: the auxiliary verb that asks for it: is, was, did, does, do, has, can, must or will.
        subject: how sentences have the subject, a mark such as '@0'.
        words: the others, in the order of a statement, without articles.
        about: names or nouns that are left out, so that they must be what the text is about.
        is_end: whether what is asked is over by it: who sold the mill does not own it.
        lead: how many of the words belong to the subject: two of 'offices of Ada are in Leeds'.
    """

    aux: str
    subject: str
    words: tuple[str, ...]
    about: tuple[str, ...] = ()
    is_end: bool = False
    lead: int = 0


class _State(NamedTuple):
    """What the words of a sentence have said so far.

    Attributes:
        is_denied: that it is not so.
        is_narrow: whether that is said by 'not', so that a denial is one of all that is said.
        was: whether it is in the past tense where the present is asked for.
        is_over: whether it is said to be over.
        subject, since: where the subject is, and where what is said of it begins: at 'never led'.
        probability: see `_STATED`.
    """

    is_denied: bool = False
    is_narrow: bool = True
    was: bool = False
    is_over: bool = False
    subject: int = 0
    since: int = 0
    probability: float = _STATED


_FORMS = (*FORMS, *map(stems, LISTS['more_verbs']))
_PASTS = frozenset(past for verb in LISTS['more_verbs'] for past in verb.split()[1:]) - {'has'}
_PASTS |= BASES.keys() | PAST_OF_PARTICIPLE.keys()
# What a word of a sentence may be to one of a claim.
_SAME, _OPPOSITE, _OTHER = 'same', 'opposite', 'other'
_BE, _DO = frozenset(('is', 'are', 'was', 'were')), frozenset(('do', 'does', 'did'))
_YEAR = re.compile(r'[12]\d{3}')
_IT = frozenset(('it', 'them'))
_MODAL = frozenset('can could may might will would shall should must'.split())
_AUX = _BE | _DO | _MODAL | frozenset(('has', 'have', 'had', 'be', 'been', 'being'))
_ADVERB = re.compile(
    r'\w+ly|also|then|later|again|soon|still|now|finally|even|ever|always|often|both|either'
    r'|already|yet|anywhere|actually|really|currently',
    re.IGNORECASE,
)
# Adverbs that a denial is of alone: 'not fully', and such as say that it was not quite so.
_HOW = re.compile(r'(?!actually|really)\w+ly')
_NEARLY = re.compile(r'nearly|hardly|barely|scarcely|falsely|wrongly|supposedly|allegedly')
_JOINS = frozenset((',', 'and', 'but', 'or'))
_ENDS = frozenset('.;:!?…–—')
# What begins a clause that is not the sentence's own.
_SUBORDINATE = re.compile(r'that|which|wh\w+|if|because|although|though|than|[.;:!?…–—]')
_PREPOSITION = re.compile(
    r'in|on|at|of|by|for|from|with|to|near|under|during|after|before|since|into|over|about|between',
    re.IGNORECASE,
)
# How many words a sentence may have between two of a claim's, such as 'full' above, and which it
# may not: who wrote of the survey, or wanted to lead it, has not led it.
# And of how many words a claim is read.
_MOST_WORDS = 20
_MOST_BETWEEN, _MOST_IN_THINGS, _MOST_IN_PHRASES = 3, 8, 10
_BREAKS = re.compile(
    rf"[^\w@]|['’]s|and|or|nor|but|that|which|wh\w+|if|as|against|until|{NOT}|{EXCEPT}|{ONCE}"
    rf'|{_PREPOSITION.pattern}|be|been|being|more|least|most|around|once'
    rf'|{any_of("lesser", "not_quite")}',
    re.IGNORECASE,
)
# What may stand before the subject: 'the widow of Ada' is another, and what is said 'in the novel'
# is not so.
_BEFORE_SUBJECT = re.compile(r'(?:(?:In|On|By|During|Since)(?: (?:[A-Z]\w+|\d{1,4}))+(?: ,)?)?')
_BEGINS_CLAUSE = frozenset(
    ', ; . : and but while whereas although though so because since after before when where'.split()
)
# Words that leave a sentence open.
_OPEN = re.compile(
    rf'\b(?:{any_of("hedges")}|if|whether|would|suppos\w+|falsely|wrongly|claim\w*|myths?|believ\w+'
    r'|thought|deni\w+|deny|doubt\w*|(?:is|are|was|were|be) said|say|only'
    r'|unless|plans? to|planned|hop(?:es?|ed|ing)|intend\w*|expect\w*|proposed|due|likely|nearly'
    r'|almost|(?:is|are|was|were) to)\b|\?',
    re.IGNORECASE,
)
_WILL = re.compile(r'\bwill\b')
# What a denial leaves open: 'did not lead it until May'.
_NOT_ALL = re.compile(r'\b(?:until|till|before|just|alone|known|certain|clear)\b')
# What is over, as its sentence goes on.
_ENDED = re.compile(
    r'\b(?:until|till|(?:to|and|[–-]) [12]\d{3}|took over|replaced|succeeded|successor|resigned'
    r'|left|retired|stepped down|died)\b'
)
# What begins what may be about somebody else.
_ASIDES = frozenset('when while as where although though because'.split())
# What is the first, or the largest, is so of what the next word says.
_OF_NEXT = re.compile(r'first|second|third|last|only|most|least|\w{2,}est')
# What may follow the last word: 'surveyed the Harl valley' is not said of the Harl.
_FOLLOWS = re.compile(
    rf"[^\w@'’-]|\d.*|after|again|against|among|anywhere|around|before|between|but|either|ever|near"
    r'|once|over|since|then|through|throughout|twice|under|until|while|without|within|because|when'
    rf'|who|which|{EXCEPT}',
    re.IGNORECASE,
)
# What may follow what is denied and leaves it as it is.
_AT_ALL = frozenset('at all ever either anywhere anymore any more there'.split())
# Words of which one denies the other.
_OPPOSITES = tuple(tuple(map(stems, pair)) for pair in LISTS['opposites'])
_OPEN_OR_CLOSED = (frozenset(('open',)), frozenset(('closed', 'shut')))
_SAME_SENSE = (stems('allow permit'),)


def judged(
    claim: Claim, tokens: Sequence[str], before: Sequence[str] = ()
) -> tuple[str, float] | None:
    """'yes' or 'no', with a probability, if a sentence states or denies a claim; else None.

    Its tokens, and those of the sentence before, are words and punctuation with marks for names,
    without articles, see `negation.rewritten`.
    """
    if not 0 < len(claim.words) <= _MOST_WORDS:
        return None
    # The last word for an 'it' that goes on about it.
    noun, said = claim.words[-1], _completed(claim, tokens)
    is_before = lambda place: any(_alike(noun, one) for one in (*before, *said[:place]))
    tokens = [
        noun if token in _IT and noun[0] != '@' and is_before(place) else token
        for place, token in enumerate(said)
    ]
    for place, words, state, is_part in _subjects(claim, tokens):
        state = state._replace(subject=place - 1)
        for end, reached in _ways(claim, words, tokens, place, state, set()):
            if found := _verdict(claim, tokens, end, reached, is_part):
                word, probability = found
                if claim.is_end:  # what follows says only when: not 'for a week' nor 'and again'
                    after = itertools.takewhile(lambda one: one not in _ENDS, tokens[end:])
                    dates = (
                        one[0].isupper() or one[0].isdigit()
                        for one in after
                        if one not in ('in', 'on')
                    )
                    return ('no', probability) if word == 'yes' and all(dates) else None
                return word, probability * (_LEFT_OUT if claim.about else 1)
    return None


def _completed(claim: Claim, tokens: Sequence[str]) -> list[str]:
    """A sentence with what is left out in 'towels are provided, but linen is not'."""
    found = [
        place
        for place, token in enumerate(tokens)
        if token == claim.subject and place > 1 and tokens[place - 1] in _JOINS
    ]
    if not found:
        return list(tokens)
    last = found[-1]
    after = [token for token in tokens[last + 1 :] if token not in _ENDS]
    said = [token for token in after if token != NOT]
    if len(said) != 1 or said[0] not in _AUX:
        return list(tokens)
    before = [token for token in tokens[:last] if token != NOT]
    while before and before[-1] in _JOINS:
        before.pop()
    starts = (
        place + (token in _AUX)
        for place, token in enumerate(before)
        if token in _AUX or _alike(claim.words[0], token)
    )
    begin = next(starts, len(before))
    return [*tokens[: last + 1], *after, *before[begin:]]


def _subjects(
    claim: Claim, tokens: Sequence[str]
) -> Iterator[tuple[int, Sequence[str], _State, bool]]:
    """Where the claim may go on after its subject, with the words left, and whether said of a part.

    Said of a part is what is denied 'in 1911'.
    """
    for place, token in enumerate(tokens):
        if token.lower() != claim.subject:
            continue
        sentence = max((at + 1 for at in range(place) if tokens[at] in _ENDS), default=0)
        before = tokens[sentence:place]
        said, words, state = ' '.join(before), claim.words, _State()
        if before[-1:] == [EXCEPT]:
            denied = state._replace(is_denied=True, is_narrow=False)
            yield place + 1, words, denied, False
            if tokens[place + 1 : place + 2] in ([], *([end] for end in (*_ENDS, ','))):
                for other in range(place - 1):
                    if tokens[other][0].isupper() or tokens[other][0] == '@':
                        yield other + 1, words, denied, False
            continue
        if before[-1:] == [NOT] and (len(before) == 1 or before[-2] in _BEGINS_CLAUSE):
            yield place + 1, words, state._replace(is_denied=True), False
        elif _BEFORE_SUBJECT.fullmatch(said) or _is_description(claim, before):
            front = [one for one in before if one != ',']
            if front and [one.lower() for one in front] == [*words[-len(front) :]]:
                yield place + 1, words[: -len(front)], state, False
            yield place + 1, words, state, bool(front) and not _is_description(claim, before)
        elif before[-1] in _BEGINS_CLAUSE and 'that' not in before:
            if before[-2:-1] == [','] or token in before or _has_verb(before):
                yield place + 1, words, state, False


def _is_description(claim: Claim, before: Sequence[str]) -> bool:
    """Whether what stands before a name says what it is of: 'the firm', 'the printer'."""
    is_name = claim.subject[0] == '@' and claim.subject != NOUN
    is_plain = not any(map(_BREAKS.fullmatch, before)) and not _has_verb(before)
    return is_name and is_plain and len(before) <= 2


def _has_verb(tokens: Sequence[str]) -> bool:
    return any(token.lower() in _AUX or _is_past(token.lower()) for token in tokens)


def _is_past(verb: str) -> bool:
    return verb.endswith('ed') or verb in _PASTS


def _ways(
    claim: Claim,
    words: Sequence[str],
    tokens: Sequence[str],
    place: int,
    state: _State,
    seen: set[tuple[int, int, _State]],
) -> Iterator[tuple[int, _State]]:
    """Where the words of a claim end in a sentence, from a place on, and what that says then.

    Each way from `seen` states is tried once, as a word that is repeated has very many.
    """
    if (key := (len(words), place, state)) in seen:
        return
    seen.add(key)
    if not words:
        yield place, state
        return
    number = len(claim.words) - len(words)
    is_verb = number == claim.lead or place - 1 == state.subject + claim.lead
    for at in range(place, len(tokens) if number >= claim.lead else min(place + 1, len(tokens))):
        likeness = _likeness(claim, words, tokens, at)
        if likeness is None:
            continue
        gap = tokens[place:at]
        reached = (
            _to_verb(claim, gap, at, tokens, state)
            if is_verb
            else _further(tokens[place - 1], words[0], gap, state)
        )
        if reached is None:
            continue
        if likeness is not _SAME:
            if reached.is_denied:
                continue
            reached = reached._replace(is_denied=True, is_narrow=likeness is _OPPOSITE)
        yield from _ways(claim, words[1:], tokens, at + 1, reached, seen)


def _likeness(claim: Claim, words: Sequence[str], tokens: Sequence[str], at: int) -> str | None:
    """Whether a token is a claim's next word, its opposite, or another value; None if neither."""
    word, token = words[0], tokens[at]
    is_dated = (word, token) == ('in', 'on') and bool(_YEAR.fullmatch(''.join(words[1:2])))
    if is_dated or _alike(word, token):
        return _SAME
    if '@' not in (word[0], token[0]) and _opposite(claim, word, token.lower()):
        return _OPPOSITE
    is_once, is_last = not DONE_ONCE.isdisjoint(claim.words), len(words) == 1
    if (number := _number(word)) is not None and _number(token) is not None:
        is_year = bool(_YEAR.fullmatch(word))
        is_next = is_last or any(_alike(words[1], one) for one in tokens[at + 1 : at + 2])
        is_alike = is_year == bool(_YEAR.fullmatch(token))
        is_said = any(_number(one) == number for one in tokens)
        counts = [one for one in tokens if _number(one) is not None and not _YEAR.fullmatch(one)]
        is_whole = is_year or len(counts) == 1  # not two medals here and one there
        if not is_said and is_whole and is_next and is_alike and (is_once or not is_year):
            return _OTHER
    is_name = lambda one: one[0].isupper() or one[0] == '@'
    joined = next(itertools.dropwhile(is_name, tokens[at:]), '.') in ('and', 'or', '&', ',')
    is_agent = at > 0 and tokens[at - 1] == 'by' and is_last and word[0] == '@'
    is_agent = is_agent and not joined and word not in tokens[at:]
    return _OTHER if is_agent and is_once and claim.aux == 'was' and token[0].isupper() else None


def _number(word: str) -> float | None:
    found = values.number(word) if word[0] != '@' else None
    return found[0] if found and not found[1] and re.fullmatch(r'[\d.,]+|[a-z]+', word) else None


def _alike(word: str, token: str) -> bool:
    """Whether a word of a sentence is one of the claim's, in any form."""
    if '@' in (word[0], token[0]):
        return word == token
    one, other = words_of(word), words_of(token)
    if not one or not other:
        return word == token.lower()
    is_form = any(forms.issuperset(one + other) for forms in (*_FORMS, *_SAME_SENSE))
    is_doubled = [f'{one[-1]}{one[-1][-1]}'] == other  # 'quarrelled'
    return one == other or is_form or is_doubled or token.lower() == past_of(word)


def _opposite(claim: Claim, word: str, token: str) -> bool:
    """Whether one word denies another: 'closed' that something is open."""
    if token == f'un{word}' or word == f'un{token}':
        return True
    if claim.aux in ('is', 'was') and any(
        word in one and token in other for one, other in itertools.permutations(_OPEN_OR_CLOSED)
    ):
        return True
    said = tuple(map(frozenset, (words_of(word), words_of(token))))
    return any(
        bool(said[0]) and bool(said[1]) and said[0] <= one and said[1] <= other
        for pair in _OPPOSITES
        for one, other in itertools.permutations(pair)
    )


def _to_verb(
    claim: Claim, gap: Sequence[str], at: int, tokens: Sequence[str], state: _State
) -> _State | None:
    """What stands between a subject and its verb, or what is said that it is; None if that breaks.

    Of 'studied in Leeds and never led' only 'never' counts.
    """
    said = list(itertools.chain(*(('but', NOT) if one == EXCEPT else (one,) for one in gap)))
    joins = [place for place, one in enumerate(said) if one in _JOINS]
    head = said[: joins[-1]] if joins else []
    tail = said[joins[-1] + 1 :] if joins else _without_phrase(said)
    if any(map(_SUBORDINATE.fullmatch, head)) or "'s" in said or any(map(_NEARLY.fullmatch, tail)):
        return None
    left = [
        one for one in tail if one not in (NOT, ONCE, claim.subject) and not _ADVERB.fullmatch(one)
    ]
    aux = list(itertools.takewhile(_AUX.__contains__, (one.lower() for one in left)))
    described = left[len(aux) :]
    if is_inherited := not aux and claim.aux in ('is', 'was'):
        aux = [one for one in head if one in _BE][-1:]
        # 'is a theatre, opened as the Palace, a cinema'
        if not _is_past(tokens[at].lower()) and (head or ' ')[-1][0].isupper():
            return None
    # 'is a long novel written by Ada'
    is_thing = claim.aux == 'was' and _is_past(tokens[at].lower())
    most = _MOST_IN_THINGS if is_thing else _MOST_BETWEEN
    is_denied = state.is_denied ^ (tail.count(NOT) == 1)
    if tail.count(NOT) > 1 or (state.is_denied and NOT in tail):
        return None
    if is_denied and any(map(_HOW.fullmatch, tail)):
        return None
    if described and (is_denied or not set(aux) & _BE or len(described) > most):
        return None
    is_name = lambda one: one[0] == '@' or (one[0].isupper() and not is_thing)
    if any(_BREAKS.fullmatch(one) or is_name(one) for one in described):
        return None
    is_over = ONCE in tail
    is_reduced = is_thing and bool(described or is_inherited) and not is_denied
    form = _form(claim, aux, tokens[at].lower(), is_denied, is_over or is_reduced)
    if form is None:
        return None
    since = at - len(tail)
    return state._replace(is_denied=is_denied, was=not form, is_over=is_over, since=since)


def _without_phrase(gap: Sequence[str]) -> Sequence[str]:
    """What follows a subject, without 'in Leeds' or the like that belongs to it."""
    if not gap or gap[0] not in ('in', 'of', 'at', 'on', 'near', 'for', 'from', 'to', 'with'):
        return gap
    ends = (place for place, one in enumerate(gap) if one.lower() in _AUX or one in (NOT, ONCE))
    return gap[next(ends, len(gap)) :]


def _form(
    claim: Claim, aux: Sequence[str], verb: str, is_denied: bool, is_any: bool
) -> bool | None:
    """Whether a verb is in the form that is asked for; False if in the past of it, None if not.

    `is_any` of 'used to lead', and 'is a novel written by', tense says nothing.
    """
    found, asks = set(aux), claim.aux
    if asks == 'is':
        return None if found - _BE or not found else bool(found & {'is', 'are'})
    if asks == 'was':
        is_past = 'been' in found or bool(found & {'was', 'were'})
        return True if is_past or (is_any and found & _BE) else None
    if asks == 'can':
        return True if found & {'can', 'may'} or ('must' in found and is_denied) else None
    if asks in ('will', 'must'):
        return True if found == {asks} else None
    if found & (_BE | _MODAL):
        return None
    if verb.endswith('ing'):
        return True if is_denied else None
    if asks in ('did', 'has'):
        is_base = 'did' in found or is_any
        return True if not found & {'do', 'does'} and (is_base or _is_past(verb)) else None
    if found & {'has', 'have', 'had', 'did'}:
        return None
    if found or is_any:
        return True
    if _is_past(verb) and verb != claim.words[0]:
        return False
    return True if verb.endswith('s') == (asks == 'does') else None


def _further(before: str, word: str, gap: Sequence[str], state: _State) -> _State | None:
    """What stands between a word of a claim and the next; None if it breaks them apart."""
    if not gap:
        return state
    if any(map(_SUBORDINATE.fullmatch, gap)) or _is_by_of_noun([*gap, word]):
        return None
    joins = [at for at, one in enumerate(gap) if one in (*_JOINS, EXCEPT)]
    if joins and not (gap[0] == 'between' and joins == [2]):
        return _after_join(word, gap, joins[-1], state)
    if denials := gap.count(NOT):
        is_only = denials == 1 and gap[0] == NOT and not state.is_denied
        return (
            _described(before, word, gap[1:], state._replace(is_denied=True)) if is_only else None
        )
    is_phrase = bool(_PREPOSITION.fullmatch(gap[0])) and bool(_PREPOSITION.fullmatch(word))
    if is_phrase and not state.is_denied and len(gap) <= _MOST_IN_PHRASES:
        return None if any(_is_past(one) or one.endswith('ing') for one in gap) else state
    return _described(before, word, gap, state)


def _is_by_of_noun(tokens: Sequence[str]) -> bool:
    """Whether a noun has a second 'by': 'was climbed by Ada, after an attempt by Bo'."""
    if 'by' not in tokens[:-1]:
        return False
    last = max(at for at, one in enumerate(tokens) if one == 'by')
    before = tokens[last - 1] if last else ''
    return before.islower() and before not in (*_JOINS, EXCEPT) and not _is_past(before)


def _after_join(word: str, gap: Sequence[str], last: int, state: _State) -> _State | None:
    """The state after 'and', 'but' or 'except' in a gap: 'Linux and', 'in Rust except in'."""
    before, after = gap[:last], gap[last + 1 :]
    described = [one for one in after if not _PREPOSITION.fullmatch(one)]
    if described and (word[0] != '@' or any(map(_BREAKS.fullmatch, described))):
        return None
    if len(described) > 2 or any(one[0].isupper() or _is_past(one) for one in described):
        return None
    if gap[last] == EXCEPT:
        if state.is_denied or NOT in before:
            return None
        return state._replace(is_denied=True, is_narrow=False)
    if gap[last] == 'but':
        return state._replace(is_denied=False) if state.is_denied else None
    if before[:1] == [NOT] and not state.is_denied:
        state, before = state._replace(is_denied=True), before[1:]
    is_list = not any(
        one in (NOT, EXCEPT) or _PREPOSITION.fullmatch(one) or _is_past(one) or one in _AUX
        for one in before
    )
    return state if is_list else None


def _described(before: str, word: str, gap: Sequence[str], state: _State) -> _State | None:
    """The state after words of another kind between two of a claim, such as adjectives."""
    if any(map(_BREAKS.fullmatch, gap)) or len(gap) > _MOST_BETWEEN:
        return None
    left = [one for one in gap if not _ADVERB.fullmatch(one)]
    # 'The conductor Abel' is Abel, and 'the Lime Kiln' the kiln.
    is_same = word[0] == '@' or all(one[0].isupper() for one in left)
    if state.is_denied and not is_same:
        return None
    return state._replace(probability=_OF_LESS) if left and _OF_NEXT.fullmatch(before) else state


def _verdict(
    claim: Claim, tokens: Sequence[str], end: int, state: _State, is_part: bool
) -> tuple[str, float] | None:
    """What a sentence says in the end, by what follows the last word of a claim."""
    after = list(itertools.takewhile(lambda one: one not in _ENDS, tokens[end:]))
    if not state.is_narrow:  # of another name the first word stands for all
        after = list(itertools.dropwhile(lambda one: one[0].isupper(), after))
    if after[:1] in (['or'], ["'s"], ['’s']):
        return None
    if after and words_of(after[0]) and not _FOLLOWS.fullmatch(after[0]):
        return None
    said = [*tokens[: state.subject], *tokens[state.since : end], *after]
    asked = (*claim.words, *(('may',) if claim.aux == 'can' else ()))
    clause = ' '.join(one for one in said if not any(_alike(word, one) for word in asked))
    if _OPEN.search(clause) or (claim.aux != 'will' and _WILL.search(clause)):
        return None
    part = list(itertools.takewhile(lambda one: one not in (*_JOINS, EXCEPT), after))
    part = part[: part.index('because')] if 'because' in part else part
    if state.is_denied and state.is_narrow:
        is_all = _AT_ALL.issuperset(part) or part[:1] == ['to']  # 'lost it to Abel'
        if is_part or not is_all or _NOT_ALL.search(clause):
            return None
    is_over = state.is_over and claim.aux in ('is', 'does', 'do')
    if state.was:
        own = itertools.takewhile(lambda one: one not in _ASIDES, tokens[end:])
        is_over = state.is_over or bool(_ENDED.search(' '.join(own)))
        if not is_over or state.is_denied:
            return None
    if is_over and state.is_denied:
        return None
    return 'no' if state.is_denied or is_over else 'yes', state.probability
