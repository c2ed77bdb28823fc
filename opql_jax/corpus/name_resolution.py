"""Merges recognised names that mean the same entity, where the text is evidence for it.

A name means one entity in all documents, but for these:

- in a document, a short form means the only longer name there that it can stand for: "Byron" is
  Lord Byron where he is mentioned, and "RSC" the Royal Shakespeare Company after its name;
- a last name alone means whom a document is about, if few texts name others of the family;
- a name that titles share, "Titanic (film)" and "Titanic (ship)", is resolved by the title of the
  document, then by the word in brackets around the mention, or else stays an entity of its own.
"""

import bisect
import collections
import dataclasses
import functools
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence

from opql_jax.corpus.concepts import CONCEPT, name_of
from opql_jax.corpus.defined_terms import Defined, defined_terms, uses
from opql_jax.corpus.definitions import defined_kind
from opql_jax.corpus.documents import Document, Mention
from opql_jax.corpus.entities import TITLE_KIND, UNKNOWN_KIND, EntityVocab
from opql_jax.corpus.linking import MentionLinker
from opql_jax.corpus.name_kinds import stands_as_place
from opql_jax.corpus.pronouns import possessives, pronouns
from opql_jax.corpus.recognition import begins_sentence
from opql_jax.corpus.spans import MAX_NAME, POSSESSIVE, VALUES, Span, covering, overlap, starting_in
from opql_jax.corpus.speakers import Turn, first_persons, turns

# From the first of many spaces only, so that none is searched twice.
_BRACKETS = re.compile(r'(?<!\s)\s*+\(([^()]*+)\)\s*+$')
_ARTICLE = re.compile(r'^(?:the|a|an) (?=.)')
NOT_WORDS = re.compile(r"[^\w&+/%$£€#']+")
# Letters that Unicode does not take apart into a letter and an accent, and the two apostrophes.
_LETTERS = str.maketrans(
    {'ø': 'o', 'ł': 'l', 'đ': 'd', 'ð': 'd', 'þ': 'th', 'æ': 'ae', 'œ': 'oe', 'ı': 'i', '’': "'"}
)
# Kinds whose names are shortened to one word; Google is not Google Maps.
_SHORTENED = frozenset({'person', UNKNOWN_KIND})
# A first or last name of this many persons is ambiguous by itself.
_PERSONS_OF_A_NAME = 3
# Spans considered before and after "born", and maximum number of persons of one name.
_BEFORE_BIRTH, _FACTS_OF_BIRTH, _HOMONYMS = 5, 4, 100
# Legal forms, which the short names of organisations lack.
_FORMS = frozenset(
    'inc incorporated corp corporation co company ltd limited plc gmbh ag llc'.split()
)
# Begin last names: of Vincent and Theo van Gogh neither is Van Gogh.
_PARTICLES = frozenset('da de del der di du la le san st ten ter van von'.split())
# In names whose last word names something else.
_OF_PHRASES = frozenset('and for in of on the to'.split())
# The first characters of a text, in which it names what it is about.
_BEGINNING = 5
# Characters around a mention in which to look for the word in brackets of a title.
_CONTEXT = 200
# Longest name whose folded form is cached; whole texts are folded, too.
_NAME = 100


def fold(name: str) -> str:
    """A name without case, accents, punctuation, leading article and possessive."""
    return _fold(name) if len(name) <= _NAME else _fold.__wrapped__(name)


@functools.lru_cache(1 << 15)  # a text has few names, and has them often
def _fold(name: str) -> str:
    plain = POSSESSIVE.sub('', plain_letters(name).strip())
    return _ARTICLE.sub('', NOT_WORDS.sub(' ', plain).strip()) or name


def plain_letters(text: str) -> str:
    """A text without case and accents, with plain letters for others."""
    return text.lower() if text.isascii() else without_accents(text).casefold().translate(_LETTERS)


def without_accents(text: str) -> str:
    """A text without accents, by Unicode's compatibility decomposition."""
    if text.isascii():
        return text
    letters = unicodedata.normalize('NFKD', text)
    return ''.join(c for c in letters if not unicodedata.combining(c))


def without_brackets(title: str) -> str:
    """A title as a text mentions it: 'Titanic' of 'Titanic (film)'."""
    return _BRACKETS.sub('', title) or title


def resolve(
    documents: Iterable[Document], spans: Iterable[Sequence[Span]]
) -> tuple[EntityVocab, list[Document]]:
    """Turns recognised spans into mentions of entities.

    Documents have no mentions; the title entity of one is the name of what it is about, whose key
    is decided here. `spans` are those recognised in each text, by start, disjoint. Returns the
    entities, called as a title entity is, or as their full name is written most, each of the kind
    that its document defines or its mentions have most; and the documents with mentions and title
    entities.
    """
    documents = list(documents)
    titles = _Titles(documents)
    # Each title is a spelling, if no text has it.
    spellings = {k: collections.Counter({without_brackets(t): 0}) for k, t in titles.name.items()}
    kinds_by_definition: dict[str, str] = {}
    kinds: dict[str, collections.Counter[str]] = {key: collections.Counter() for key in spellings}
    resolved, said_by, places, terms_of = [], [], [], []
    for document, recognised in zip(documents, spans, strict=True):
        said_by.append(turns(document.text, document.title))
        speakers = {Span(turn.name_start, turn.name_end, 'person') for turn in said_by[-1]}
        found = _in_place_of(titles.with_titles(recognised, document.text), sorted(speakers))
        terms = defined_terms(document.text, found)
        places.append(_with_terms(document.text, found, terms))
        terms_of.append(terms)
    kinds_of_names = _kinds_of_names(documents, places)
    persons = {name for name, kind in kinds_of_names.items() if kind == 'person'}
    places = [_without_pairs(*of, persons, titles) for of in zip(documents, places)]
    names_of = [_Names(*of, titles, persons) for of in zip(documents, places, terms_of)]
    shared = _SharedNames(names_of, titles)
    for document, found, said, keys in zip(documents, places, said_by, names_of):
        mentions = []
        for span in found:
            surface = ' '.join(document.text[span.start : span.end].split())
            if span.kind == CONCEPT:
                # A key that no name has, as `fold` removes brackets.
                key = f'{name_of(surface)} ({CONCEPT})'
            else:
                key = surface if span.kind in VALUES else shared.entity(keys, span, surface)
            of_title = _ARTICLE.match(titles.name.get(key, '').lower())
            if span.kind == 'group' and of_title and not _ARTICLE.match(surface.lower()):
                key = surface  # an American is not "The American"
            spellings.setdefault(key, collections.Counter())[surface] += 1
            kinds.setdefault(key, collections.Counter())[span.kind] += 1
            mentions.append(Mention(span.start, span.end, key))
        mentions = _with_first_persons(document.text, mentions, said)
        about = titles.entity_of(document)
        if about is not None and (kind := defined_kind(document.text)):
            kinds_by_definition[about] = kind
        resolved.append(dataclasses.replace(document, mentions=tuple(mentions), title_entity=about))
    # Only its title names it, partly in lower case: 'The Guide for Visitors', not 'Ada Lovelace'.
    is_heading = lambda key: (
        not kinds[key] and any(word[0].islower() for word in titles.name.get(key, '').split())
    )
    kind_of = {
        key: TITLE_KIND if is_heading(key) else _most_frequent(counts)
        for key, counts in kinds.items()
    } | kinds_by_definition
    # First for all texts: what is a person decides what 'its' can mean.
    meant = [_persons_meant(document, kind_of, said) for document, said in zip(resolved, said_by)]
    kind_of |= {mention.entity: 'person' for found in meant for mention in found}
    resolved = [_with_pronouns(each, kind_of, found) for each, found in zip(resolved, meant)]
    names, aliases = [], []
    for key, counts in spellings.items():
        # Its full forms before the short ones.
        forms = sorted(counts, key=lambda form: (fold(form) != key, -counts[form], form))
        names.append(titles.name.get(key) or forms[0])
        aliases.append([form for form in forms if form != names[-1]])
    kinds_of_keys = [kind_of[key] for key in spellings]
    return EntityVocab(list(spellings), names, aliases, kinds_of_keys), resolved


def _in_place_of(spans: Sequence[Span], others: Sequence[Span]) -> list[Span]:
    """Disjoint spans, and those of some others that overlap none of them; by start."""
    apart = [span for span in spans if not overlap(others, span.start, span.end)]
    return sorted([*apart, *others])


def _with_terms(text: str, spans: Sequence[Span], terms: Sequence[Defined]) -> list[Span]:
    """Adds full names of defined acronyms, and uses of terms that are defined in quotes."""
    whole: list[Span] = []
    for term in terms:
        if not term.is_quoted and (not whole or whole[-1].end <= term.start):
            inside = starting_in(spans, term.start, term.end)
            whole.append(Span(term.start, term.end, inside[-1].kind if inside else 'organisation'))
    spans = _in_place_of(spans, whole)
    kind_at = {span.start: span.kind for span in spans}
    kinds = {term.term: kind_at.get(term.start, UNKNOWN_KIND) for term in terms if term.is_quoted}
    apart = (place for place in uses(text, list(kinds)) if not overlap(spans, *place))
    return sorted([*spans, *(Span(start, end, kinds[text[start:end]]) for start, end in apart)])


def _with_first_persons(text: str, mentions: list[Mention], said: Sequence[Turn]) -> list[Mention]:
    """The mentions of a text with those by 'I' and 'my', see `speakers`; by start."""
    entity_at = {mention.start: mention.entity for mention in mentions}
    places = first_persons(text, said, mentions)
    meant = [Mention(start, end, entity_at[turn.name_start]) for start, end, turn in places]
    return sorted([*mentions, *meant])


def _persons_meant(
    document: Document, kinds: Mapping[str, str], said: Sequence[Turn]
) -> list[Mention]:
    """Whom 'he' and 'she' mean; nobody in a text that may be about one whom it does not name."""
    mentions, about = document.mentions or (), document.title_entity
    kind = None if about is None else kinds[about]
    is_named = any(mention.entity == about for mention in mentions)
    if kind == 'person' or (kind == UNKNOWN_KIND and is_named):
        return []
    return pronouns(document.text, mentions, kinds, said)


def _with_pronouns(
    document: Document, kinds: Mapping[str, str], persons: Sequence[Mention]
) -> Document:
    """A document with what its pronouns mean, of which `persons` are known."""
    mentions = document.mentions or ()
    found = [*mentions, *persons, *possessives(document.text, mentions, kinds)]
    return dataclasses.replace(document, mentions=tuple(sorted(found)))


def _most_frequent(kinds: collections.Counter[str]) -> str:
    """The known kind that most mentions have; of equally frequent ones the first by name."""
    known = (kind for kind in kinds if kind != UNKNOWN_KIND)
    return min(known, key=lambda kind: (-kinds[kind], kind), default=UNKNOWN_KIND)


def _kinds_of_names(
    documents: Sequence[Document], spans: Sequence[Sequence[Span]]
) -> dict[str, str]:
    """The kind of each folded name that most of its mentions have, of those with a kind."""
    kinds: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for document, found in zip(documents, spans):
        for span in found:
            if span.kind not in (*VALUES, CONCEPT):
                kinds[fold(document.text[span.start : span.end])][span.kind] += 1
    return {name: _most_frequent(counts) for name, counts in kinds.items()}


def _without_pairs(
    document: Document, spans: Sequence[Span], persons: Collection[str], titles: '_Titles'
) -> list[Span]:
    """Spans, with those of two persons, 'Mozart and Beethoven', taken apart."""
    apart: list[Span] = []
    surfaces = [document.text[span.start : span.end] for span in spans]
    times = collections.Counter(surfaces)
    for span, surface in zip(spans, surfaces):
        first, both, second = surface.partition(' and ')
        # A film or a firm, Marks and Spencer, is called so again and again.
        may_be_two = both and span.kind != 'work' and times[surface] == 1
        are_two = may_be_two and fold(first) in persons and fold(second) in persons
        if are_two and not titles.has(fold(surface)):
            end = span.start + len(first)
            apart += [Span(span.start, end, 'person'), Span(end + len(both), span.end, 'person')]
        else:
            apart.append(span)
    return apart


class _Titles:
    """The entities that titles name; `name` has the title of each key."""

    def __init__(self, documents: Sequence[Document]):
        self.name: dict[str, str] = {}
        # By folded title without brackets: its keys, and by the folded words in brackets, whose
        # they are.
        self._with_base: dict[str, dict[str, None]] = collections.defaultdict(dict)
        self._told_by: dict[str, dict[tuple[str, ...], set[str]]] = collections.defaultdict(dict)
        for document in documents:
            key = self.entity_of(document)
            if key is not None and key not in self.name:
                self.name[key] = name = document.title_entity or ''
                base = fold(without_brackets(name))
                self._with_base[base][key] = None
                if in_brackets := _BRACKETS.search(name):
                    words = tuple(fold(in_brackets[1]).split(' '))
                    self._told_by[base].setdefault(words, set()).add(key)
        bare = map(without_brackets, self.name.values())
        names = (name for name in bare if name[0].isupper() and len(name) <= MAX_NAME)
        self._linker = MentionLinker(EntityVocab.from_names(names))

    def has(self, name: str) -> bool:
        """Whether a folded name is a title, with or without its brackets."""
        return name in self.name or name in self._with_base

    def entity_of(self, document: Document) -> str | None:
        """The key of the entity that a document is about."""
        return None if document.title_entity is None else fold(document.title_entity)

    def with_titles(self, spans: Sequence[Span], text: str) -> list[Span]:
        """A text's spans, and the titles it mentions in place of those inside them; by start."""
        whole = []
        for start, end, _ in self._linker.link(text):
            # A word that begins a sentence is written as a name is: there recognition decides.
            is_name = ' ' in text[start:end] or not begins_sentence(text, start)
            if is_name and not ((around := covering(spans, start)) and end <= around.end):
                whole.append(Span(start, end, UNKNOWN_KIND))
        return _in_place_of(spans, whole)

    def meant_by(self, name: str, document: Document, start: int, end: int) -> str:
        """The key of the entity that a folded name means at a place of a document."""
        keys, about = self._with_base.get(name, {}), self.entity_of(document)
        if about in keys:
            return about
        if name in self.name:
            return name  # a title without brackets is that name's first meaning
        if len(keys) < 2:
            return next(iter(keys), name)
        around = fold(document.text[max(0, start - _CONTEXT) : end + _CONTEXT]).split(' ')
        told: set[str] = set()
        told_by = self._told_by[name]
        lengths = range(1, len(around) + 1)
        if len(told_by) < len(around):
            lengths = {len(words) for words in told_by}
        for length in lengths:
            for i in range(len(around) - length + 1):
                told |= told_by.get(tuple(around[i : i + length]), set())
        return told.pop() if len(told) == 1 else name


class _Names:
    """The names of one document, and which of them are short for others."""

    def __init__(
        self,
        document: Document,
        spans: Sequence[Span],
        terms: Sequence[Defined],
        titles: _Titles,
        persons: Collection[str],
    ):
        self.document, self._document, self._titles = document.id, document, titles
        self.about = titles.entity_of(document)
        title = fold(without_brackets(document.title_entity or ''))
        names = {title: UNKNOWN_KIND} if title else {}
        self._places: set[int] = set()  # where a surname stands for a place
        for span in spans:
            if span.kind not in (*VALUES, CONCEPT):
                name = fold(document.text[span.start : span.end])
                if ' ' not in name and stands_as_place(document.text, span.start, span.end):
                    self._places.add(span.start)
                is_known = names.get(name, UNKNOWN_KIND) != UNKNOWN_KIND
                if not is_known or span.start not in self._places:
                    names[name] = 'person' if name in persons else span.kind
        self.persons = {name for name, kind in names.items() if kind == 'person'}
        self._families = {name.rpartition(' ')[2] for name in self.persons if ' ' in name}
        self.kind = _kinds_of_names([document], [spans])
        self.defined = {fold(t.term): fold(document.text[t.start : t.end]) for t in terms}
        # Franz Joseph Haydn, in a text about Joseph Haydn.
        has_first_name = ' ' in title and title.split()[0] not in _PARTICLES
        fuller = [name for name in self.persons if name.endswith(f' {title}')]
        is_one = has_first_name and len(fuller) == 1 and not titles.has(fuller[0])
        self.long = {fuller[0]: title} if is_one else {}
        # Elsewhere in a text about a person this name may be a relative's.
        if title and spans and spans[0].start < _BEGINNING and spans[0].kind == 'person':
            name = fold(document.text[spans[0].start : spans[0].end])
            if not titles.has(name) and _is_one_person(name, title):
                self.long[name] = title
        short_for: dict[str, set[str]] = collections.defaultdict(set)
        order = {name: number for number, name in enumerate(names)}
        for name, kind in names.items():
            words = name.split()
            if len(words) > 1 and kind in _SHORTENED:
                if _OF_PHRASES.isdisjoint(words):  # not 'Word of God'
                    short_for[words[-1]].add(name)
                if kind == 'person' or name == title:
                    short_for[words[0]].add(name)
            elif len(words) > 1 and words[-1] in _FORMS:
                short_for[' '.join(words[:-1])].add(name)
        for name, kind in names.items():
            # What is no person is called by its full name first: no Dodo is a Mauritius Dodo.
            long = {
                other
                for other in short_for.get(name, ())
                if other not in self.long
                and (names[other] != UNKNOWN_KIND or order[other] < order[name])
            } - {name}
            # The longest of names that contain each other is the full one: Byron, George Gordon
            # Lord Byron.
            longest = max(long, key=len, default='')
            if kind not in _SHORTENED | {'organisation'} or not longest:
                continue
            if kind in _SHORTENED and title in long and title.split()[-1] == name:
                # A text about one of a family calls nobody else by the last name alone.
                self.long[name] = title
            elif all(f' {other} ' in f' {longest} ' for other in long):
                self.long[name] = longest
        for before, after in zip(spans, spans[1:]):
            between = document.text[before.end : after.start]
            short = document.text[after.start : after.end]
            long = document.text[before.start : before.end]
            opens = between in (' (', ' ("', ' (“')
            closes = document.text[after.end : after.end + 1] in (')', '"', '”')
            if opens and closes and _abbreviates(short, long):
                self.long[fold(short)] = fold(long)
        self.long |= {term: name for term, name in self.defined.items() if term != name}
        self.births: dict[str, set[str]] = {}
        for name, facts in _births(document.text, spans).items():
            self.births.setdefault(self._full(name), set()).update(facts)

    def calls_person(self, span: Span, name: str, kinds: Collection[str]) -> bool:
        """Whether a mention by a folded last name may mean a person not named in full there."""
        is_person = name in self.persons and self.kind[name] in kinds
        return is_person and name not in self._families and span.start not in self._places

    def entity(self, span: Span, name: str) -> str:
        """The key of the entity that a mention means, by its folded name."""
        is_place = span.start in self._places and self.long.get(name) in self.persons
        name = name if is_place else self._full(name)
        return self._titles.meant_by(name, self._document, span.start, span.end)

    def _full(self, name: str) -> str:
        """The folded name that a folded name is short for, or that itself."""
        seen = {name}
        while (long := self.long.get(name)) and long not in seen:
            name = long
            seen.add(name)
        return name


class _SharedNames:
    """What short names mean that a document uses and does not explain, by all documents.

    A term or acronym that others define, all for the same name, means that name. A last name means
    the only one of the family whom a document is about, if more documents give the full name than
    give that of any other, whom the person's own document does not count for. Another first or last
    name of several persons means none of them, but somebody else in each document. Persons of one
    name with different places or years of birth are different.
    """

    def __init__(self, names: Sequence[_Names], titles: _Titles):
        self._apart = _apart(names, titles)
        means: dict[str, set[str]] = collections.defaultdict(set)
        persons: dict[str, set[str]] = collections.defaultdict(set)
        # By last name the full ones, and the documents that give each.
        families: dict[str, dict[str, set[str]]] = collections.defaultdict(dict)
        own: dict[str, set[str]] = collections.defaultdict(set)
        for of_document in names:
            for term, name in of_document.defined.items():
                means[term].add(name)
            own[of_document.about or ''].add(of_document.document)
            for name in of_document.persons:
                words = name.split()
                for word in {words[0], words[-1]} if len(words) > 1 else ():
                    persons[word].add(name)
                if len(words) > 1:
                    families[words[-1]].setdefault(name, set()).add(of_document.document)
        # Firms are named after persons, 'Carnegie Institution', and called by their last names.
        self._firms = {
            word
            for of_document in names
            for name, kind in of_document.kind.items()
            if kind == 'organisation'
            for word in name.split()[:-1]
        }
        self._best_known: dict[str, str] = {}
        for word, family in families.items():
            described = [name for name in family if name in own]
            if len(described) == 1 and not titles.has(word):
                (name,) = described
                others = (len(of - own[name]) for other, of in family.items() if other != name)
                if max(others, default=0) < len(family[name]):
                    self._best_known[word] = name
        clear = ((term, *found) for term, found in means.items() if len(found) == 1)
        self._means = {term: name for term, name in clear if not titles.has(term)}
        many = (word for word, found in persons.items() if len(found) >= _PERSONS_OF_A_NAME)
        self._several = {word for word in many if not titles.has(word)}

    def entity(self, names: _Names, span: Span, surface: str) -> str:
        """The key of the entity that a mention in a document means."""
        name = fold(surface)
        if name not in names.long:
            is_term = surface.isupper() or span.kind in (UNKNOWN_KIND, 'organisation', 'person')
            if is_term and name in self._means:
                return names.entity(span, self._means[name])
            best_known = self._best_known.get(name) if surface[0].isupper() else None
            kinds = ('person',) if name in self._firms else ('person', UNKNOWN_KIND, 'organisation')
            if best_known and names.calls_person(span, name, kinds):
                return names.entity(span, best_known)
            if name in self._several and span.kind in _SHORTENED:
                # A key that no other name has, as `fold` removes brackets.
                return f'{name} ({names.document})'
        key = names.entity(span, name)
        return self._apart.get((key, names.document), key)


def _apart(names: Sequence[_Names], titles: _Titles) -> dict[tuple[str, str], str]:
    """Keys, by name and document, of persons whom an earlier document's namesake contradicts."""
    born: dict[str, dict[str, set[str]]] = collections.defaultdict(dict)
    for of_document in names:
        for name, where_or_when in of_document.births.items():
            if ' ' in name and not titles.has(name):
                born[name][of_document.document] = where_or_when
    keys = {}
    for name, by_document in born.items():
        persons: list[tuple[str, set[str]]] = []
        for document, facts in by_document.items():
            same = next((person for person in persons if not _contradict(person[1], facts)), None)
            if same is None:
                same = (name if not persons else f'{name} ({document})', set())
                persons.append(same)
            same[1].update(facts)
            keys[name, document] = same[0]
            if len(persons) > _HOMONYMS:
                break
    return {place: key for place, key in keys.items() if key != place[0]}


def _contradict(facts: set[str], others: set[str]) -> bool:
    """Whether two sets of places and years both have places, or both years, but none in common."""
    for is_year in (True, False):
        kind = {fact for fact in facts if fact.isdigit() == is_year}
        of_kind = {other for other in others if other.isdigit() == is_year}
        if kind and of_kind and not kind & of_kind:
            return True
    return False


_BORN = re.compile(r'\bborn (?:on|in|at) (?:the )?')
_YEAR = re.compile(r'\b\d{4}\b')


def _births(text: str, spans: Sequence[Span]) -> dict[str, set[str]]:
    """Places and years of birth that a text states, by the folded name of the person."""
    found: dict[str, set[str]] = {}
    starts = [span.start for span in spans]
    for match in _BORN.finditer(text):
        first = bisect.bisect_left(starts, match.end())
        before = spans[max(0, first - _BEFORE_BIRTH) : first]
        person = next((span for span in reversed(before) if span.kind == 'person'), None)
        if person is None or first == len(spans) or spans[first].start > match.end():
            continue
        facts = found.setdefault(fold(text[person.start : person.end]), set())
        for span in spans[first : first + _FACTS_OF_BIRTH]:
            value = text[span.start : span.end]
            if span.kind == 'date':
                facts.update(_YEAR.findall(value))
            elif span.kind != 'quantity':
                facts.add(fold(value))
            if not _GOES_ON.match(text, span.end):
                break
    return found


_GOES_ON = re.compile(r',? (?:in |at |on )?(?=[A-Z0-9])')


def _is_one_person(name: str, title: str) -> bool:
    """Whether two folded names differ only by first names that one lacks, or has as initials."""
    (first, *inner), (title_first, *title_inner) = name.split() or [''], title.split() or ['']
    if name == title or not (inner and title_inner and inner[-1] == title_inner[-1]):
        return False
    middle, title_middle = inner[:-1], title_inner[:-1]
    if middle and title_middle and len(middle) != len(title_middle):
        return False
    return is_one_word(first, title_first) and all(map(is_one_word, middle, title_middle))


def is_one_word(word: str, other: str) -> bool:
    """Whether two words are one, or one is the initial of the other."""
    return word == other or (1 in (len(word), len(other)) and word[0] == other[0])


def _abbreviates(short: str, long: str) -> bool:
    """Whether a short name's letters, at least two, are a long one's initials or capitals."""
    letters = [c for c in short if c.isalnum()]
    words = [word for word in re.split(r'[\s-]+', long) if word]
    initials = [word[0] for word in words if word[0].isupper()]
    all_initials = [word[0].upper() for word in words]
    return len(letters) > 1 and letters in (initials[-len(letters) :], all_initials)
