"""Other wordings of questions, read from a file.

Training questions are often made from a few templates, and these are other ways to ask them.

Each line is a type of questions (`Question.type`), a tab, and a wording in which [X] stands for the
topic:

    actor_to_movie > movie_to_year<TAB>When did the films that [X] starred in come out?
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence

import numpy as np

from opql_jax.core import files
from opql_jax.core.errors import InputError
from opql_jax.corpus.json_lines import check_string, errors_at, read_lines, short_repr
from opql_jax.corpus.questions import Question

TOPIC = '[X]'
# The text before and after the topic.
Wording = tuple[str, str]


def read_wordings(path: str | os.PathLike) -> dict[str, list[Wording]]:
    """{type of questions: its wordings}, in the order of the file; InputError names the line."""
    path, wordings = files.path(path), {}
    for number, line in read_lines(path):
        if not line.strip():
            continue
        kind, tab, text = line.partition('\t')
        if not (tab and kind.strip() and text.count(TOPIC) == 1):
            raise InputError(
                f'{path}:{number}: expected TYPE<TAB>WORDING with one {TOPIC}: {short_repr(line)}'
            )
        with errors_at(f'{path}:{number}'):
            check_string('the wording', text)
        before, after = text.strip().split(TOPIC)
        wordings.setdefault(kind.strip(), []).append((before, after))
    if not wordings:
        raise InputError(f'{path}: no wording in the file')
    return wordings


def reworded(question: Question, wording: Wording) -> Question:
    """The question about its first topic in another wording."""
    start, end = question.topic
    (before, after), name = wording, question.text[start:end]
    return dataclasses.replace(
        question,
        text=before + name + after,
        topics=((len(before), len(before) + len(name)),),
        entities=question.entities[:1],
    )


def in_other_wordings(
    questions: Sequence[Question], wordings: Mapping[str, Sequence[Wording]], seed: int = 0
) -> list[Question]:
    """Each question whose type has wordings, in one of them, drawn at random; their ids say so."""
    rng = np.random.default_rng(seed)
    chosen = [
        dataclasses.replace(q, id=f'{q.id} in other words') for q in questions if q.type in wordings
    ]
    return [reworded(q, wordings[q.type][int(rng.integers(len(wordings[q.type])))]) for q in chosen]
