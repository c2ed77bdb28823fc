"""Multi-hop slot filling (MSF) over Wikipedia, as DrKIT's scripts write it (Dhingra et al., 2020).

    paragraphs.json  {id, wikidata_id, context, mentions: [{wikidata_id, start, text}]}
    queries.json     {id, subject: {wikidata_id, name?, aliases}, object: {wikidata_id}, relation:
                     {wikidata_id, text: [name]} or a list}

`wikidata_id` is a QID, a number for a date, and null where a mention is not linked.
"""

import dataclasses
import os
from pathlib import Path
from typing import ClassVar

from opql_jax.core.errors import InputError
from opql_jax.corpus.documents import Document, Mention, validate
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.json_lines import (
    map_records,
    object_field,
    object_list_field,
    read_json_lines,
    string_field,
)
from opql_jax.corpus.questions import RELATION_SEPARATOR, Question, look_up_answers
from opql_jax.datasets.question_records import question_record

# The folders of the data sets.
FOLDERS = {1: 'onehop', 2: 'twohop', 3: 'threehop'}
# The 1-hop files have the number of their part of Wikipedia in their name.
_NUMBERED = {'train': '-00000-of-00010', 'test': '-00001-of-00010'}


@dataclasses.dataclass(frozen=True)
class Msf:
    """The reader of MSF: all paragraphs are one corpus, queries the splits '1-hop/train' and so on.

    Attributes:
        folder: holds {onehop,twohop,threehop}/{train,test}/{paragraphs,queries}.json.
        part: 'train' or 'test'.
        hops: the data sets that are read.
    """

    paths: ClassVar = ('folder',)
    folder: str
    part: str = 'train'
    hops: tuple[int, ...] = tuple(FOLDERS)

    def __post_init__(self):
        if self.part not in _NUMBERED or not self.hops or not set(self.hops) <= FOLDERS.keys():
            raise InputError(
                f"part={self.part!r} is not 'train' or 'test', or hops={self.hops!r} not in 1, 2, 3"
            )

    def files(self):
        paths = [self._path(hops, name) for hops in self.hops for name in ('paragraphs', 'queries')]
        return {str(path.relative_to(self.folder)): path for path in paths}

    def read(self, rejected_path):
        # Data sets share paragraphs, under other ids.
        read: dict[tuple[str | None, str], Document] = {}
        for hops in self.hops:
            for document in documents(self._path(hops, 'paragraphs')):
                name = f'{FOLDERS[hops]}/{self.part}/{document.id}'
                named = dataclasses.replace(document, id=name)
                read.setdefault((document.title_entity, document.text), named)
        return EntityVocab.from_documents(read.values()), list(read.values())

    def questions(self, vocab, rejected_path):
        splits: dict[str, list[Question]] = {}
        for hops in self.hops:
            for record in queries(self._path(hops, 'queries')):
                (topic,), entity = record['topics'], vocab.id_of_key.get(record['entities'][0], -1)
                answers, unknown_answers = look_up_answers(record['answers'], vocab)
                asked = record['id'], record['question'], (tuple(topic),), (entity,)
                how = record['hops'], record['type']
                question = Question(*asked, answers, unknown_answers, *how)
                splits.setdefault(f'{question.hops}-hop/{self.part}', []).append(question)
        return splits

    def _path(self, hops: int, name: str) -> Path:
        folder = Path(self.folder, FOLDERS[hops], self.part)
        numbered = folder / f'{name}{_NUMBERED[self.part]}.json'
        return numbered if numbered.exists() else folder / f'{name}.json'


def documents(path: str | os.PathLike) -> list[Document]:
    """The paragraphs, titled by their first mention; of overlapping mentions the first stays."""
    read = [document for _, document in map_records(path, read_json_lines(path), _document)]
    if not read:
        raise InputError(f'{path}: no paragraph in the file')
    return read


def queries(path: str | os.PathLike) -> list[dict]:
    """The queries as records of `corpus.questions`, but for those without an object.

    'Douglas Adams, educated at, country' is of the type 'P69 > P17'; answers are ids.
    """
    one = lambda query: None if query.get('object') is None else _query(query)
    records = [record for _, record in map_records(path, read_json_lines(path), one) if record]
    if not records:
        raise InputError(f'{path}: no query with an object in the file')
    return records


def _query(query: dict) -> dict:
    subject, target = (object_field(query, side) for side in ('subject', 'object'))
    relation = query.get('relation')
    relation = relation if isinstance(relation, list) else [relation]
    chain, aliases = object_list_field({'relation': relation}, 'relation'), subject.get('aliases')
    alias = next(iter(aliases), '') if isinstance(aliases, list | dict) else ''
    name = string_field(subject, 'name', '', 'subject.') or alias
    topic, answer = _id(subject, 'subject.'), _id(target, 'object.')
    if not (topic and answer and chain):
        raise InputError('subject and object need a wikidata_id, and there must be a relation')
    name = name or topic
    text = ', '.join([name, *(_relation_name(relation, at) for at, relation in chain)])
    relations = [string_field(relation, 'wikidata_id', prefix=at) for at, relation in chain]
    about, kind = [(0, len(name), topic)], RELATION_SEPARATOR.join(relations)
    return question_record(string_field(query, 'id'), text, about, [answer], len(chain), kind)


def _relation_name(relation: dict, at: str) -> str:
    names = relation.get('text')
    first = names[0] if isinstance(names, list) and names else names
    return string_field({'text': first}, 'text', prefix=at)


def _document(record: dict) -> Document:
    about, mentions, title = _id(record, ''), [], ''
    for at, mention in object_list_field(record, 'mentions'):
        text = string_field(mention, 'text', prefix=at)
        start = mention.get('start')
        entity = _id(mention, at)
        if type(start) is not int:
            raise InputError(f'{at}start: expected a number, found {start!r}')
        if entity:
            mentions.append(Mention(start, start + len(text), entity))
            title = title or (text if entity == about else '')
    disjoint = []
    for mention in sorted(mentions, key=lambda m: (m.start, -m.end)):
        if not disjoint or mention.start >= disjoint[-1].end:
            disjoint.append(mention)
    if type(record.get('id')) not in (int, str):
        raise InputError(f'id: expected a number or a string, found {record.get("id")!r}')
    text, title = string_field(record, 'context'), title or about
    document = Document(str(record['id']), title, text, tuple(disjoint), about or None)
    validate(document)
    return document


def _id(record: dict, at: str) -> str:
    """A QID or a date as a string, '' for null."""
    value = record.get('wikidata_id')
    if value is None:
        return ''
    return str(value) if type(value) is int else string_field(record, 'wikidata_id', prefix=at)
