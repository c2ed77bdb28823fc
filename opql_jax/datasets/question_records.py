"""Questions of public sets as records of question files, and how much a vocabulary has of them."""

import collections
import dataclasses
import os
from collections.abc import Callable, Iterable, Sequence

from opql_jax.core.errors import InputError
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.json_lines import map_records


def question_record(
    id: str,
    text: str,
    topics: Sequence[tuple[int, int, str]],
    answers: Iterable[str],
    hops: int = 1,
    type: str = '',
) -> dict:
    """A question's record; topics are `(start, end, entity)`, entities keys or unknown names."""
    return {
        'id': id,
        'question': text,
        'topics': [[start, end] for start, end, _ in topics],
        'entities': [entity for _, _, entity in topics],
        'answers': list(dict.fromkeys(answers)),
        'hops': hops,
        'type': type,
    }


@dataclasses.dataclass(frozen=True)
class Coverage:
    """How much of a data set a vocabulary covers. An answer counts once per question.

    `no_mention` counts questions whose text names no topic, which are not written. The paper's 88.2
    % of WebQuestionsSP and 94.2 % of ComplexWebQuestions are `with_answer_in_vocabulary`: no system
    that answers by entities of the vocabulary can be right more often.
    """

    questions: int = 0
    no_mention: int = 0
    with_topic_in_vocabulary: int = 0
    with_answer_in_vocabulary: int = 0
    answers: int = 0
    answers_in_vocabulary: int = 0

    def report(self) -> str:
        """A line for each count, with its share of all questions or answers."""
        lines = []
        for name, count in dataclasses.asdict(self).items():
            total = self.answers if name.startswith('answers') else self.questions
            share = 100 * count / max(total, 1)
            lines.append(f'{name.replace("_", " "):<26}{count:>9,}{share:>8.1f} %')
        return '\n'.join(lines)


def to_question_records(
    path: str | os.PathLike,
    records: Iterable[tuple[int, object]],
    convert: Callable[[dict], dict],
    separator: str = ': question ',
) -> list[dict]:
    """Converts numbered records, each with its own id; InputError begins with the place."""
    questions, number_of_id = [], {}
    for number, question in map_records(path, records, convert, separator):
        questions.append(question)
        if (first := number_of_id.setdefault(question['id'], number)) != number:
            repeated = f'id {question["id"]!r} is that of number {first}'
            raise InputError(f'{path}{separator}{number}: {repeated}')
    return questions


def with_topics(records: Iterable[dict], vocab: EntityVocab) -> tuple[list[dict], Coverage]:
    """The records that name a topic, without which nothing can be asked; the coverage of all."""
    kept, counts = [], collections.Counter()
    for record in records:
        known = sum(answer in vocab.id_of_key for answer in record['answers'])
        counts.update(questions=1, answers=len(record['answers']), answers_in_vocabulary=known)
        counts.update(with_answer_in_vocabulary=known > 0, no_mention=not record['topics'])
        if record['topics']:
            kept.append(record)
            about_known = any(entity in vocab.id_of_key for entity in record['entities'])
            counts.update(with_topic_in_vocabulary=about_known)
    return kept, Coverage(**{name: int(count) for name, count in counts.items()})
