"""What `opql` prints: plain lines where they are piped, the same lines in colour at a terminal, and JSON."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from opql_jax.kb.answers import format_answer, to_record
from opql_jax.kb.query_language import is_query
from opql_jax.kb.question_plans import out_of_reach

if TYPE_CHECKING:
    from opql_jax.corpus.questions import Question
    from opql_jax.kb.evaluate_questions import Evaluation
    from opql_jax.kb.retrieve import Retrieved
    from opql_jax.kb.virtual_kb import VirtualKB
    from opql_jax.kb.weighted_entities import WeightedEntities

# How parts of an answer's lines look at a terminal: headings, weights, entities, and where something was read.
_STYLES = {
    r'^ +(?:hop \d.*|answer)$': 'bold',
    r'^ +\d+\.\d{3}(?=  )': 'green',
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

    shown = Text(text)
    for pattern, style in _STYLES.items():
        shown.highlight_regex(re.compile(pattern, re.MULTILINE), style)
    Console().print(shown, soft_wrap=True)


def print_answer(kb: VirtualKB, text: str, top: int, as_json: bool) -> WeightedEntities:
    """Prints the answer to a question, with a note where its kind is out of reach, or the set that a query names; returns it."""
    if is_query(text):
        members = kb.query(text)
        if as_json:
            print_json(members.to_record(top))
        else:
            print_lines(members.explain(top=top) or 'no entity belongs to this set')
        return members
    question = kb.question(text)
    (answer,) = kb.answer([question])
    note = '; '.join(filter(None, [out_of_reach(question.text), *_ambiguous_names(kb, question)]))
    if as_json:
        print_json(to_record(kb, question, answer, evidence=top) | ({'note': note} if note else {}))
    else:
        print_lines((f'  ({note})\n' if note else '') + format_answer(kb, question, answer, top))
    return answer


def _ambiguous_names(kb: VirtualKB, question: Question) -> Iterator[str]:
    """What to write for other entities that a name in the question may mean."""
    if kb.memory is None:
        return
    for (start, end), taken in zip(question.topics, question.entities):
        name = question.text[start:end]
        if others := [entity for entity in kb.linker.meanings(name) if entity != taken]:
            candidates = kb.sets.candidates(others[:5], '[{}]'.format)
            yield f'{name} is taken for {kb.vocab.names[taken]}; it may also be\n{candidates}'


def print_documents(documents: Sequence[Retrieved], as_json: bool) -> None:
    """Prints ranked documents: how each was reached, and its best passage."""
    if as_json:
        print_json([document._asdict() for document in documents])
        return
    blocks = [f'{d.score:10.3f}  {d.title}\n            [{d.document} → {d.why}]\n            {d.text}' for d in documents]
    print_lines('\n'.join(blocks))


def print_scores(evaluation: Evaluation, show: int, as_json: bool) -> None:
    """Prints a table of scores, and the first questions that were answered right and wrong."""
    if as_json:
        print_json(evaluation.to_record(show))
    else:
        print(evaluation.to_text(show))


def print_json(value: object) -> None:
    """Prints a value as one line of JSON."""
    print(json.dumps(value, ensure_ascii=False, allow_nan=False))
