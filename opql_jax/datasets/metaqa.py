"""MetaQA (Zhang et al., 2018): multi-hop questions about films, here over Wikipedia passages.

The folder holds `passages.jsonl` (`{id, title, text}`; the title is a MetaQA entity),
`entities.txt` (a name per line) and `{1,2,3}-hop/<split>.txt`. The knowledge base that MetaQA comes
with is not read: all facts come from the text.
"""

import dataclasses
import itertools
import os
from pathlib import Path
from typing import ClassVar

from opql_jax.core import files
from opql_jax.core.errors import InputError
from opql_jax.corpus import questions as questions_lib
from opql_jax.corpus.documents import Document, read_jsonl
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.json_lines import errors_at, read_lines, short_repr


@dataclasses.dataclass(frozen=True)
class MetaQA:
    """The reader of MetaQA's `folder`; mentions are linked by entity names.

    Attributes:
        folder: holds passages.jsonl, entities.txt and <hops>-hop/<split>.txt.
    """

    paths: ClassVar = ('folder',)
    folder: str

    def files(self):
        paths = [
            Path(self.folder, 'passages.jsonl'),
            Path(self.folder, 'entities.txt'),
            *self._question_files(),
        ]
        return {str(path.relative_to(self.folder)): path for path in paths}

    def read(self, rejected_path):
        vocab = entity_vocab(self.folder)
        return vocab, documents(self.folder, vocab, rejected_path=rejected_path)

    def questions(self, vocab, rejected_path):
        splits = {}
        for path in self._question_files():
            hops = path.parent.name.removesuffix('-hop')
            if not hops.isdigit() or int(hops) < 1:
                raise InputError(f"{path.parent}: the folder must be named '<number>-hop'")
            splits[f'{hops}-hop/{path.stem}'] = read_questions(path, vocab, int(hops))
        if not splits:
            raise InputError(f'{self.folder}: no question file such as 1-hop/train.txt')
        return splits

    def _question_files(self) -> list[Path]:
        return sorted(Path(self.folder).glob('*-hop/*.txt'))


def entity_vocab(folder: str | os.PathLike) -> EntityVocab:
    """The entities of `entities.txt`; its lower-case tags ('drama') are aliases of their names."""
    path = Path(folder) / 'entities.txt'
    vocab = EntityVocab.from_names(name for _, name in read_lines(path) if name.strip())
    if not len(vocab):
        raise InputError(f'{path}: no entity name in the file')
    return vocab


def documents(
    folder: str | os.PathLike, vocab: EntityVocab, *, rejected_path: str | os.PathLike
) -> list[Document]:
    """The passages, each about the entity of its title, still without mentions."""
    passages = Path(folder) / 'passages.jsonl'
    documents = []
    for document in read_jsonl(passages, rejected_path=rejected_path):
        with errors_at(f'{passages}: document {document.id!r}: title'):
            entity = vocab.keys[vocab.id(document.title)]
        documents.append(Document(document.id, document.title, document.text, title_entity=entity))
    return documents


def parse_question(line: str, vocab: EntityVocab, hops: int, id: str) -> questions_lib.Question:
    """A question of `question with [topic]<TAB>answer|answer<TAB>type<TAB>...`, or InputError.

    Answers and type are optional: 'director_to_movie_to_language' becomes the relations
    'director_to_movie > movie_to_language'.
    """
    columns = line.split('\t')
    if len(columns) > 4:
        raise InputError(f'expected question, answers and type, found {len(columns)} columns')
    if '[' in columns[0] and ']' not in columns[0] and ']' in line:
        raise InputError(f'the topic has a tab, which ends the question: {short_repr(line)}')
    text, topic = questions_lib.parse_bracketed(columns[0])
    entity = vocab.get(text[slice(*topic)])
    names = (name.strip() for name in columns[1].split('|')) if len(columns) > 1 else ()
    answers, unknown_answers = questions_lib.look_up_answers(filter(None, names), vocab)
    label = columns[2].strip() if len(columns) > 2 else ''
    steps = map('_to_'.join, itertools.pairwise(label.split('_to_')))
    asked = id, text, (topic,), (-1 if entity is None else entity,)
    kind = questions_lib.RELATION_SEPARATOR.join(steps) or label
    return questions_lib.Question(*asked, answers, unknown_answers, hops, kind)


def read_questions(
    path: str | os.PathLike, vocab: EntityVocab, hops: int
) -> list[questions_lib.Question]:
    """Reads a question a line (`parse_question`), ids `{hops}-hop/{stem}/{line}`; or InputError."""
    path, questions = files.path(path), []
    for number, line in read_lines(path):
        if line.strip():
            id = f'{hops}-hop/{path.stem}/{number}'
            with errors_at(f'{path}:{number}'):
                questions.append(parse_question(line, vocab, hops, id))
    if not questions:
        raise InputError(f'{path}: no question in the file')
    return questions


def read_records(path: str | os.PathLike, vocab: EntityVocab, hops: int) -> list[dict]:
    """Reads a file as records naming topics the vocabulary lacks; errors: `read_questions`."""
    records = []
    for question in read_questions(path, vocab, hops):
        record = questions_lib.to_record(question, vocab)
        if question.topic_entity < 0:
            record['entities'] = [question.text[slice(*question.topic)]]
        records.append(record)
    return records
