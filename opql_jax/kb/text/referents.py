"""Where a passage means what a question is about, by name, noun or pronoun.

'The Orr Bridge crosses the Tamsin. It was not designed by Orr' says the second of the bridge.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.name_resolution import fold, without_brackets
from opql_jax.corpus.spans import VALUES
from opql_jax.corpus.splitting import text_start
from opql_jax.kb.text.values import same_name
from opql_jax.kb.text.wanted import wanted_by


class Referent(NamedTuple):
    """What a question is about: an entity, -1 if none, its name or noun, and which that is."""

    entity: int
    name: str
    is_noun: bool = False


class Sentence(NamedTuple):
    """The characters `[start, end)` of a sentence in a passage."""

    start: int
    end: int


Span = tuple[int, int]
# 'It' where a sentence may begin, after 'In 1911,', and anywhere; 'the club'.
_OPENING = re.compile(r'(?:(?:In|On|By|At|Since|During|After|Before)\b[^,.;]{0,40}, )?')
_GOES_ON = re.compile(r'\b(?:it|its|they|them|their|the (?P<noun>[a-z][\w-]+))\b', re.IGNORECASE)
_HE_OR_SHE = re.compile(r'\b(?:he|she)\b', re.IGNORECASE)
# What may stand before a subject: 'the firm'.
_DESCRIBED = re.compile(r'(?:The (?:[a-z-]+ ){0,2})?')
# What stands before an object, which is not the subject of its sentence.
_OBJECT = re.compile(r'\b(?!(?:and|but|or|that|which|when|because|so|as|if)\b)[a-z]+ $')
_IS_A = re.compile(r'\W{0,2}(?:is|was|are|were) (?:an?|the|one of the) ((?:[\w-]+ ){0,4}[\w-]+)')
_ARTICLE = re.compile(r'\b(?:the|an?)\b', re.IGNORECASE)
# What 'it' does not mean.
_NO_THINGS = frozenset({'person', 'group', 'concept', 'language', 'place'}) | VALUES


def sentences_of(row: Mapping[str, Any]) -> list[Sentence]:
    """The sentences of a passage, after its title."""
    cut = text_start(row)
    starts = [cut, *(start for start in row['sentence_starts'] if start > cut)]
    return [Sentence(*span) for span in zip(starts, [*starts[1:], len(row['text'])])]


def places_of(referent: Referent, row: Mapping[str, Any], vocab: EntityVocab) -> list[Span]:
    """The characters of a passage that mean a referent, by start."""
    full = referent.name
    if referent.entity >= 0:
        full = without_brackets(vocab.names[referent.entity])
    called = sorted({*_named(referent, full, row, vocab), *_written(referent, row)})
    if referent.entity >= 0 and vocab.kinds[referent.entity] == 'person':
        return sorted({*called, *_pronouns_of_person(full, called, row, vocab)})
    kind = vocab.kinds[referent.entity] if referent.entity >= 0 else ''
    return sorted({*called, *_stand_ins(full, kind, called, row, vocab)})


def _named(
    referent: Referent, full: str, row: Mapping[str, Any], vocab: EntityVocab
) -> Iterator[Span]:
    """The mentions of a referent, and those of a name like its own."""
    for mention in () if referent.is_noun else row['mentions']:
        span, entity = (mention['start'], mention['end']), mention['entity']
        if vocab.kinds[entity] == 'person':
            is_alike = same_name(without_brackets(vocab.names[entity]), full)
        else:
            is_alike = fold(row['text'][slice(*span)]) == fold(referent.name)
        if entity == referent.entity or is_alike:
            yield span


def _written(referent: Referent, row: Mapping[str, Any]) -> Iterator[Span]:
    """Where the words of a noun, or of a name that the text does not have as one, stand.

    'The museum' may be the Lace Museum, 'Pell Mill' the mill.
    """
    words = r'\s+(?:(?:the|an?)\s+)?'.join(map(re.escape, referent.name.split()))
    if referent.is_noun:
        name = r'(?-i:[A-Z])[\w&-]*\s+'
        before = rf'\b(?:the|this|our)\s+(?:{name}){{0,4}}|(?:{name}){{1,4}}(?=(?-i:[A-Z]))'
        words = rf'(?:{before})?{words}s?'
    elif referent.entity >= 0:
        return
    for found in re.finditer(rf'(?<![\w-]){words}(?![\w-])', row['text'], re.IGNORECASE):
        yield found.span()


def _pronouns_of_person(
    full: str, called: Sequence[Span], row: Mapping[str, Any], vocab: EntityVocab
) -> Iterator[Span]:
    """'He' or 'she' in a text about a person, if nobody else was named in this sentence or before.

    What is clearer is a mention.
    """
    if not same_name(row['title'] or '', full):
        return
    sentences = sentences_of(row)
    opens = False
    for before, (start, end) in zip((sentences[0], *sentences), sentences):
        opening = _HE_OR_SHE.match(row['text'], start)
        if opens and opening:
            yield opening.span()
        opens = bool(opens and opening) or any(first == start for first, _ in called)
        others = _others(row, vocab, called, ('person',), before.start, end)
        last = min(others, default=end)
        yield from (found.span() for found in _HE_OR_SHE.finditer(row['text'], start, last))


def _stand_ins(
    full: str, kind: str, called: Sequence[Span], row: Mapping[str, Any], vocab: EntityVocab
) -> Iterator[Span]:
    """'It', 'its' or 'the club' where a thing was named before, and nothing else after that."""
    text, is_titled = row['text'], same_name(row['title'] or '', full)
    is_about = is_titled
    things = sorted(set(vocab.kinds) - _NO_THINGS)
    # The nouns of its name, and of what the text says that it is.
    said = [found[1] for _, end in called if (found := _IS_A.match(text, end))]
    nouns = ' '.join([*full.split()[1:], *said]).lower().split()
    for start, end in sentences_of(row):
        here = [first for first, _ in called if start <= first < end]
        others = _others(row, vocab, called, things, start, end)
        opening = _OPENING.match(text, start, end)
        opens = opening.end() if opening else start
        for found in _GOES_ON.finditer(text, start, end):
            place, noun = found.start(), found['noun']
            is_noun = noun and (
                any(one.endswith(noun.lower()) for one in nouns)
                or (is_titled and bool(kind) and wanted_by(f'which {noun}').kinds[:1] == (kind,))
            )
            if (noun and not is_noun) or _overlaps(found.span(), called):
                continue
            is_named = any(first < place for first in here) or (noun and is_titled)
            is_free = place == opens or not _ARTICLE.search(text, start + len('The '), place)
            is_object = found[0] in ('it', 'them') and _OBJECT.search(text, start, place)
            is_subject = here and _DESCRIBED.fullmatch(text, opens, min(here))
            if any(other < place for other in others) or (is_object and is_subject):
                continue
            if is_named or (is_about and is_free and not here):
                yield found.span()
                here.append(place)
        is_about = bool(here) and all(other > min(here) for other in others)


def _others(
    row: Mapping[str, Any],
    vocab: EntityVocab,
    called: Sequence[Span],
    kinds: Collection[str],
    start: int,
    end: int,
) -> list[int]:
    """Where characters `[start, end)` name others of some kinds than what is called so."""
    return [
        one['start']
        for one in row['mentions']
        if start <= one['start'] < end
        and vocab.kinds[one['entity']] in kinds
        and not _overlaps((one['start'], one['end']), called)
    ]


def _overlaps(span: Span, spans: Sequence[Span]) -> bool:
    return any(first < span[1] and span[0] < last for first, last in spans)
