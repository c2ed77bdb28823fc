"""Knowledge bases as files of triples, for the KB-supervised baselines; OPQL never reads them.

A line is `head|relation|tail`, names (or keys) of entities around a relation, with underscores for
spaces. Both readers build on a reader of text, whose entities and questions they keep.
"""

import dataclasses
import itertools
import logging
import os
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.corpus.documents import Document, Mention
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.json_lines import read_lines
from opql_jax.corpus.questions import Question
from opql_jax.datasets.readers import Reader

# The split of the questions made from triples.
SPLIT = '1-hop/kb'

_log = logging.getLogger(__name__)


class Triple(NamedTuple):
    """A fact; head and tail are entity ids, the relation is its name as text."""

    head: int
    relation: str
    tail: int


def read_triples(path: str | os.PathLike, vocab: EntityVocab) -> list[Triple]:
    """The triples of a file, each once, in its order; InputError names the line that is none.

    Those of unknown entities, or of an entity with itself, are skipped and counted in the log.
    """
    triples: dict[Triple, None] = {}
    skipped = 0
    for number, line in read_lines(path):
        if not line.strip():
            continue
        fields = [field.strip() for field in line.split('|')]
        if len(fields) != 3 or not all(fields):
            raise InputError(f'{path}:{number}: expected head|relation|tail, found {line!r}')
        head, tail = vocab.get(fields[0]), vocab.get(fields[2])
        if head is None or tail is None or head == tail:
            skipped += 1
        else:
            triples.setdefault(Triple(head, fields[1].replace('_', ' '), tail))
    if not triples:
        raise InputError(f'{path}: no triple of two entities of the vocabulary')
    if skipped:
        kinds = 'of unknown entities, or of an entity with itself,'
        _log.info(f'{path}: {skipped} triples {kinds} are skipped')
    return list(triples)


def questions_of(triples: Sequence[Triple], vocab: EntityVocab) -> list[Question]:
    """Questions '{head}, directed by' and '{tail}, inverse of directed by', with all answers."""
    answers: dict[tuple[int, str], dict[int, None]] = {}
    for head, relation, tail in triples:
        answers.setdefault((head, relation), {})[tail] = None
        answers.setdefault((tail, f'inverse of {relation}'), {})[head] = None
    found = []
    for number, ((topic, relation), tails) in enumerate(answers.items(), 1):
        name = vocab.names[topic]
        asked = f'{SPLIT}/{number}', f'{name}, {relation}', ((0, len(name)),), (topic,)
        found.append(Question(*asked, answers=tuple(tails), type=relation))
    return found


def documents_of(triples: Sequence[Triple], vocab: EntityVocab) -> list[Document]:
    """Documents '{head} directed by {tail}', one a triple, about its head, both ends linked."""
    documents = []
    for number, (head, relation, tail) in enumerate(triples, 1):
        start, end, key = vocab.names[head], vocab.names[tail], vocab.keys[head]
        text = f'{start} {relation} {end}'
        of_tail = Mention(len(text) - len(end), len(text), vocab.keys[tail])
        mentions = Mention(0, len(start), key), of_tail
        documents.append(Document(f'triple-{number}', start, text, mentions, key))
    return documents


@dataclasses.dataclass(frozen=True)
class _TextAndTriples(Reader):
    """The entities, documents and questions of a text, beside a file of triples.

    Attributes:
        text, path: a reader; the triples.
    """

    paths: ClassVar = ('path',)
    text: Reader
    path: str

    def files(self):
        return {**self.text.files(), 'triples': self.path}

    def read(self, rejected_path):
        return self.text.read(rejected_path)

    def questions(self, vocab, rejected_path):
        return self.text.questions(vocab, rejected_path)


class WithTriples(_TextAndTriples):
    """A text with the split `SPLIT` of questions that a KB answers (distant supervision)."""

    def questions(self, vocab, rejected_path):
        added = questions_of(read_triples(self.path, vocab), vocab)
        return {**super().questions(vocab, rejected_path), SPLIT: added}


@dataclasses.dataclass(frozen=True)
class Triples(_TextAndTriples):
    """A KB in place of a text or beside it.

    Every triple is a passage, so that a memory made of it holds the KB's facts (FaE's memory).

    Attributes:
        text: a reader, for its entities and questions; its documents matter only to `about_text`
            and `beside_text`.
        about_text: only triples whose head is the title entity of a document, for questions that
            are restricted alike.
        beside_text: the documents of the text come first, as one memory of both is made of them.
        share: of the triples, in (0, 1]: each is drawn with this probability, the same ones each
            time from the same triples.
    """

    about_text: bool = False
    beside_text: bool = False
    share: float = 1.0

    def read(self, rejected_path):
        if not 0 < self.share <= 1:
            raise InputError(f'share: {self.share} of the triples is not in (0, 1]')
        vocab, documents = super().read(rejected_path)
        triples = read_triples(self.path, vocab)
        if self.about_text:
            about = {document.title_entity for document in documents}
            triples = [triple for triple in triples if vocab.keys[triple.head] in about]
        drawn = np.random.default_rng(0).random(len(triples)) < self.share
        if not drawn.any():
            raise InputError(f'share: {self.share} of {len(triples)} triples draws none')
        facts = documents_of(list(itertools.compress(triples, drawn)), vocab)
        return vocab, [*documents, *facts] if self.beside_text else facts
