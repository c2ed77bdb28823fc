"""What `opql` prints: plain lines into a pipe, coloured ones at a terminal, and JSON."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING

from opql_jax.core.terminal import hanging, one_line, printable

if TYPE_CHECKING:
    from opql_jax.kb.text.retrieve import Documents, Retrieved
    from opql_jax.kb.virtual_kb import VirtualKB

# How parts of an answer's lines look at a terminal: headings, weights, entities, and where
# something was read. Further lines of a text are indented more than any of these but the last.
_STYLES = {
    r'^ +(?:hop \d.*|answers?), by \w+$': 'bold',
    r'^ {1,11}\d+\.\d{3}(?=  )': 'green',
    r'(?<=\d\.\d{3}  ).+$': 'bold cyan',
    r'^ {12}\[.+?\](?=  |$)': 'dim',
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
        shown.highlight_regex(re.compile(pattern, re.M), style)
    Console().print(shown, soft_wrap=True)


def print_answer(kb: VirtualKB, text: str, top: int, as_json: bool, hops: int) -> None:
    """Prints the answer to a question, or the set that a query names."""
    found = kb.find(text, hops)
    print_json(found.to_record(top)) if as_json else print_lines(found.to_text(top))


def print_documents(documents: Documents, as_json: bool) -> None:
    """Prints ranked documents: how each was reached, and its best passage."""
    if as_json:
        print_json(documents.to_record())
        return
    blocks = [f'  ({hanging(documents.note, 4)})'] if documents.note else []
    print_lines('\n'.join([*blocks, *map(_block, documents)]))


def _block(found: Retrieved) -> str:
    where = f'[{one_line(found.document)} → {hanging(found.why, 14)}]'
    number = found.score if found.probability is None else found.probability
    lines = [f'{number:10.3f}  {one_line(found.title)}', where, hanging(found.text, 14)]
    return f'\n{" " * 12}'.join(lines)


def print_json(value: object) -> None:
    """Prints a value as one line of JSON."""
    print(json.dumps(value, ensure_ascii=False, allow_nan=False))
