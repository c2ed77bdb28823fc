"""Rules of `recognition` that tell the kinds of names by their words and what stands beside them.

Pronouns and short forms are resolved by these kinds, before anything is encoded. To take a firm or
a town for a person costs more answers than to miss a person, so only what is nearly certain changes
a kind. What the rules gain is measured by `benchmarks/recognition.py`.
"""

import collections
import re
from collections.abc import Sequence

from opql_jax.corpus.definitions import PERSON, PLACE
from opql_jax.corpus.entities import UNKNOWN_KIND
from opql_jax.corpus.spans import VALUES, Span
from opql_jax.corpus.words import alternatives

# Endings of firms' names.
PARTNERS = (
    r'(?:and|&) (?:Sons?|Daughters?|Brothers|Sisters|Bros\.?|Co\.|Company|Partners|Associates)'
    r'(?!\w)'
)
# First and last words that decide the kind of a name, whatever the rest. Left out are surnames,
# such as 'Church' and 'Hill', and what is as often something else.
_WORDS = tuple(
    (re.compile(words), kind)
    for words, kind in (
        (
            rf'.* (?:{alternatives("organisations")})'
            rf'|(?:University|Bank|Ministry|Institute|College) of .*|.* {PARTNERS}',
            'organisation',
        ),
        (
            rf'.* (?:{alternatives("sites")})|(?:Lake|Mount|River) [A-Z]\S+',
            'place',
        ),
        (r'(?:Lord|Lady|Sir|Dame|Mr\.?|Mrs\.?|Miss|Princess|Baroness|Countess) [A-Z].*', 'person'),
        (r'(?:MV|HMS|USS|RMS) [A-Z].*', 'product'),
    )
)
# Names that are as often a person's: 'Barbara Castle', 'River Phoenix'.
_SURNAMES = re.compile(r'\S+ (?:Castle|Dam|Lake|Park|Press|Street)|(?:Lake|River) \S+')
# Kinds for which spaCy takes names of other ones.
_UNCERTAIN = frozenset({'person', 'organisation', 'place', 'product', UNKNOWN_KIND})
# Contexts before and after a person's name: "the violinist Joel Stern", "Mayor Haldane",
# "Amara Finch (born 1980)", "Amara Finch, 44, runs".
_PERSON_BEFORE = re.compile(
    r'(?:\b(?:Mr|Mrs|Ms|Dr|Prof|Rev)\.?|\b(?:Miss|Sir|Dame|Lady|Mayor|Captain|President|Senator'
    r'|Governor|Professor|Chancellor|Minister|Bishop)'
    rf'|\b(?:{alternatives("professions")}),?)\s$'
)
_PERSON_AFTER = re.compile(
    r',\s(?:aged )?\d{2},\s(?!and\b|or\b)[a-z]|\s\((?:born|b\.|née)\b|\s(?:died|is married'
    r'|was (?:born|married))\b'
)
_TOWN_OF = re.compile(
    rf'\b(?:{PLACE}|municipality|suburb|river|port|parish|kingdom|republic) of\s$'
)
_LIVED_IN = re.compile(
    r'\b(?:born|raised|grew up|lives?|lived|living|died|buried|settled|based|located|situated'
    r'|stands|stood) in\s$'
)
# Kinds that may turn out to be places; one can live in a firm or a work, too.
_NO_PLACES = ('person', 'group', UNKNOWN_KIND)
# Characters before a name that are considered.
_BEFORE_CHARACTERS = 40


def kind_of_words(name: str) -> str | None:
    """The kind that the words of a name tell, as those of 'Dale Creamery' do; None if none does."""
    return next((kind for words, kind in _WORDS if words.fullmatch(name)), None)


def by_words(text: str, spans: Sequence[Span]) -> list[Span]:
    """Names of the kinds that their words tell."""
    found = []
    for span in spans:
        name = text[span.start : span.end]
        may_be = span.kind in _UNCERTAIN
        if may_be and not (span.kind == 'person' and _SURNAMES.fullmatch(name)):
            span = span._replace(kind=kind_of_words(name) or span.kind)
        found.append(span)
    return found


def places(text: str, spans: Sequence[Span]) -> list[Span]:
    """Places that spaCy took for something else: "the town of Exeter", "born in Foss".

    The last word of a person's name may be one, too, where it stands as one: "Harriet Lincoln moved
    to Lincoln".
    """
    names = set()
    persons = (text[start:end].split() for start, end, kind in spans if kind == 'person')
    last_words = {words[-1] for words in persons if len(words) > 1}
    for start, end, kind in spans:
        before = text[max(0, start - _BEFORE_CHARACTERS) : start]
        told = _TOWN_OF.search(before) or (kind in _NO_PLACES and _LIVED_IN.search(before))
        if told and kind not in VALUES and text[start].isupper():
            names.add(text[start:end])
    names -= last_words
    changed = lambda span: (
        span.kind not in VALUES
        and (name := text[span.start : span.end])
        and (name in names or (name in last_words and stands_as_place(text, span.start, span.end)))
    )
    return [span._replace(kind='place') if changed(span) else span for span in spans]


_PLACE_BEFORE = re.compile(
    r'\b(?:in|into|near|outside|throughout|(?:go|goes|going|went|move[sd]?|moving|return(?:s|ed)?'
    r'|retired?|sail(?:s|ed)|travel(?:s|l?ed)|came|drove|flew'
    r'|sent|emigrated|relocated|transferred|road|train|bus|way|trip|journey) (?:back )?to|(?:comes?'
    r'|came|moved|hails?|native|originally|was|is|fled|left) from'
    r'|(?:city|town|village|state|county|district|port) of)\s$'
)
_ELSE_AFTER = re.compile(r"['’]s\b|['’]\s|\s(?:[A-Z]|and his|and her)")


def stands_as_place(text: str, start: int, end: int) -> bool:
    """Whether a name stands as a place does: "moved to Lincoln", but not "in Lincoln's hand"."""
    before = _PLACE_BEFORE.search(text, max(0, start - _BEFORE_CHARACTERS), start)
    return before is not None and not _ELSE_AFTER.match(text, end)


# Labels that tell a kind, as in "Gardener: Ines Duarte" and "home port: Hull".
_OFFICES = f'{PERSON}|{alternatives("offices")}'
_ROLE = re.compile(
    rf'(?:{_OFFICES}|\w{{2,}}(?:er|or|ist|ian|ant|man|woman))(?: of \w+)?(?: name)?', re.I
)
# "The mayor is Pilar Soto".
_OFFICE_IS = re.compile(rf'\b(?:{_OFFICES}|treasurer|manager|secretary|teacher) (?:is|was)\s$')
_WHERE = re.compile(
    rf'(?:[\w ]+ )?(?:{PLACE}|port|location|headquarters|venue|origin|address|seat|base|station'
    r'|harbour|harbor)',
    re.I,
)
_NO_ROLES = re.compile(f'.*(?:{alternatives("no_roles")})', re.I)


def labelled_kind(label: str, name: str, kind: str) -> str:
    """The kind of a name that stands behind a label, if that tells it better than the name does."""
    label = label.strip(' *_')
    is_role = _ROLE.fullmatch(label) and not _NO_ROLES.fullmatch(label)
    if is_role and ' ' in name and kind not in ('person', 'organisation'):
        return 'person'
    return 'place' if _WHERE.fullmatch(label) and kind in _NO_PLACES else kind


def persons(text: str, spans: Sequence[Span]) -> list[Span]:
    """Corrects names that spaCy did not take for persons, by the words beside them.

    So are other names of that text that are spelt alike and were taken for the same, and its last
    word alone. The last word of any person's name is a person, too, where it is of no known kind,
    or a group.
    """
    told: dict[str, str] = {}  # names of persons, and what they were taken for
    # The kinds of which a last name may be, and is a person.
    alike: dict[str, set[str]] = collections.defaultdict(set)
    for start, end, kind in spans:
        name = text[start:end]
        before = text[max(0, start - _BEFORE_CHARACTERS) : start]
        in_office = kind == UNKNOWN_KIND and ' ' in name and _OFFICE_IS.search(before)
        is_told = in_office or _PERSON_BEFORE.search(before) or _PERSON_AFTER.match(text, end)
        if is_told and kind not in VALUES and name[0].isupper():
            told[name] = kind
        if (name in told or kind == 'person') and len(words := name.split()) > 1:
            alike[words[-1]] |= {UNKNOWN_KIND, 'group', kind}
    found = []
    for span in spans:
        name = text[span.start : span.end]
        last = told.get(name.split()[-1])  # 'Brandeis, 51, ...' tells of Sofia Brandeis
        is_told = told.get(name) == span.kind or (
            last is not None and span.kind in (last, UNKNOWN_KIND, 'organisation')
        )
        is_person = span.kind not in VALUES and (is_told or span.kind in alike.get(name, ()))
        found.append(span._replace(kind='person') if is_person else span)
    return found
