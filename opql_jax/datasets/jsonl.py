"""The reader of your own text as JSON Lines."""

import dataclasses
import pathlib
from typing import Any, ClassVar

from opql_jax.core.errors import InputError
from opql_jax.corpus.documents import MAX_MENTION, read_jsonl
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.json_lines import check_object, check_string, short_repr
from opql_jax.corpus.linking import link_titles
from opql_jax.corpus.questions import Question, read_questions
from opql_jax.corpus.rejected import convert_lines


@dataclasses.dataclass(frozen=True)
class JsonLines:
    """Any text as JSON Lines, with or without entity links.

    Attributes:
        path: the corpus, `{id, title, text, title_entity?, mentions?}` a line.
        entities: JSON Lines `{id, name?, aliases?}`. Without it the entities are those that the
            documents link, or, in a corpus without any link, the titles of the documents.
        question_folder: holds `<split>.jsonl` files of questions (see `opql_jax.corpus.questions`);
            None for no questions.
        max_reject_fraction: share of bad lines of a file, of any of the three kinds, above which it
            is refused.
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
        vocab = None
        if self.entities:
            vocab = read_entities(self.entities, rejected_path, self.max_reject_fraction)
        documents = read_jsonl(
            self.path,
            rejected_path=rejected_path,
            max_reject_fraction=self.max_reject_fraction,
            known_entities=None if vocab is None else set(vocab.keys),
        )
        vocab = EntityVocab.from_documents(documents) if vocab is None else vocab
        return vocab, link_titles(documents, vocab)

    def questions(self, vocab, rejected_path):
        splits: dict[str, list[Question]] = {}
        for path in self._question_files():
            for question in read_questions(path, vocab, rejected_path, self.max_reject_fraction):
                splits.setdefault(f'{question.hops}-hop/{path.stem}', []).append(question)
        return splits

    def _question_files(self) -> list[pathlib.Path]:
        if not self.question_folder:
            return []
        if not (files := sorted(pathlib.Path(self.question_folder).glob('*.jsonl'))):
            raise InputError(f'{self.question_folder}: no question file such as train.jsonl')
        return files


def read_entities(path, rejected_path=None, max_reject_fraction: float = 0.0) -> EntityVocab:
    """Reads JSON Lines `{id, name?, aliases?}`, see `convert_lines`; a name defaults to the id."""
    line_of_id: dict[str, int] = {}

    def convert(number: int, record) -> tuple[str, str, list[str]]:
        check_object(record)
        key: Any = str(record['id']) if type(record.get('id')) is int else record.get('id')
        name, aliases = record.get('name') or key, record.get('aliases') or []
        if not isinstance(aliases, list):
            raise InputError(f'aliases: expected a list of strings, found {short_repr(aliases)}')
        for field, value in [
            ('id', key),
            ('name', name),
            *((f'aliases[{i}]', alias) for i, alias in enumerate(aliases)),
        ]:
            check_string(field, value)
            if len(value) > MAX_MENTION:
                raise InputError(f'{field}: more than {MAX_MENTION} code points, which no name has')
        if first := line_of_id.get(key):
            raise InputError(f'id: {short_repr(key)} is already that of line {first}')
        line_of_id[key] = number
        return key, name, aliases

    rows = convert_lines(path, convert, rejected_path, max_reject_fraction)
    return EntityVocab(*zip(*rows)) if rows else EntityVocab((), (), ())
