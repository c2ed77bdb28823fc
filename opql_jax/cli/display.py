"""What `opql` prints: plain lines where they are piped, the same lines in colour at a terminal, and JSON."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING

from opql_jax.core.terminal import hanging, one_line, printable
from opql_jax.kb.answers import format_answer, notes, to_record
from opql_jax.kb.query_language import is_query

if TYPE_CHECKING:
    from opql_jax.corpus.questions import Question
    from opql_jax.kb.answers import Answer
    from opql_jax.kb.evaluate_questions import Evaluation
    from opql_jax.kb.retrieve import Documents, Retrieved
    from opql_jax.kb.virtual_kb import VirtualKB
    from opql_jax.kb.weighted_entities import WeightedEntities

# How parts of an answer's lines look at a terminal: headings, weights, entities, and where something was read. Further lines
# of a text are indented more than any of these but the last.
_STYLES = {
    r'^ +(?:hop \d.*|answer)$': 'bold',
    r'^ {1,11}\d+\.\d{3}(?=  )': 'green',
    r'(?<=\d\.\d{3}  ).+$': 'bold cyan',
    r'^ +\[.+? → .+?\](?=  |$)': 'dim',
}


def print_lines(text: str) -> None:
    """Prints lines of text, with their parts in colour at a terminal."""
    if not sys.stdout.isatty():
        print(text)
        return
    from rich.console import Console
    from rich.text import Text

    shown = Text(printable(text))
    for pattern, style in _STYLES.items():
        shown.highlight_regex(re.compile(pattern, re.MULTILINE), style)
    Console().print(shown, soft_wrap=True)


def print_answer(kb: VirtualKB, text: str, top: int, as_json: bool) -> None:
    """Prints the answer to a question, or the set that a query names."""
    if as_json:
        print_json(answer_record(kb, text, top))
    else:
        print_lines(answer_text(kb, text, top)[1])


def answer_record(kb: VirtualKB, text: str, top: int) -> dict:
    """What `--json` prints of an answer, with a note where its kind is out of reach, or of the set that a query names."""
    if is_query(text):
        return kb.query(text).to_record(top)
    question, answer, note = _answer(kb, text)
    return to_record(kb, question, answer, evidence=top) | ({'note': note} if note else {})


def answer_text(kb: VirtualKB, text: str, top: int) -> tuple[WeightedEntities, str]:
    """The answer to a question, or the set that a query names, and what is printed of it."""
    if is_query(text):
        members = kb.query(text)
        return members, members.explain(top=top) or 'no entity belongs to this set'
    question, answer, note = _answer(kb, text)
    return answer, (f'  ({note})\n' if note else '') + format_answer(kb, question, answer, top)


def _answer(kb: VirtualKB, text: str) -> tuple[Question, Answer, str]:
    """A question, its answer, and what should be said besides, or ''."""
    question = kb.question(text)
    (answer,) = kb.answer([question])
    return question, answer, '; '.join(notes(kb, answer))


def print_documents(documents: Documents, as_json: bool) -> None:
    """Prints ranked documents: how each was reached, and its best passage."""
    if as_json:
        print_json([document._asdict() for document in documents])
        print(documents.note, end='\n' * bool(documents.note), file=sys.stderr)
        return
    blocks = [f'  ({hanging(documents.note, 4)})'] if documents.note else []
    print_lines('\n'.join([*blocks, *map(_block, documents)]))


def _block(found: Retrieved) -> str:
    where = f'[{one_line(found.document)} → {hanging(found.why, 14)}]'
    return f'{found.score:10.3f}  {one_line(found.title)}\n            {where}\n            {hanging(found.text, 14)}'


def print_scores(evaluation: Evaluation, show: int, as_json: bool) -> None:
    """Prints a table of scores, and the first questions that were answered right and wrong."""
    if as_json:
        print_json(evaluation.to_record(show))
    else:
        print(evaluation.to_text(show))


def print_json(value: object) -> None:
    """Prints a value as one line of JSON."""
    print(json.dumps(value, ensure_ascii=False, allow_nan=False))
