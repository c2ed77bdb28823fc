"""Entity linking: documents that carry no links get mentions by the names of the entities."""

import collections
import dataclasses
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import ahocorasick_rs
import pyarrow as pa

from opql_jax.core.errors import InputError
from opql_jax.corpus import tables
from opql_jax.corpus.documents import Document
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.extension import BaseCorpus

BATCH_DOCUMENTS = 1024

# Documents with their mentions by entity id.
LINKED = pa.schema(
    [
        ('id', pa.string()), ('title', pa.string()), ('title_entity', pa.int32()),
        ('text', pa.string()), ('mentions', pa.list_(tables.MENTION)),
    ]
)  # fmt: skip

# An entity in fewer texts is not dropped for its share: of three short texts two may well be about
# one person.
DROP_FROM = 100
# Characters searched at a time, which bounds the matches of names that begin alike.
_WINDOW = 1 << 14

Span = tuple[int, int, int]  # start, end (code points, half-open), entity id


class MentionLinker:
    """Finds the names and aliases of a vocabulary in text.

    A spelling matches exactly, case included. Both ends must be word ends: a letter or digit on
    either side rejects the match, and so does an apostrophe before it that follows a letter (the s
    of "film's"). Of the matches that remain, the leftmost wins and of those that start together the
    longest, so mentions do not overlap; only `nested` lets one lie inside another.
    """

    def __init__(self, vocab: EntityVocab, *, drop_above_rate: float = 1.0, nested: bool = False):
        """Indexes the spellings.

        Args:
            vocab: where the spellings come from.
            drop_above_rate: in `link_all`, an entity in more than this share of the texts, and in
                at least `DROP_FROM`, loses its mentions: it says nothing about any of them (a tag
                such as 'film'); 1 keeps all.
            nested: whether a match inside a kept one is a mention too, as 'comedy' in 'romantic
                comedy'. The outer one must begin with a lower-case letter: the words of a name
                ('Black' in 'Jack Black') mostly do not mean what they mean elsewhere.
        """
        if not 0 < drop_above_rate <= 1:
            raise InputError(f'drop_above_rate: {drop_above_rate} is not in (0, 1]')
        self._rate, self._nested = drop_above_rate, nested
        self._entities = list(vocab.spellings.values())
        # All matches, as the automaton knows no word ends: a longest one that breaks a word would
        # hide another.
        self._longest = max(map(len, vocab.spellings), default=0)
        standard = ahocorasick_rs.MatchKind.Standard
        self._automaton = ahocorasick_rs.AhoCorasick(list(vocab.spellings), matchkind=standard)

    def link(self, text: str) -> list[Span]:
        """A text's mentions, `(start, end, entity id)` by start, outer ones first; none dropped."""
        length = len(text)
        whole: list[tuple[int, int, int]] = []
        window = max(_WINDOW, self._longest)
        for first in range(0, length, window):
            found = []
            piece = text[first : first + window + self._longest]
            matches = self._automaton.find_matches_as_indexes(piece, overlapping=True)
            for spelling, start, end in matches:
                if start >= window:
                    continue
                start, end = first + start, first + end
                if end < length and text[end].isalnum():
                    continue
                if start:
                    before = text[start - 1]
                    is_inner = before in "'\u2019" and start > 1 and text[start - 2].isalpha()
                    if before.isalnum() or is_inner:
                        continue
                found.append((start, -end, spelling))
            found.sort()
            if not self._nested:
                found = [m for i, m in enumerate(found) if i == 0 or found[i - 1][0] < m[0]]
            whole += found
        mentions: list[Span] = []
        enclosing: list[Span] = []  # mentions that have not ended yet, the innermost last
        for start, minus_end, spelling in whole:
            while enclosing and enclosing[-1][1] <= start:
                enclosing.pop()
            if enclosing and not (
                self._nested and -minus_end <= enclosing[-1][1] and text[enclosing[-1][0]].islower()
            ):
                continue
            mentions.append((start, -minus_end, self._entities[spelling]))
            enclosing.append(mentions[-1])
        return mentions

    def link_all(
        self,
        texts: Iterable[str],
        title_entities: Sequence[int] | None = None,
        base_counts: tuple[Mapping[int, int], int] = ({}, 0),
    ) -> tuple[list[list[Span]], dict[int, float]]:
        """Each text's mentions (`link`), and the entities that are in too many, with their shares.

        The rate is over all `texts` and those linked before, of which `base_counts` has how many
        mention each entity, and their number. The entity that a text is about (`title_entities`, or
        -1) stays.
        """
        linked = [self.link(text) for text in texts]
        titles = [-1] * len(linked) if title_entities is None else title_entities
        counts = collections.Counter(e for mentions in linked for e in {m[2] for m in mentions})
        before, total = base_counts[0], base_counts[1] + len(linked)
        counts = {e: n + before.get(e, 0) for e, n in sorted(counts.items())}
        dropped = {
            e: n / total for e, n in counts.items() if n >= DROP_FROM and n > self._rate * total
        }
        if dropped:
            linked = [
                [m for m in mentions if m[2] == title or m[2] not in dropped]
                for mentions, title in zip(linked, titles)
            ]
        return linked, dropped


def link_titles(documents: Iterable[Document], vocab: EntityVocab) -> list[Document]:
    """Links the title entity of documents that state none to the one that their title names."""
    linked = []
    for document in documents:
        entity = vocab.get(document.title) if document.title_entity is None else None
        if entity is not None:
            document = dataclasses.replace(document, title_entity=vocab.keys[entity])
        linked.append(document)
    return linked


def link_documents(
    documents: Collection[Document],
    vocab: EntityVocab,
    drop_above_rate: float = 1.0,
    nested: bool = False,
    base: BaseCorpus | None = None,
) -> tuple[Iterator[pa.RecordBatch], dict[int, float]]:
    """Documents with mentions by entity id, as batches of `LINKED`; dropped entities, their shares.

    The keys of links that a document carries become ids, and their spans leave out the space around
    a name. A document whose mentions are None is linked by the names of the vocabulary, see
    `MentionLinker`; `base` is the corpus that this one extends. The documents are gone through
    twice, so they need not be in memory. InputError: an id is used more than once, or an entity is
    not in the vocabulary, which may come only with its batch.
    """
    ids, repeated, title_entities = set(), [], []
    for document in documents:
        if document.id in ids:
            repeated.append(document.id)
        ids.add(document.id)
        if document.mentions is None:
            title_entities.append(_title_id(vocab, document))
    if repeated:
        raise InputError(f'document id {repeated[0]!r} is used more than once')
    linked: list[list[Span]] = []
    dropped: dict[int, float] = {}
    if title_entities:
        linker = MentionLinker(vocab, drop_above_rate=drop_above_rate, nested=nested)
        texts = (document.text for document in documents if document.mentions is None)
        counts = base.mention_counts() if base else ({}, 0)
        linked, dropped = linker.link_all(texts, title_entities, counts)
    found, batches = iter(linked), _batches(documents, BATCH_DOCUMENTS)
    return (_linked_batch(batch, vocab, found) for batch in batches), dropped


def _batches(items: Iterable, size: int) -> Iterator[list]:
    items = iter(items)
    while batch := list(itertools.islice(items, size)):
        yield batch


def _linked_batch(
    documents: Sequence[Document], vocab: EntityVocab, found: Iterator[list[Span]]
) -> pa.RecordBatch:
    """A `LINKED` batch; `found` are the mentions of documents that carry none, in order."""
    mentions = []
    for document in documents:
        if document.mentions is None:
            mentions.append(next(found))
        else:
            spans = []
            for i, mention in sorted(enumerate(document.mentions), key=lambda pair: pair[1].start):
                name = document.text[mention.start : mention.end]
                start = mention.start + len(name) - len(name.lstrip())
                end = mention.start + len(name.rstrip())
                field = f'mentions[{i}].entity'
                spans.append((start, end, _key_id(vocab, document, field, mention.entity)))
            mentions.append(spans)
    rows = ((d.id, d.title, _title_id(vocab, d), d.text) for d in documents)
    arrays = [pa.array(column, field.type) for column, field in zip(zip(*rows), LINKED)]
    return pa.RecordBatch.from_arrays([*arrays, tables.mention_array(mentions)], schema=LINKED)


def _title_id(vocab: EntityVocab, document: Document) -> int:
    key = document.title_entity
    return -1 if key is None else _key_id(vocab, document, 'title_entity', key)


def _key_id(vocab: EntityVocab, document: Document, field: str, key: str) -> int:
    entity = vocab.id_of_key.get(key)
    if entity is None:
        raise InputError(f'document {document.id!r}: {field}: unknown entity id {key!r}')
    return entity
