"""Knowledge bases as files of triples: what the KB-supervised baselines may know, and OPQL may not.

A file has a line `head|relation|tail` for each fact; head and tail are names (or keys) of entities, and the relation's name
is text once its underscores are spaces. Both readers here go on from a reader of text, whose entities and questions they keep.
"""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from opql_jax.corpus.documents import CorpusError, Document, Mention
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.questions import Question
from opql_jax.datasets.readers import Reader

# The questions that the triples are turned into.
SPLIT = '1-hop/kb'

_log = logging.getLogger(__name__)


class Triple(NamedTuple):
    """A fact; head and tail are entity ids, the relation is its name as text."""

    head: int
    relation: str
    tail: int


def read_triples(path: str | os.PathLike, vocab: EntityVocab) -> list[Triple]:
    """The triples of a file, each once, in its order.

    Those of an entity that the vocabulary lacks, and of an entity with itself, are left out; their number is logged.

    Raises:
        CorpusError: the file cannot be read, holds no such triple, or a line is none; names the line.
    """
    found, left_out = {}, 0
    try:
        with open(path, encoding='utf-8', newline='\n') as source:
            lines = [line.rstrip('\r\n') for line in source]
    except (OSError, UnicodeDecodeError) as error:
        raise CorpusError(f'{path}: cannot be read ({error})') from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        fields = [field.strip() for field in line.split('|')]
        if len(fields) != 3 or not all(fields):
            raise CorpusError(f'{path}:{number}: expected head|relation|tail, found {line!r}')
        head, tail = vocab.get(fields[0]), vocab.get(fields[2])
        if head is None or tail is None or head == tail:
            left_out += 1
        else:
            found.setdefault(Triple(head, fields[1].replace('_', ' '), tail))
    if not found:
        raise CorpusError(f'{path}: no triple of two entities of the vocabulary')
    if left_out:
        _log.info('%s: %d triples of unknown entities, or of an entity with itself, are left out', path, left_out)
    return list(found)


def questions_of(triples: Sequence[Triple], vocab: EntityVocab) -> list[Question]:
    """'{head}, directed by' and '{tail}, inverse of directed by', with all their answers; the relation is their `type`."""
    answers: dict[tuple[int, str], dict[int, None]] = {}
    for head, relation, tail in triples:
        answers.setdefault((head, relation), {})[tail] = None
        answers.setdefault((tail, f'inverse of {relation}'), {})[head] = None
    return [
        Question(
            id=f'{SPLIT}/{number}',
            text=f'{vocab.names[topic]}, {asked}',
            topics=((0, len(vocab.names[topic])),),
            entities=(topic,),
            answers=tuple(of),
            type=asked,
        )
        for number, ((topic, asked), of) in enumerate(answers.items(), 1)
    ]


def documents_of(triples: Sequence[Triple], vocab: EntityVocab) -> list[Document]:
    """'{head} directed by {tail}', one document a triple, about its head and with both entities linked."""
    documents = []
    for number, (head, relation, tail) in enumerate(triples, 1):
        start, key = vocab.names[head], vocab.keys[head]
        text = f'{start} {relation} {vocab.names[tail]}'
        mentions = Mention(0, len(start), key), Mention(len(text) - len(vocab.names[tail]), len(text), vocab.keys[tail])
        documents.append(Document(str(number), start, text, mentions, key))
    return documents


@dataclasses.dataclass(frozen=True)
class WithTriples:
    """A text with the questions that a KB answers beside its own: distant supervision for a KB-supervised baseline.

    The questions are named `SPLIT`. All triples are asked about; what `AlignSource` makes of them is distantly aligned, so
    that facts which no passage can state teach nothing.

    Attributes:
        text: a reader.
        path: the triples.
    """

    paths: ClassVar = ('path',)
    text: Reader
    path: str

    def files(self):
        return {**self.text.files(), 'triples': self.path}

    def read(self, rejected_path):
        return self.text.read(rejected_path)

    def questions(self, vocab):
        return {**self.text.questions(vocab), SPLIT: questions_of(read_triples(self.path, vocab), vocab)}


@dataclasses.dataclass(frozen=True)
class Triples:
    """A KB in place of a text: every triple is a passage, so that a memory made of it holds the KB's facts (FaE's memory).

    Attributes:
        text: a reader; entities and questions are those of its text, its documents are not used but for `about_text`.
        path: the triples.
        about_text: only triples whose head some document of the text is about, for questions that were restricted like that.
    """

    paths: ClassVar = ('path',)
    text: Reader
    path: str
    about_text: bool = False

    def files(self):
        return {**self.text.files(), 'triples': self.path}

    def read(self, rejected_path):
        vocab, documents = self.text.read(rejected_path)
        triples = read_triples(self.path, vocab)
        if self.about_text:
            about = {vocab.id_of_key[document.title_entity] for document in documents if document.title_entity is not None}
            triples = [triple for triple in triples if triple.head in about]
        return vocab, documents_of(triples, vocab)

    def questions(self, vocab):
        return self.text.questions(vocab)
