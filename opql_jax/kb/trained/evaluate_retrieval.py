"""Scores `opql retrieve`, and others beside it, on questions with known supporting documents."""

import os
import pathlib
import re
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from opql_jax.core.errors import InputError
from opql_jax.corpus.json_lines import (
    map_records,
    read_json_lines,
    string_field,
    string_list_field,
    write_json,
)
from opql_jax.evaluation.metrics import grouped, means, table
from opql_jax.kb.open_kb import open_kb

# The most documents that are looked at.
K = 5


class Asked(NamedTuple):
    """A question, the ids of the documents that support its answer, and the ways to write that."""

    text: str
    supporting: frozenset[str]
    answers: tuple[str, ...]


def evaluate_retrieval(
    kb: str | os.PathLike, questions: str | os.PathLike, output: str | os.PathLike
) -> dict[str, dict]:
    """Ranks documents in several ways (`Retriever.compare`), prints and writes `metrics.json`.

    Questions are JSON Lines `{"question", "supporting": [ids of documents], "answer", "aliases"}`.
    InputError: a line is not such, or has the id of no document. Returns for each ranking recall@2
    and recall@5, the mean shares of the supporting documents among so many; answer@5, the share of
    questions of which one of five documents has an answer in whole words; these by the number of
    supporting documents; the number of questions; and the milliseconds a question took.
    """
    retriever = open_kb(kb).retriever
    asked = read_questions(questions)
    supporting = {name for one in asked for name in one.supporting}
    if absent := sorted(supporting - retriever.texts.keys()):
        supports = f'the document {absent[0]} supports a question'
        raise InputError(f'{questions}: {supports}, but {kb} has none of that id')
    metrics = {}
    for name, ranking in retriever.compare().items():
        started = time.perf_counter()
        found = ranking([one.text for one in asked], K)
        spent = round(1e3 * (time.perf_counter() - started) / len(asked), 1)
        metrics[name] = scores(asked, found, retriever.texts) | {'ms_per_question': spent}
    write_json(pathlib.Path(output) / 'metrics.json', metrics)
    print(table(metrics, ('recall@2', f'recall@{K}', f'answer@{K}', 'ms_per_question')))
    return metrics


def read_questions(path: str | os.PathLike) -> list[Asked]:
    """The questions of a file; InputError if there is none, or a line is not such."""
    asked = [record for _, record in map_records(path, read_json_lines(path), _asked)]
    if not asked:
        raise InputError(f'{path}: no question in the file')
    return asked


def scores(
    asked: Sequence[Asked], found: Sequence[Sequence[str]], texts: Mapping[str, str]
) -> dict:
    """The scores of a ranking; `found` has the ids of each question's best documents."""

    def row(one: Asked, ids: Sequence[str]) -> dict[str, float]:
        share = lambda k: len({*ids[:k]} & one.supporting) / len(one.supporting)
        answered = any(_states(texts[name], one.answers) for name in ids)
        return {'recall@2': share(2), f'recall@{K}': share(K), f'answer@{K}': answered}

    rows = list(map(row, asked, found))
    by_supporting = grouped(zip(asked, rows), lambda scored: len(scored[0].supporting))
    return means(rows) | {
        'by_supporting': {
            str(count): means(row for _, row in of) | {'questions': len(of)}
            for count, of in by_supporting.items()
        },
        'questions': len(asked),
    }


def _states(text: str, answers: Sequence[str]) -> bool:
    """Whether a text has an answer in whole words: 'no' is not in 'know', nor '1990' in '1990s'."""
    folded, names = text.casefold(), (re.escape(answer.casefold()) for answer in answers)
    return any(re.search(rf'(?<!\w){name}(?!\w)', folded) for name in names)


def _asked(record: dict) -> Asked:
    question, answer = string_field(record, 'question'), string_field(record, 'answer')
    supporting = string_list_field(record, 'supporting')
    aliases = string_list_field(record, 'aliases')
    if not supporting:
        raise InputError('supporting: empty; name the documents that the answer rests on')
    return Asked(question, frozenset(supporting), (answer, *aliases))
