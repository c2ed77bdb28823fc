"""What of documents is forgotten: named sentences, and those that mention entities."""

import collections
import itertools
from collections.abc import Sequence

from opql_jax.core.errors import InputError
from opql_jax.core.terminal import hanging
from opql_jax.corpus.documents import Document
from opql_jax.corpus.entities import UNKNOWN_KIND, EntityVocab
from opql_jax.corpus.json_lines import check_string, short_repr
from opql_jax.corpus.question_linking import QuestionLinker
from opql_jax.corpus.sentences import sentence_starts
from opql_jax.corpus.spans import overlap
from opql_jax.corpus.splitting import title_before

# Characters `[start, end)` of a document's text.
_Span = tuple[int, int]


def _sentences(document: Document) -> list[_Span]:
    """The sentences of a linked document, with the space after them."""
    starts = sentence_starts(document.text, document.mentions or ())
    return list(itertools.pairwise([0, *starts[1:], len(document.text)]))


def without(document: Document, keys: set[str], named: set[_Span]) -> str:
    """A linked document's text without some sentences and those on entities; '' if it is on one."""
    if document.title_entity in keys:
        return ''
    gone = [mention for mention in document.mentions or () if mention.entity in keys]
    if not gone and not named:
        return document.text
    kept = (
        document.text[slice(*sentence)]
        for sentence in _sentences(document)
        if sentence not in named and not overlap(gone, *sentence)
    )
    return ''.join(kept).strip()


def find_entities(
    vocab: EntityVocab, documents: Sequence[Document], names: Sequence[str]
) -> set[str]:
    """The keys of entities by their keys or names.

    A surname that the text never uses alone means nobody here: it would be a guess. InputError: an
    unknown name, with the nearest; one that several have, with a sentence about each.
    """
    if not names:
        return set()
    keys, linker = set(), QuestionLinker(vocab.with_kinds([UNKNOWN_KIND] * len(vocab)))
    for name in names:
        check_string('entity', name)
        means = linker.named(name)
        if len(means) > 1:
            lines = [f'{short_repr(name)} may be {len(means)} entities; write one of']
            for entity in means:
                known = f'{short_repr(linker.unique_name(entity))} ({vocab.kinds[entity]})'
                lines.append(f'  {known}: {hanging(_about(vocab.keys[entity], documents), 4)}')
            raise InputError('\n'.join(lines))
        keys.add(vocab.keys[means[0]])
    return keys


def _about(key: str, documents: Sequence[Document]) -> str:
    """The first sentence of a document about an entity, or else one that mentions it."""
    places = [(document, 0) for document in documents if document.title_entity == key]
    mentions = (
        (document, mention) for document in documents for mention in document.mentions or ()
    )
    places += [(document, mention.start) for document, mention in mentions if mention.entity == key]
    if not places:
        return 'no sentence mentions it'
    document, place = places[0]
    start, end = next(sentence for sentence in _sentences(document) if place < sentence[1])
    return document.text[start:end].strip()


def find_sentences(
    documents: Sequence[Document], asked: Sequence[str], only_whole: bool
) -> dict[str, set[_Span]]:
    """Where sentences stand in linked documents, by the documents' ids; see `Change.remove`."""
    found: dict[str, set[_Span]] = collections.defaultdict(set)
    for text in asked:
        words = ' '.join(text.split())
        if not words:
            raise InputError('sentence: there is no word in it')
        whole, parts = [], []
        for document in documents:
            # A passage that does not mention what its document is about begins with its title.
            plain = words.removeprefix(title_before(document.title))
            if plain not in ' '.join(document.text.split()):
                continue
            for start, end in _sentences(document):
                said = ' '.join(document.text[start:end].split())
                if plain == said or (plain in said and not only_whole):
                    (whole if plain == said else parts).append((document.id, (start, end), said))
        if not whole and len({said for _, _, said in parts}) > 1:
            several = f'{len(parts)} sentences have the words {short_repr(text)}'
            such_as = short_repr(parts[0][2])
            raise InputError(f'{several}: give the whole of one, such as {such_as}')
        if not whole and not parts:
            near = _nearest_sentences(documents, words)
            raise InputError(f'unknown sentence {short_repr(text)}{near}')
        for document_id, span, _ in whole or parts:
            found[document_id].add(span)
    return found


def _nearest_sentences(documents: Sequence[Document], words: str) -> str:
    """The end of a message about an unknown sentence: the nearest, if they share half its words."""
    asked = set(words.casefold().split())
    best: list[tuple[float, str]] = []
    for document in documents:
        for start, end in _sentences(document):
            said = ' '.join(document.text[start:end].split())
            has = set(said.casefold().split())
            best = sorted([*best, (len(asked & has) / len(asked | has), said)], reverse=True)[:2]
    near = [short_repr(said) for share, said in best if share >= 0.5]
    return f'; did you mean {" or ".join(near)}?' if near else ''
