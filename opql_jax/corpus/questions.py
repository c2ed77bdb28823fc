"""Multi-hop questions about entities, in the format of MetaQA, and their table."""

from __future__ import annotations

import dataclasses
import io
import os
from collections.abc import Collection, Sequence

import pyarrow as pa

from opql_jax.core import files
from opql_jax.corpus import tables
from opql_jax.corpus.documents import CorpusError
from opql_jax.corpus.entities import EntityVocab

RELATION_SEPARATOR = ' > '


@dataclasses.dataclass(frozen=True)
class Question:
    """A question with its topic and, if known, its answers.

    Attributes:
        text: the question without the brackets around its topic.
        topic: `(start, end)` of the topic in `text`, code points, half-open.
        topic_entity: entity id, or -1 when the vocabulary does not have it.
        answers: entity ids, in the order given, each once.
        unknown_answers: the answers that the vocabulary does not have.
        hops: the number of hops, at least 1.
        type: a free label, may be empty; 'P27 > P36' names the relations that the question needs.
        id: unique in its file.
        via: of each hop but the last, the entities it should reach; empty where nobody knows.
    """

    text: str
    topic: tuple[int, int]
    topic_entity: int
    answers: list[int]
    unknown_answers: list[str]
    hops: int
    type: str
    id: str
    via: list[list[int]] = dataclasses.field(default_factory=list)

    def needs(self, relations: Collection[str]) -> bool:
        """Whether its type names one of some relations."""
        return not set(relations).isdisjoint(self.type.split(RELATION_SEPARATOR))


def parse_question(line: str, vocab: EntityVocab, hops: int, id: str) -> Question:
    """Parses `question with [topic]<TAB>answer|answer<TAB>type<TAB>...`.

    The brackets are the first '[' and the last ']', as a topic may hold brackets itself. Answers and type
    are optional, and a fourth column is ignored. A topic or an answer that the
    vocabulary does not have is kept, as -1 and in `unknown_answers`.

    Raises:
        CorpusError: a wrong number of columns, or no topic in brackets.
    """
    columns = line.split('\t')
    if len(columns) > 4:
        raise CorpusError(f'expected at most 4 columns separated by tabs (question, answers, type), found {len(columns)}')
    marked = columns[0]
    start, stop = marked.find('['), marked.rfind(']')
    if start < 0 or stop < start:
        raise CorpusError(f'the question has no topic in brackets: {marked!r}')
    topic = marked[start + 1 : stop]
    if not topic.strip():
        raise CorpusError(f'the topic in brackets is empty: {marked!r}')
    answers, unknown = {}, {}
    for name in columns[1].split('|') if len(columns) > 1 else ():
        if name := name.strip():
            entity = vocab.get(name)
            (unknown if entity is None else answers).setdefault(name if entity is None else entity)
    topic_entity = vocab.get(topic)
    return Question(
        text=marked[:start] + topic + marked[stop + 1 :],
        topic=(start, start + len(topic)),
        topic_entity=-1 if topic_entity is None else topic_entity,
        answers=list(answers),
        unknown_answers=list(unknown),
        hops=hops,
        type=columns[2].strip() if len(columns) > 2 else '',
        id=id,
    )


def parse_metaqa_file(path: str | os.PathLike, vocab: EntityVocab, hops: int) -> list[Question]:
    """Reads a question file, a question per line (see `parse_question`); blank lines are skipped.

    Ids are `{hops}-hop/{file stem}/{line number}`.

    Raises:
        CorpusError: naming the file and the line, or the file when it is missing or has no question.
    """
    path = files.path(path)
    questions = []
    try:
        source = io.TextIOWrapper(files.reader(path), encoding='utf-8', newline='\n')
    except OSError as error:
        raise CorpusError(f'{path}: cannot be read ({error.strerror})') from error
    with source:
        try:
            for number, line in enumerate(source, 1):
                line = line.rstrip('\r\n')
                if line.strip():
                    try:
                        questions.append(parse_question(line, vocab, hops, f'{hops}-hop/{path.stem}/{number}'))
                    except CorpusError as error:
                        raise CorpusError(f'{path}:{number}: {error}') from error
        except UnicodeDecodeError as error:
            raise CorpusError(f'{path}: not UTF-8 after line {len(questions)} ({error.reason})') from error
    if not questions:
        raise CorpusError(f'{path}: no question in the file')
    return questions


def save_questions(path: str | os.PathLike, questions: Sequence[Question]) -> None:
    """Writes questions/<name>.parquet (`tables.QUESTIONS`), in order."""
    columns = {
        'id': [q.id for q in questions],
        'question': [q.text for q in questions],
        'topic_start': [q.topic[0] for q in questions],
        'topic_end': [q.topic[1] for q in questions],
        'topic': [q.topic_entity for q in questions],
        'answers': [q.answers for q in questions],
        'unknown_answers': [q.unknown_answers for q in questions],
        'hops': [q.hops for q in questions],
        'type': [q.type for q in questions],
        'via': [q.via for q in questions],
    }
    table = pa.table(columns, schema=tables.QUESTIONS)
    tables.write_table(path, table.to_batches(), tables.QUESTIONS)


def load_questions(path: str | os.PathLike) -> list[Question]:
    """Reads what `save_questions` wrote; CorpusError when the file is missing or broken."""
    rows = tables.read_table(path, tables.QUESTIONS).to_pylist()
    return [
        Question(
            r['question'],
            (r['topic_start'], r['topic_end']),
            r['topic'],
            r['answers'],
            r['unknown_answers'],
            r['hops'],
            r['type'],
            r['id'],
            r['via'],
        )
        for r in rows
    ]
