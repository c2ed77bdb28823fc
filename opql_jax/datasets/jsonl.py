"""The reader of your own text as JSON Lines."""

import dataclasses
import json
import pathlib
from typing import ClassVar

from opql_jax.corpus.documents import CorpusError, read_jsonl
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.json_lines import read_lines
from opql_jax.corpus.linking import link_titles
from opql_jax.corpus.questions import Question, read_questions


@dataclasses.dataclass(frozen=True)
class JsonLines:
    """Any text as JSON Lines, with or without entity links.

    Attributes:
        path: the corpus, `{id, title, text, title_entity?, mentions?}` a line.
        entities: JSON Lines `{id, name?, aliases?}`. Without it the entities are those that the documents link, or, in a
            corpus without any link, the titles of the documents.
        question_folder: holds `<split>.jsonl` files of questions (see `opql_jax.corpus.questions`); None for no questions.
        max_reject_fraction: share of bad records above which the corpus is refused.
    """

    paths: ClassVar = ('path', 'entities', 'question_folder')
    path: str
    entities: str | None = None
    question_folder: str | None = None
    max_reject_fraction: float = 0.01

    def files(self):
        files = {'corpus': self.path} | ({'entities': self.entities} if self.entities else {})
        return files | {f'questions/{path.name}': path for path in self._question_files()}

    def read(self, rejected_path):
        vocab = read_entities(self.entities) if self.entities else None
        documents = read_jsonl(
            self.path,
            rejected_path=rejected_path,
            max_reject_fraction=self.max_reject_fraction,
            known_entities=None if vocab is None else set(vocab.keys),
        )
        vocab = vocab or EntityVocab.from_documents(documents)
        return vocab, link_titles(documents, vocab)

    def questions(self, vocab):
        splits: dict[str, list[Question]] = {}
        for path in self._question_files():
            for question in read_questions(path, vocab):
                splits.setdefault(f'{question.hops}-hop/{path.stem}', []).append(question)
        return splits

    def _question_files(self) -> list[pathlib.Path]:
        if not self.question_folder:
            return []
        if not (files := sorted(pathlib.Path(self.question_folder).glob('*.jsonl'))):
            raise CorpusError(f'{self.question_folder}: no question file such as {self.question_folder}/train.jsonl')
        return files


def read_entities(path) -> EntityVocab:
    """Reads JSON Lines `{id, name?, aliases?}`; the name of an entity without one is its id. Errors name the line."""
    keys, names, aliases, lines_of = [], [], [], {}
    for number, line in read_lines(path):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            key = str(record['id']) if type(record['id']) is int else record['id']
            name, others = record.get('name') or key, record.get('aliases') or []
            if not (isinstance(others, list) and all(isinstance(value, str) and value for value in (key, name, *others))):
                raise TypeError('id and name are strings, aliases a list of strings, none of them empty')
            ''.join((key, name, *others)).encode()
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorpusError(
                f'{path}, line {number}: expected {{id, name?, aliases?}} ({type(error).__name__}: {error})'
            ) from error
        if (first := lines_of.setdefault(key, number)) != number:
            raise CorpusError(f'{path}, line {number}: id {key!r} is already in line {first}')
        keys.append(key)
        names.append(name)
        aliases.append(others)
    return EntityVocab(keys, names, aliases)
