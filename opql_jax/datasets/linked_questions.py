"""Questions of public data sets, with their topics and answers linked to a vocabulary, and how much of them it covers."""

from __future__ import annotations

import collections
import dataclasses
import os
from collections.abc import Callable, Iterable

from opql_jax.corpus.documents import CorpusError
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.json_lines import map_records
from opql_jax.datasets.entity_resolution import EntityLink


@dataclasses.dataclass(frozen=True)
class LinkedQuestion:
    """A question as a data set has it.

    Attributes:
        id: unique in its file.
        text: the question.
        topics: `(start, end, link)` of each topic that is named in the text, by start, code points.
        answers: its answers.
        hops: the number of hops, at least 1.
        type: a label, may be empty.
    """

    id: str
    text: str
    topics: list[tuple[int, int, EntityLink]]
    answers: list[EntityLink]
    hops: int
    type: str


@dataclasses.dataclass(frozen=True)
class Coverage:
    """How much of a data set a vocabulary has. An answer counts once in each question.

    The figures published with OPQL, 88.2 % of the questions of WebQuestionsSP and 94.2 % of those of ComplexWebQuestions, are
    `with_answer_in_vocabulary`: no system that answers by entities of the vocabulary can be right more often.

    Attributes:
        questions: all questions of the file.
        with_mention: those whose text names a topic; only these are written.
        with_topic_in_vocabulary: those that name a topic which the vocabulary has.
        with_answer_in_vocabulary: those with at least one answer that the vocabulary has, whether they name a topic or not.
        answers: the answers of all questions.
        answers_in_vocabulary: those of them that the vocabulary has.
    """

    questions: int = 0
    with_mention: int = 0
    with_topic_in_vocabulary: int = 0
    with_answer_in_vocabulary: int = 0
    answers: int = 0
    answers_in_vocabulary: int = 0

    @property
    def no_mention(self) -> int:
        """The questions that are not written."""
        return self.questions - self.with_mention

    def report(self) -> str:
        """A line for each count, with its share of all questions or answers."""
        rows = [
            ('questions', self.questions, None),
            ('with a mention', self.with_mention, self.questions),
            ('without a mention, left out', self.no_mention, self.questions),
            ('with a topic in the vocabulary', self.with_topic_in_vocabulary, self.questions),
            ('with an answer in the vocabulary', self.with_answer_in_vocabulary, self.questions),
            ('answers', self.answers, None),
            ('answers in the vocabulary', self.answers_in_vocabulary, self.answers),
        ]
        return '\n'.join(f'{name:<33}{n:>9,}' + (f'{100 * n / of:>8.1f} %' if of else '') for name, n, of in rows)


def read_linked(
    path: str | os.PathLike,
    records: Iterable[tuple[int, object]],
    convert: Callable[[dict], LinkedQuestion],
    separator: str = ': question ',
) -> list[LinkedQuestion]:
    """Converts the numbered records of a file.

    Raises:
        CorpusError: a record cannot be converted, or has the id of another; begins with `{path}{separator}{number}`.
    """
    questions, number_of_id = [], {}
    for number, question in map_records(path, records, convert, separator):
        questions.append(question)
        if (first := number_of_id.setdefault(question.id, number)) != number:
            raise CorpusError(f'{path}{separator}{number}: id {question.id!r} is already that of number {first}')
    return questions


def to_records(questions: Iterable[LinkedQuestion], vocab: EntityVocab) -> tuple[list[dict], Coverage]:
    """The records (see `corpus.questions`) of the questions that name a topic, and the coverage of all.

    Entities are written by their keys, those that the vocabulary lacks by their names.
    """
    written = lambda link: link.name if link.entity is None else vocab.keys[link.entity]
    records, counts = [], collections.Counter()
    for question in questions:
        answers = {written(link): link for link in question.answers}
        known = sum(link.entity is not None for link in answers.values())
        counts.update(questions=1, with_answer_in_vocabulary=known > 0, answers=len(answers), answers_in_vocabulary=known)
        if question.topics:
            linked = any(link.entity is not None for _, _, link in question.topics)
            counts.update(with_mention=1, with_topic_in_vocabulary=linked)
            records.append(
                {
                    'id': question.id,
                    'question': question.text,
                    'topics': [[start, end] for start, end, _ in question.topics],
                    'entities': [written(link) for _, _, link in question.topics],
                    'answers': list(answers),
                    'hops': question.hops,
                    'type': question.type,
                }
            )
    return records, Coverage(**{name: int(count) for name, count in counts.items()})
