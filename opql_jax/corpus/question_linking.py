"""Finds the entities that a question in plain words names, by the spellings of a vocabulary."""

import bisect
import functools
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from opql_jax.corpus.definitions import GROUP, PERSON, PLACE, WORK
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.name_resolution import NOT_WORDS, fold, plain_letters, without_brackets
from opql_jax.corpus.recognition import FUNCTION_WORDS
from opql_jax.corpus.spans import POSSESSIVE
from opql_jax.corpus.words import word_list

_TOKEN = re.compile(r'\S+')
_FUNCTION_WORDS = {word.lower() for word in FUNCTION_WORDS} | word_list('function_in_questions')
# Runs of words that are written as names are, and such as small words join: 'Harbour at Dusk'.
_CAPITAL = r'[^\W\d_a-zß-öø-ÿ][\w-]*'
_CAPITALISED = re.compile(rf'\b(?!I\b){_CAPITAL}(?: {_CAPITAL})*')
_JOINED = re.compile(
    rf'{_CAPITALISED.pattern}(?: (?:and|at|for|from|in|of|on|to|with)(?: (?:a|an'
    rf'|the))?(?: {_CAPITAL})+)+'
)
# Maximum number of unknown names for which to suggest others.
_NEAR = 3
# First words of questions that are not names.
_OPENERS = _FUNCTION_WORDS | word_list('requests')
# What stands before a word in small letters that is no name: 'how long', 'the first woman'.
_MEASURED = re.compile(r'\bhow $', re.I)
_NOUN_AFTER = re.compile(r'\b(?:which|what|whose|first|last|only|an?|many) $', re.I)
_NOUN = re.compile('|'.join((PERSON, PLACE, GROUP, WORK)), re.I)
_NEVER_NAMES = frozenset('a an i the'.split())
# Text between two joined names.
_AND_OR_OR = re.compile(r"""(?:['’]s)?["”]?,?\s+(?:and|or|&)\s+(?:(?:an?|the)\s+)?["“]?""", re.I)
# Maximum number of names to follow, and of others to mention in the note.
MOST_NAMES, _TOLD = 8, 3
# Relations of a spelling to an entity, the surest first.
_NAME, _WITHOUT_BRACKETS, _ALIAS, _SURNAME = range(4)


class Named(NamedTuple):
    """The characters `[start, end)` of a question, and entities they may mean, likeliest first."""

    start: int
    end: int
    entities: list[int]


def followed(names: Sequence[Named]) -> tuple[list[Named], list[Named]]:
    """The first `MOST_NAMES` distinct names, which an answer starts from, and those left out."""
    distinct: dict[int, Named] = {}
    for named in names:
        distinct.setdefault(named.entities[0], named)
    return list(distinct.values())[:MOST_NAMES], list(distinct.values())[MOST_NAMES:]


def left_out_note(left_out: Sequence[str]) -> str:
    """The note of an answer on names that are left out; '' if none are."""
    if not left_out:
        return ''
    more = f' and {len(left_out) - _TOLD:,} more' if len(left_out) > _TOLD else ''
    names = ', '.join(left_out[:_TOLD])
    return f'only the first {MOST_NAMES} names are followed, not {names}{more}'


def joined(question: str, names: Sequence[Named]) -> list[tuple[Named, Named]]:
    """The pairs of names that 'and' or 'or' joins, by start: 'Is Parsifal or the Ring older?'."""
    is_joined = lambda pair: _AND_OR_OR.fullmatch(question[pair[0].end : pair[1].start])
    return list(filter(is_joined, itertools.pairwise(names)))


def written_as_names(question: str) -> list[tuple[int, int]]:
    """The `[start, end)` of words written as names, without function words at the start."""
    found = []
    for match in _CAPITALISED.finditer(question):
        start, words = match.start(), match[0].split(' ')
        if not question[:start].strip(' "“‘¿(') and words[0].lower() in _OPENERS:
            start += len(words[0]) + 1
        if start < match.end():
            found.append((start, match.end()))
    return found


def near_spellings(question: str, vocab: EntityVocab) -> str:
    """The end of a message that no name is known: spellings near the first names, or ''."""
    spans = written_as_names(question)
    joined_by_words = (match[0] for start, _ in spans if (match := _JOINED.match(question, start)))
    names = (question[start:end] for start, end in spans[:_NEAR])
    return vocab.did_you_mean([*itertools.islice(joined_by_words, _NEAR), *names])


def _may_be_name(text: str, start: int, end: int) -> bool:
    """Whether a single word in lower case may be a name."""
    word, before = text[start:end], text[max(start - 10, 0) : start]
    is_noun = bool(_NOUN.fullmatch(word) and _NOUN_AFTER.search(before))
    return fold(word) not in _FUNCTION_WORDS and not is_noun and not _MEASURED.search(before)


class QuestionLinker:
    """Links questions to entities, whatever case, accents, punctuation and leading article.

    Of entities that share a spelling, those called so come first, then titles without brackets,
    then aliases, among them the text's short forms. An unused surname means all who have it.
    """

    def __init__(self, vocab: EntityVocab):
        self._vocab = vocab
        self._entities: dict[str, dict[int, int]] = {}  # by spelling, how it belongs to each entity
        folded = list(map(fold, vocab.names))
        for entity, (name, spelling, aliases) in enumerate(zip(vocab.names, folded, vocab.aliases)):
            self._add(spelling, entity, _NAME)
            if not name.isalpha():  # else it has neither an article nor brackets
                self._add(_folded(name), entity, _NAME)
                self._add(fold(without_brackets(name)), entity, _WITHOUT_BRACKETS)
            for alias in aliases:
                self._add(fold(alias), entity, _ALIAS)
        for entity, (spelling, kind) in enumerate(zip(folded, vocab.kinds)):
            words = spelling.split()
            if kind == 'person' and len(words) > 1:
                self._add(words[-1], entity, _SURNAME)
        self._longest: dict[str, int] = {}  # by first word, the most words of a spelling
        for spelling in self._entities:
            first = spelling.partition(' ')[0]
            self._longest[first] = max(self._longest.get(first, 0), spelling.count(' ') + 1)

    def link(self, question: str) -> list[Named]:
        """The names in a question, by start, disjoint; the leftmost wins, then the longest.

        If none is written as a name, words in lower case may be one, several before single ones,
        and else the beginning of just one name: Karsholm is Karsholm Airport.
        """
        several = lambda text, start, end: ' ' in text[start:end]
        for accept in (self._is_written_as_name, several, _may_be_name):
            if found := self._disjoint(question, accept):
                return found
        return self._beginnings(question)

    def meanings(self, name: str) -> list[int]:
        """The entities a name means: called so, else in another case, by alias, by surname."""
        how = self._entities.get(_folded(name)) or self._entities.get(fold(name)) or {}
        surest = sorted(entity for entity, way in how.items() if way == min(how.values()))
        return [entity for entity in surest if self._is_exact(name, entity)] or surest

    def named(self, name: str) -> list[int]:
        """The entity of a key, or what a name means; InputError names the nearest."""
        vocab = self._vocab
        means = [vocab.id_of_key[name]] if name in vocab.id_of_key else self.meanings(name)
        return means or [vocab.id(name)]  # by a spelling that folds to nothing, or raises

    def unique_name(self, entity: int) -> str:
        """A name of this entity only: its name, or else its key."""
        name = self._vocab.names[entity]
        return name if self.meanings(name) == [entity] else self._vocab.keys[entity]

    def _add(self, spelling: str, entity: int, how: int) -> None:
        if spelling:  # '☆' folds to nothing, which stands before every "'s"
            self._entities.setdefault(spelling, {}).setdefault(entity, how)

    def _disjoint(self, question: str, accept: Callable[[str, int, int], bool]) -> list[Named]:
        found: list[Named] = []
        for start, end, entities in self._candidates(question):
            if (not found or start >= found[-1].end) and accept(question, start, end):
                found.append(Named(start, end, entities))
        return found

    def _candidates(self, question: str) -> Iterator[Named]:
        """All that any spelling matches, by start, the longest first."""
        folded, places = '', []
        for place, character in enumerate(question):
            piece = NOT_WORDS.sub(' ', plain_letters(character))
            folded += piece
            places += [place] * len(piece)
        words = [match.span() for match in _TOKEN.finditer(folded)]
        for first, (start, _) in enumerate(words):
            word = folded[slice(*words[first])]
            longest = max(self._longest.get(w, 0) for w in (word, POSSESSIVE.sub('', word)))
            for _, end in reversed(words[first : first + longest]):
                spelling = ' '.join(folded[start:end].split())
                base = POSSESSIVE.sub('', spelling)
                for text in dict.fromkeys((spelling, base)):
                    if entities := self._entities.get(text):
                        cut = end - (len(spelling) - len(text))
                        yield self._named(question, places[start], places[cut - 1] + 1, entities)
                        break

    def _beginnings(self, question: str) -> list[Named]:
        found = []
        for start, end in written_as_names(question):
            beginning, begun = fold(question[start:end]) + ' ', set()
            place = bisect.bisect_left(self._spellings, beginning)
            for at in range(place, len(self._spellings)):
                if len(begun) > 1 or not self._spellings[at].startswith(beginning):
                    break
                begun |= self._entities[self._spellings[at]].keys()
            if len(begun) == 1:
                found.append(Named(start, end, list(begun)))
        return found

    @functools.cached_property
    def _spellings(self) -> list[str]:
        return sorted(self._entities)

    def _named(self, question: str, start: int, end: int, entities: dict[int, int]) -> Named:
        surface = question[start:end]
        sure = {e: how for e, how in entities.items() if how != _SURNAME} or entities
        order = lambda entity: (sure[entity], not self._is_exact(surface, entity), entity)
        return Named(start, end, sorted(sure, key=order))

    def _is_exact(self, name: str, entity: int) -> bool:
        return name == self._vocab.names[entity] or name in self._vocab.aliases[entity]

    def _is_written_as_name(self, question: str, start: int, end: int) -> bool:
        """Whether words begin as a name, and are no function word where one is likelier."""
        if not (question[start].isupper() or question[start].isdigit()):
            return False
        if (word := fold(question[start:end])) in _FUNCTION_WORDS:
            before = question[:start].split()
            return word not in _NEVER_NAMES and bool(before) and before[-1].islower()
        return True


def _folded(name: str) -> str:
    """A name as it stands in a folded question, with its article."""
    return ' '.join(NOT_WORDS.sub(' ', plain_letters(name)).split())
