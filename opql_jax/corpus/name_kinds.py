"""Whether a recognised name is that of a person or a place, by what stands beside it: rules of `recognition`.

Of the persons that Re-DocRED marks spaCy takes 26 % for something else, and with these rules 14 %.
"""

import re
from collections.abc import Sequence

from opql_jax.corpus.definitions import PERSON, PLACE
from opql_jax.corpus.spans import POSSESSIVE, VALUES, Span

# What stands before a person's name, and after it: "the violinist Joel Stern", "Mayor Haldane", "Amara Finch (born 1980)", "Amara Finch, 44,".
_PERSON_BEFORE = re.compile(
    r'(?:\b(?:Mr|Mrs|Ms|Dr|Prof|Rev)\.?|\b(?:Miss|Sir|Dame|Lady|Mayor|Captain|President|Senator|Governor|Professor|Chancellor|Minister|Bishop)'
    rf'|\b(?:{PERSON}|poet|novelist|painter|sculptor|musician|guitarist|drummer|violinist|pianist|cellist|politician|lawyer|physicist|chemist'
    r'|botanist|engineer|philosopher|scientist|historian|economist|mathematician|astronomer|journalist|photographer|translator|banker|merchant'
    r'|explorer|conductor|commissioner|uncle|aunt|nephew|niece|cousin|friend|colleague|\w{4,}(?:ologist|wright)),?) $'
)
_PERSON_AFTER = re.compile(
    r', (?:aged )?\d{2}(?:,| and\b)| \((?:born|b\.|née)\b| (?:said|died|studied|graduated|retired|is married|was (?:born|married))\b'
)
_BEFORE_PLACE = re.compile(r'\b(?:around|at|from|in|into|near|of|outside|through|to) $')
_PLACE_BEFORE = re.compile(rf'\b(?:{PLACE}|municipality|suburb|river|port|parish|kingdom|republic) of $')
# So many characters before a name are looked at.
_BEFORE_CHARACTERS = 40


def places(text: str, spans: Sequence[Span]) -> list[Span]:
    """Places that spaCy took for something else: "the town of Exeter", and "born in Foss" if Foss is said to be a person."""
    names = set()
    for start, end, kind in spans:
        before = text[max(0, start - _BEFORE_CHARACTERS) : start]
        is_within = kind == 'person' and before.endswith((' in ', 'In ')) and not POSSESSIVE.match(text[end : end + 2])
        if is_within or (kind not in VALUES and text[start].isupper() and _PLACE_BEFORE.search(before)):
            names.add(text[start:end])
    changed = lambda span: span.kind not in VALUES and text[span.start : span.end] in names
    return [span._replace(kind='place') if changed(span) else span for span in spans]


def persons(text: str, spans: Sequence[Span]) -> list[Span]:
    """Persons whom spaCy took for something else: by what stands beside a name, and by the last name of one that is named in full."""
    before = [text[max(0, start - _BEFORE_CHARACTERS) : start] for start, _, _ in spans]
    told = [
        bool(_PERSON_BEFORE.search(context) or _PERSON_AFTER.match(text, end)) and text[start].isupper() and kind not in VALUES
        for (start, end, kind), context in zip(spans, before)
    ]
    names = {text[start:end] for (start, end, _), is_told in zip(spans, told) if is_told}
    full = {text[start:end] for start, end, kind in spans if kind == 'person'} | names
    last = {words[-1] for name in full if len(words := name.split()) > 1}
    found = []
    for span, is_told, context in zip(spans, told, before):
        name = text[span.start : span.end]
        is_known = name in names or name in last or name.split()[-1] in names
        if is_known and span.kind not in VALUES and not (span.kind == 'place' and _BEFORE_PLACE.search(context)):
            is_told = True
        found.append(span._replace(kind='person') if is_told else span)
    return found
