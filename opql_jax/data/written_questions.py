"""Documents that were written for this project, each paragraph with questions about it.

A file is plain text:

    # Title
    A paragraph. Its lines are one below another.
    Q: Who designed the bridge?
    A: Novotna | Ewa Novotna
    Q: Who painted it?
    A: -
    Q: Is it open?
    A: no

An answer stands word for word in the paragraph, the best first; `-` says that it does not answer.
"""

import os
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.corpus.json_lines import read_text
from opql_jax.data.reading import titled
from opql_jax.data.reading_examples import (
    DOES_NOT,
    HELPS,
    NO,
    YES,
    ReadingExample,
    occurrences,
)

_WRITTEN = pathlib.Path(__file__).parents[1] / 'datasets' / 'written'
# What begins a line, also of the files of `linked_questions`.
TITLE, QUESTION, ANSWER = '# ', 'Q: ', 'A: '
_OR, _NONE = ' | ', '-'
# How often none, one, two and three paragraphs stand beside the one that is asked, and how many of
# other documents are drawn among those of its own.
_OTHERS, _FAR = (0.4, 0.35, 0.15, 0.1), 3
# How often the paragraph that answers is left out, and a title is read.
_LEFT_OUT, _TITLED = 0.12, 0.7


class WrittenQuestion(NamedTuple):
    """A question about a paragraph; without answers and verdict the paragraph does not answer."""

    text: str
    answers: tuple[str, ...]  # as they stand in the paragraph
    verdict: str  # YES, NO or ''


class WrittenParagraph(NamedTuple):
    """A paragraph and what is asked about it."""

    text: str
    questions: list[WrittenQuestion]


class WrittenDocument(NamedTuple):
    """A document of some paragraphs."""

    title: str
    paragraphs: list[WrittenParagraph]


def documents() -> list[WrittenDocument]:
    """All documents of the checkout; InputError if this is an installed package."""
    return [document for path in written_files() for document in read_written(path)]


def written_files(of: str = '') -> list[pathlib.Path]:
    """The files of what was written, in a folder of it; InputError if there are none."""
    found = sorted((_WRITTEN / of).glob('*.txt'))
    if not found:
        raise InputError(f'{_WRITTEN / of} has no text: it is no part of the wheel, use a checkout')
    return found


def marked_lines(
    path: str | os.PathLike, marks: Sequence[str]
) -> Iterator[tuple[str, str, Callable[[str], InputError]]]:
    """Yields each line's mark or '', the rest, and the error of a problem; at last a blank line."""
    for number, line in enumerate([*read_text(path).split('\n'), ''], 1):
        line = line.rstrip()
        mark = next(filter(line.startswith, marks), '')
        told = lambda problem, number=number: InputError(f'{path}, line {number}: {problem}')
        yield mark, line[len(mark) :], told


def read_written(path: str | os.PathLike) -> list[WrittenDocument]:
    """The documents of a file; InputError names file and line."""
    documents: list[WrittenDocument] = []
    lines: list[str] = []
    asked = ''
    for mark, line, told in marked_lines(path, (TITLE, QUESTION, ANSWER)):
        if bool(asked) != (mark == ANSWER):
            raise told('a question without an answer' if asked else 'an answer without a question')
        if lines and (mark == TITLE or not mark + line):
            raise told('a paragraph without a question')
        if mark == TITLE:
            documents.append(WrittenDocument(line, []))
        elif mark == ANSWER:
            paragraph = documents[-1].paragraphs[-1]
            question = written_question(asked, line, [paragraph.text])
            if question is None:
                raise told('the answer is not in the paragraph')
            paragraph.questions.append(question)
            asked = ''
        elif mark == QUESTION:
            if lines:
                documents[-1].paragraphs.append(WrittenParagraph('\n'.join(lines), []))
            elif not (documents and documents[-1].paragraphs):
                raise told('a question before a paragraph')
            lines, asked = [], line
        elif line:
            if not documents:
                raise told('a paragraph without a title')
            lines.append(line)
    if not documents:
        raise InputError(f'{path}: no document in the file')
    return documents


def written_question(asked: str, answer: str, texts: Sequence[str]) -> WrittenQuestion | None:
    """A question with its answer as it is written; None if this stands in none of the texts."""
    if answer == _NONE:
        return WrittenQuestion(asked, (), '')
    if answer in (YES, NO):
        return WrittenQuestion(asked, (), answer)
    answers = tuple(answer.split(_OR))
    is_there = all(occurrences([answer], texts) for answer in answers)
    return WrittenQuestion(asked, answers, '') if is_there else None


def examples(
    documents: Sequence[WrittenDocument], rng: np.random.Generator
) -> Iterator[ReadingExample]:
    """Yields an example of each question: its paragraph among others, in a random order."""
    far = [(document.title, each.text) for document in documents for each in document.paragraphs]
    for document in documents:
        for paragraph in document.paragraphs:
            for question in paragraph.questions:
                title = document.title if rng.random() < _TITLED else ''
                near = [(title, each.text) for each in document.paragraphs if each is not paragraph]
                drawn = [far[i] for i in rng.integers(len(far), size=_FAR)]
                # All passages have titles or none, as a lack of one would tell them apart.
                others = [titled(title and of, other) for of, other in (*near, *drawn)]
                text = titled(title, paragraph.text)
                others = list(dict.fromkeys(other for other in others if other != text))
                count = int(rng.choice(len(_OTHERS), p=_OTHERS))
                others = [others[i] for i in rng.permutation(len(others))[:count]]
                left_out = bool(others) and rng.random() < _LEFT_OUT
                texts = others if left_out else [text, *others]
                texts = [texts[i] for i in rng.permutation(len(texts))]
                needed = [] if left_out else [texts.index(text)]
                yield example('written', question, texts, needed, is_whole=not left_out)


def example(
    source: str,
    question: WrittenQuestion,
    texts: Sequence[str],
    needed: Sequence[int],
    is_whole: bool,
    unanswered: int = DOES_NOT,
) -> ReadingExample:
    """An example with the passages `texts`, of which `needed` answer if all that do are there.

    Of a question without an answer these are `unanswered`, a value of `supports`.
    """
    is_answered = bool(question.answers or question.verdict)
    helps = HELPS if is_answered else unanswered
    supports = tuple(helps if i in needed else DOES_NOT for i in range(len(texts)))
    says = is_answered and is_whole
    places = occurrences(question.answers, texts, needed) if says else []
    verdict = question.verdict if says else ''
    return ReadingExample(source, question.text, tuple(texts), tuple(places), supports, verdict)
