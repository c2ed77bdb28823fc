"""Sets of short documents that were written for this project, with questions of several steps.

A file is plain text:

    ## Norrby and its makers
    # Norrby Foods
    A document. Its lines are one below another.
    # Signe Lagerqvist
    She attended Sankt Olof's School.
    Q: Which school did the founder of Norrby Foods attend?
    A: Sankt Olof's School | Sankt Olof's
    F: Norrby Foods; Signe Lagerqvist

`F` names the documents of the set that are needed, in the order in which one goes. An answer stands
word for word in one of them or is its title, the best first; `-` says that the set does not answer.
"""

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.data.reading import titled
from opql_jax.data.reading_examples import UNKNOWN, ReadingExample
from opql_jax.data.written_questions import (
    ANSWER,
    QUESTION,
    TITLE,
    WrittenQuestion,
    example,
    marked_lines,
    written_files,
    written_question,
)

_SET, _NEEDED, _BETWEEN = '## ', 'F: ', '; '
# How many passages are read with a question, if no more are needed, and how often.
_PASSAGES, _SHARES = (3, 4, 5), (0.2, 0.2, 0.6)
# How often one that is needed is left out.
_LEFT_OUT = 0.12


class LinkedQuestion(NamedTuple):
    """A question about a set, and the titles of the documents that it needs."""

    asked: WrittenQuestion
    needed: tuple[str, ...]


class LinkedSet(NamedTuple):
    """Documents that name each other, by their titles, and questions about them."""

    name: str
    documents: dict[str, str]
    questions: list[LinkedQuestion]


def linked_sets() -> list[LinkedSet]:
    """All sets of the checkout; InputError if this is an installed package."""
    return [each for path in written_files('linked') for each in read_sets(path)]


def read_sets(path: str | os.PathLike) -> list[LinkedSet]:
    """The sets of a file; InputError names file and line."""
    sets: list[LinkedSet] = []
    title, question, answer = '', '', ''
    for mark, line, told in marked_lines(path, (_SET, TITLE, QUESTION, ANSWER, _NEEDED)):
        if not mark + line:
            continue
        expected = _NEEDED if answer else ANSWER if question else mark
        if mark != expected:
            raise told(f'{expected.strip()} is expected after a question')
        if mark == _SET:
            sets.append(LinkedSet(line, {}, []))
            title = ''
        elif not sets:
            raise told('a document before a set')
        elif mark == TITLE:
            title = line
            if sets[-1].questions or title in sets[-1].documents:
                raise told('a document after the questions of its set, or twice')
            sets[-1].documents[title] = ''
        elif mark == QUESTION:
            question = line
        elif mark == ANSWER:
            answer = line
        elif mark == _NEEDED:
            needed = tuple(line.split(_BETWEEN))
            sets[-1].questions.append(_question(question, answer, needed, sets[-1], told))
            question = answer = ''
        elif not title or sets[-1].questions:
            raise told('a text without a title')
        else:
            sets[-1].documents[title] = f'{sets[-1].documents[title]}\n{line}'.lstrip()
    if question:
        raise InputError(f'{path}: the last question has no answer, or needs no document')
    if not sets:
        raise InputError(f'{path}: no set in the file')
    return sets


def _question(asked, answer, needed, of: LinkedSet, told) -> LinkedQuestion:
    if unknown := [each for each in needed if each not in of.documents]:
        raise told(f'no document of the set is called {unknown[0]!r}')
    texts = [titled(title, of.documents[title]) for title in needed]
    question = written_question(asked, answer, texts)
    if question is None:
        raise told('the answer is not in the documents that are needed')
    return LinkedQuestion(question, needed)


def examples(sets: Sequence[LinkedSet], rng: np.random.Generator) -> Iterator[ReadingExample]:
    """Yields an example of each question: what it needs among others, in a random order."""
    for each in sets:
        for question, needed in each.questions:
            kept = list(needed)
            if rng.random() < _LEFT_OUT:
                kept.pop(rng.integers(len(kept)))
            others = [title for title in each.documents if title not in needed]
            others = [others[i] for i in rng.permutation(len(others))]
            room = max(int(rng.choice(_PASSAGES, p=_SHARES)) - len(kept), 0)
            chosen = [*kept, *others[:room]]
            titles = [chosen[i] for i in rng.permutation(len(chosen))]
            texts = [titled(title, each.documents[title]) for title in titles]
            there = [number for number, title in enumerate(titles) if title in needed]
            # What tempts to answer may be called a help or none.
            yield example('linked', question, texts, there, set(needed) <= set(titles), UNKNOWN)
