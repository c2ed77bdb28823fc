"""When somebody was born or died, as a text states it in brackets: 'Ann Low (1830 – 1904)'."""

import re
from collections.abc import Sequence

from opql_jax.kb.text.word_lists import any_of
from opql_jax.models.reader import Reading, Span

_ASKED = re.compile(
    r'(?:when|(?:in|on) (?:which|what) (?:year|date|day)|(?:which|what) year) (?:did|was) '
    r'(?P<name>[^?,]{2,80}?) (?P<event>die|pass away|born)\W*',
    re.I,
)
_MONTH = any_of('months')
_DATE = rf'(?:c\. ?)?(?:\d{{1,2}} (?:{_MONTH}) |(?:{_MONTH}) \d{{1,2}},? )?\d{{3,4}}'
_PLACE = r'(?: in [^()–\d]{1,40}?)?'
_DATES = re.compile(
    rf'\((?P<born>{_DATE}){_PLACE}\s?[–-]\s?(?P<died>{_DATE}){_PLACE}\)'
    rf'|\((?:born|b\.) (?P<only_born>{_DATE}){_PLACE}\)'
    rf'|\((?:died|d\.) (?P<only_died>{_DATE}){_PLACE}\)'
)
# The name before the bracket, whose words are capitalised but for a few.
_CAPITAL = r"[^\W\d_a-z][\w.'’-]*"
_NAME = re.compile(rf'{_CAPITAL}(?: (?:{_CAPITAL}|d[aeiu]|del|la|le|of|v[ao]n))*$')
_LONGEST_NAME = 80
# How probable it is that such dates answer; other readings and verdicts keep the rest.
_CERTAIN = 0.9


def with_life_span(question: str, passages: Sequence[str], reading: Reading) -> Reading:
    """A reading in which the dates of whom a question asks about answer it, if passages have them.

    The reader takes them for no statement: 'was born' and 'died' are not there.
    """
    asked = _ASKED.fullmatch(question.strip())
    if not asked:
        return reading
    event = 'born' if asked['event'].lower() == 'born' else 'died'
    words = asked['name'].casefold().split()
    for number, text in enumerate(passages):
        for dates in _DATES.finditer(text):
            group = event if dates[event] else f'only_{event}'
            name = _NAME.search(
                text[max(0, dates.start() - _LONGEST_NAME) : dates.start()].rstrip()
            )
            said = name[0].casefold().split() if name else []
            if dates[group] and said and {said[0], said[-1]} <= {words[0], words[-1]}:
                span = Span(number, *dates.span(group), _CERTAIN)
                left = 1 - _CERTAIN
                others = [one._replace(probability=left * one.probability) for one in reading.spans]
                verdicts = {n: left * getattr(reading, n) for n in ('unanswered', 'yes', 'no')}
                return reading._replace(spans=[span, *others], **verdicts)
    return reading
