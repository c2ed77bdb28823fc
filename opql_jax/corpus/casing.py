"""Writes text in all capitals, or all lower case, as prose, so that its names can be recognised.

Only the case changes, and no offset, so that names are found where they are in the original. A word
is a name if other text has it so, if a recogniser takes it for one, or, in capitals, if no
dictionary has it; so are nouns beside it ("PORT ELLERY"), and most nouns without an article after
'in' and 'from' ("IN LONDON").
"""

import bisect
import collections
import importlib.util
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.linking import MentionLinker
from opql_jax.corpus.sentences import sentence_starts
from opql_jax.corpus.spans import MAX_NAME, POSSESSIVE, VALUES, Span, overlap
from opql_jax.corpus.words import word_list

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
# Fewest words of a sentence in capitals; one is enough where this share of the text is in capitals.
_WORDS, _OF_TEXT = 4, 0.8
# Fewest words of a text to say that it is in one case.
_TOLD = 8
_FUNCTION_WORDS = word_list('function')
_ALWAYS = word_list('capitals')
_BESIDE = word_list('beside_names')
_PLACE_BEFORE = frozenset('from in near'.split())
_NO_PLACES = word_list('no_places')
_ABSTRACT = re.compile(r'(?:tion|sion|ment|ness|ity|ism|ence|ance|ship|ing|ry|cy|logy|ics|s)$')
_DAY_OR_YEAR = re.compile(r'\d ?MAY|MAY \d', re.I)
_KINDS = ('noun', 'verb', 'adj', 'adv')
_ARTICLES = frozenset('a an her his its our my the their this that these those your'.split())


class Dictionary(NamedTuple):
    """English words in their basic forms, in lower case: nouns that nothing else is, and all."""

    nouns: frozenset[str]
    words: frozenset[str]

    def has(self, word: str) -> bool:
        """Whether a word, or the one that it is a form of, is in it."""
        return any(form in self.words for form in _basic_forms(word))

    def is_basic(self, word: str) -> bool:
        """Whether a word may be a name beside another: no form of a word, and no function word."""
        return word not in _FUNCTION_WORDS and (word in self.words or not self.has(word))

    def has_only_noun(self, word: str) -> bool:
        """Whether a word is a noun, and nothing else."""
        is_plural = len(word) > 4 and word[-1] == 's' and word[:-1] in self.nouns
        return word not in _FUNCTION_WORDS and (word in self.nouns or is_plural)


def _basic_forms(word: str) -> Iterable[str]:
    """A word, and those that it may be a form of."""
    yield word
    for ending, basic in (
        ('s', ''), ('es', ''), ('ies', 'y'), ('ed', ''), ('d', ''), ('ied', 'y'), ('ing', ''),
        ('ing', 'e'), ('er', ''), ('er', 'e'),
        ('est', ''), ('ly', ''), ('n', ''), ("'s", ''), ('’s', ''), ("n't", ''),
    ):  # fmt: skip
        if word.endswith(ending):
            stem = word[: len(word) - len(ending)]
            yield stem + basic
            if len(stem) > 2 and stem[-1] == stem[-2]:
                yield stem[:-1]


def load_dictionary(models: Sequence[str]) -> Dictionary:
    """The words of the first of some spaCy models that is installed; none if it has no table."""
    for name in models:
        if found := importlib.util.find_spec(name):
            from spacy.lookups import Lookups

            folder = pathlib.Path(found.origin or '').parent
            for file in sorted(folder.glob('*/lemmatizer/lookups/lookups.bin')):
                lookups = Lookups().from_disk(file.parent)
                index = lookups.get_table('lemma_index', {})
                forms = lookups.get_table('lemma_exc', {})
                kinds = {kind: frozenset(index[kind]) for kind in _KINDS if kind in index}
                others = frozenset().union(*(kinds[kind] for kind in kinds if kind != 'noun'))
                irregular = frozenset(word for kind in kinds for word in forms.get(kind, {}))
                nouns = kinds.get('noun', frozenset())
                return Dictionary(nouns - others - irregular, nouns | others | irregular)
    return Dictionary(frozenset(), frozenset())


def cased(
    texts: Sequence[str],
    dictionary: Callable[[], Dictionary],
    recognise: Callable[[Sequence[str]], list[list[tuple[int, int, bool]]]],
) -> list[str]:
    """Texts in which sentences in capitals, and texts without any, are written as prose is.

    Each has as many characters as before. `texts` are of all documents, which tell each other's
    names. `dictionary` gives the words that are no names, where there is such a sentence.
    `recognise` takes such sentences, with capitals at all words but function words, and gives of
    each the `[start, end)` of persons and places, and whether it is a person.
    """
    parts = [_in_one_case(text) for text in texts]
    if not any(parts):
        return list(texts)
    words, names = dictionary(), _names(texts, parts)
    sentences = [text[start:end] for text, of_text in zip(texts, parts) for start, end in of_text]
    found = recognise([_WORD.sub(_as_title, sentence) for sentence in sentences])
    prose = iter([_sentence(s, words, names, spans) for s, spans in zip(sentences, found)])
    return [_replaced(text, of_text, prose) for text, of_text in zip(texts, parts)]


def _as_title(word: re.Match[str]) -> str:
    lower = word[0].lower()
    return lower if lower in _FUNCTION_WORDS and word.start() else lower[0].upper() + lower[1:]


def told_case(text: str) -> str:
    """'capitals' or 'lower case' if a text is written so throughout and not too short, else ''."""
    words = _WORD.findall(text[:100_000])
    if len(words) < _TOLD:
        return ''
    if sum(word.isupper() for word in words) > _OF_TEXT * len(words):
        return 'capitals'
    return 'lower case' if all(map(str.islower, words)) else ''


def with_names_in_lower_case(
    texts: Sequence[str], spans: Sequence[Sequence[Span]], dictionary: Callable[[], Dictionary]
) -> tuple[list[str], list[list[Span]]]:
    """Texts and spans with the lower-case names that other text writes with capitals.

    In texts without capitals all names but single dictionary words, elsewhere persons and places of
    several words. Lengths stay.
    """
    several: dict[str, Span] = {}
    spellings: dict[str, str] = {}
    for text, of_text in zip(texts, spans):
        for span in of_text:
            name = text[span.start : span.end]
            lower = name.lower()
            has_capital = lower != name and len(lower) == len(name)
            if has_capital and 3 < len(name) <= MAX_NAME and span.kind not in VALUES:
                several.setdefault(lower, span)
                spellings.setdefault(lower, name)
    in_lower_case = [told_case(text) == 'lower case' for text in texts]
    words = dictionary() if any(in_lower_case) and several else None
    who_or_where = (name for name, span in several.items() if span.kind in ('person', 'place'))
    sure = [name for name in who_or_where if ' ' in name]
    other = [name for name in several if words and (' ' in name or not words.has(name))]
    linkers = [MentionLinker(EntityVocab.from_names(names)) for names in (sure, other)]
    found_texts, found_spans = [], []
    for text, of_text, is_lower in zip(texts, spans, in_lower_case):
        places = ((start, end) for start, end, _ in linkers[is_lower].link(text))
        apart = [place for place in places if not overlap(of_text, *place)]
        added = [Span(start, end, several[text[start:end]].kind) for start, end in apart]
        found_spans.append(sorted([*of_text, *added]))
        with_capitals = iter([spellings[text[start:end]] for start, end, _ in added])
        found_texts.append(_replaced(text, [(s.start, s.end) for s in added], with_capitals))
    return found_texts, found_spans


def _in_one_case(text: str) -> list[tuple[int, int]]:
    """The places of the sentences of a text in capitals, or of all if it has no capital."""
    if told_case(text) == 'lower case' and text.islower():
        return _sentences(text)
    letters = [character for character in text[:100_000] if character.isalpha()]
    upper = sum(map(str.isupper, letters))
    if not upper or (len(letters) > 1000 and upper < 0.005 * len(letters)):
        return []
    least = 1 if upper > _OF_TEXT * len(letters) and len(letters) > 40 else _WORDS
    return [place for place in _sentences(text) if _is_in_capitals(text[slice(*place)], least)]


def _sentences(text: str) -> list[tuple[int, int]]:
    starts = sentence_starts(text)
    return list(zip(starts, [*starts[1:], len(text)]))


def _is_in_capitals(sentence: str, least: int) -> bool:
    if not sentence.isupper() or len(sentence.lower()) != len(sentence):
        return False
    return sum(len(word) > 1 for word in _WORD.findall(sentence)) >= least


def _names(texts: Sequence[str], parts: Sequence[Sequence[tuple[int, int]]]) -> frozenset[str]:
    """Words that have a capital inside sentences more often than not."""
    capital: collections.Counter[str] = collections.Counter()
    for text, of_text in zip(texts, parts):
        at = 0
        for start, end in (*of_text, (len(text), len(text))):
            starts = set(sentence_starts(text[at:start]))
            for match in _WORD.finditer(text[at:start]):
                word = match[0]
                if match.start() not in starts and (len(word) == 1 or not word.isupper()):
                    capital[word.lower()] += 1 if word[0].isupper() else -1
            at = end
    return frozenset(word for word, count in capital.items() if count > 0)


def _replaced(text: str, parts: Sequence[tuple[int, int]], prose: Iterator[str]) -> str:
    """A text with prose in the place of some of its parts."""
    pieces, at = [], 0
    for start, end in parts:
        pieces += [text[at:start], next(prose)]
        at = end
    return ''.join([*pieces, text[at:]])


def _sentence(
    sentence: str,
    dictionary: Dictionary,
    names: frozenset[str],
    recognised: Sequence[tuple[int, int, bool]],
) -> str:
    """Writes a sentence in capitals, or without any, as prose."""
    in_capitals = sentence.isupper()
    matches = list(_WORD.finditer(sentence))
    lower = [POSSESSIVE.sub('', match[0].lower()) for match in matches]
    gaps = [sentence[a.end() : b.start()] for a, b in zip(matches, matches[1:])]
    is_beside = [False, *(gap == ' ' for gap in gaps)]
    known = list(map(dictionary.has, lower))
    is_new = [in_capitals and not (k or w in _FUNCTION_WORDS) for w, k in zip(lower, known)]
    is_name = [new or w in _ALWAYS or w in names for w, new in zip(lower, is_new)]
    begins = [match.start() for match in matches]
    for start, end, is_person in recognised:
        inside = range(bisect.bisect_left(begins, start), bisect.bisect_left(begins, end))
        is_whole = is_person and len(inside) in (2, 3)
        for place, i in enumerate(inside):
            may_be = (is_whole and place < 2) or not known[i] or dictionary.has_only_noun(lower[i])
            is_name[i] |= may_be and dictionary.is_basic(lower[i])
    for i, word in enumerate(lower):  # "3 MAY 1999"
        around = sentence[max(0, begins[i] - 3) : begins[i] + 8]
        is_name[i] |= word == 'may' and bool(_DAY_OR_YEAR.search(around))
    may_join = [dictionary.has_only_noun(word) or word in _BESIDE for word in lower]
    for i in range(1, len(lower)):  # "IN LONDON"
        after = sentence[matches[i].end() : matches[i].end() + 1]
        ends = after in ('', '.', ',', ';', '!', '?', '\n') and (may_join[i] or not known[i])
        is_place = lower[i] not in _NO_PLACES and not _ABSTRACT.search(lower[i])
        is_name[i] |= is_beside[i] and lower[i - 1] in _PLACE_BEFORE and ends and is_place
    for i in range(len(lower) - 1, 0, -1):  # "PORT ELLERY", "PAUL VENN", but "THE CAPTAIN ELLERY"
        after_article = i > 1 and is_beside[i - 1] and lower[i - 2] in _ARTICLES
        is_name[i - 1] |= is_name[i] and is_beside[i] and may_join[i - 1] and not after_article
    for i in range(1, len(lower)):
        may_go_on = lower[i - 1] not in _ALWAYS and lower[i] not in _FUNCTION_WORDS
        is_name[i] |= is_name[i - 1] and is_beside[i] and may_join[i] and may_go_on
    pieces, at = [], 0
    for number, match in enumerate(matches):
        word = match[0].lower()
        first = number == 0 or is_name[number]
        in_brackets = sentence[max(match.start() - 1, 0) : match.end() + 1] == f'({match[0]})'
        is_short = in_brackets and len(word) < 6
        word = word[0].upper() + word[1:] if first else word
        pieces += [sentence[at : match.start()], match[0] if is_short else word]
        at = match.end()
    return ''.join([*pieces, sentence[at:]])
