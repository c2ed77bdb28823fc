"""Writes what a knowledge base says as CSV, GraphML or RDF, by the name of the file."""

import csv
import os
import pathlib
import re
import urllib.parse
from collections.abc import Callable, Iterator
from typing import TextIO

import numpy as np

from opql_jax.core import files
from opql_jax.core.errors import InputError
from opql_jax.core.progress import logged
from opql_jax.core.terminal import printable
from opql_jax.corpus.entities import EntityVocab
from opql_jax.kb.path_graph import xml_text
from opql_jax.kb.paths import Fact, facts
from opql_jax.kb.virtual_kb import VirtualKB

# Entries that are read at once.
_BLOCK = 4096
_READ_IN = ('relation', 'inverse', 'weight', 'sentence', 'title', 'document')
_COLUMNS = ('topic', 'topic_kind', 'target', 'target_kind', *_READ_IN)
# How GraphML and XML Schema call the type of a column that is no string.
_TYPES = {'inverse': 'boolean', 'weight': 'double'}
# What a spreadsheet takes for a formula, if it is no number. Apostrophes before it count, so that
# what was given one can be told from what had one.
_FORMULA = re.compile(r"'*[=+\-@\t\r\n＝＋－＠]")
_NUMBER = re.compile(r'[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?', re.ASCII | re.IGNORECASE)
_LIKE_ESCAPE = re.compile(r'\\(?=u[0-9a-f]{4})')
_ESCAPES = str.maketrans({'\\': '\\\\', '"': '\\"', '\n': '\\n', '\r': '\\r'})
_XSD = 'http://www.w3.org/2001/XMLSchema#'
_LABEL = '<http://www.w3.org/2000/01/rdf-schema#label>'

# An entry of the memory: its topic and target as ids, and the fact as people read it.
Entry = tuple[int, int, Fact]


def export(kb: VirtualKB, output: str | os.PathLike) -> int:
    """Writes all entries of a memory of text, whole or not at all; returns how many there are.

    Each comes with the sentence and document that say it. `relation` has the words that stand
    between the two names, if they are few, and `inverse` says that the target stands first: of
    'Night Ferry was directed by Ingrid Solberg' one entry leads from Night Ferry in these words,
    the other one from Ingrid Solberg, inverse. `weight` is 1 divided by the number of entries that
    lead from the topic, so that those of an entity add up to 1, as in a random walk.

    `output` ends in .csv (a line per entry, its cells as `csv_cell` writes them), .graphml
    (entities as nodes, entries as edges) or .nt (RDF as N-Triples: an entry is a blank node with
    `urn:opql:topic`, `target`, `relation`, `inverse`, `weight`, `sentence`, `title` and
    `document`). InputError: another ending, a link in its place, or another knowledge base.
    """
    suffix = pathlib.Path(output).suffix.lower()
    if suffix not in _FORMATS:
        endings = ', '.join(_FORMATS)
        raise InputError(f'{output}: the name of the file has to end in one of {endings}')
    files.refuse_link(output)
    if kb.memory is None or not kb.store.memory_is_of_text:
        raise InputError('only a memory of the text of its knowledge base can be exported')
    with (
        files.atomic_path(output) as partial,
        open(partial, 'w', encoding='utf-8', newline='') as file,
    ):
        _FORMATS[suffix](file, kb.vocab, _entries(kb))
    return len(kb.memory)


def _entries(kb: VirtualKB) -> Iterator[Entry]:
    memory = kb.memory
    assert memory is not None  # `export` checked it
    counts = np.diff(memory.offsets)
    firsts = range(0, len(memory), _BLOCK)
    blocks = (np.arange(first, min(first + _BLOCK, len(memory))) for first in firsts)
    for rows in logged(blocks, len(memory), 'entries exported'):
        found = facts(kb.store, memory.ids[rows], 1 / counts[memory.topic[rows]])
        yield from zip(memory.topic[rows].tolist(), memory.target[rows].tolist(), found)


def _write_csv(file: TextIO, vocab: EntityVocab, entries: Iterator[Entry]) -> None:
    lines = csv.writer(file)
    lines.writerow(_COLUMNS)
    for topic, target, fact in entries:
        ends = fact.topic, vocab.kinds[topic], fact.target, vocab.kinds[target]
        lines.writerow(map(csv_cell, [*ends, *_read_in(fact).values()]))


def _read_in(fact: Fact) -> dict[str, str]:
    """What the text says of a fact, by the names of `_READ_IN`."""
    words, topic_first = fact.wording
    said = words, 'false' if topic_first else 'true', f'{fact.weight:.6g}'
    values = *said, fact.sentence, fact.title, fact.document
    return {name: value or '' for name, value in zip(_READ_IN, values)}


def csv_cell(text: str) -> str:
    r"""A text as a cell that no spreadsheet runs as a formula, and no terminal obeys.

    What a terminal would obey is written as in JSON (`\u001b`), and so is a backslash before what
    would read like that (`\u005cu001b`). Then a text that begins with `=`, `+`, `-` or `@`, also in
    full width, a tab or a line break, and is no number, gets an apostrophe; so does one that begins
    with apostrophes before such a character. To read a cell: of apostrophes before such a character
    take the first away, then put characters for `\uXXXX`.
    """
    text = printable(_LIKE_ESCAPE.sub(r'\\u005c', text))
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def _write_graphml(file: TextIO, vocab: EntityVocab, entries: Iterator[Entry]) -> None:
    data = lambda values: ''.join(
        f'<data key="{key}">{xml_text(value)}</data>' for key, value in values.items()
    )
    file.write('<?xml version="1.0" encoding="utf-8"?>\n')
    file.write('<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n')
    for of, names in (('node', ('name', 'kind')), ('edge', _READ_IN)):
        for name in names:
            type = _TYPES.get(name, 'string')
            file.write(f'<key id="{name}" for="{of}" attr.name="{name}" attr.type="{type}"/>\n')
    file.write('<graph edgedefault="directed">\n')
    for number, (name, kind) in enumerate(zip(vocab.names, vocab.kinds)):
        file.write(f'<node id="e{number}">{data({"name": name, "kind": kind})}</node>\n')
    for topic, target, fact in entries:
        file.write(f'<edge source="e{topic}" target="e{target}">{data(_read_in(fact))}</edge>\n')
    file.write('</graph>\n</graphml>\n')


def _write_n_triples(file: TextIO, vocab: EntityVocab, entries: Iterator[Entry]) -> None:
    typed = {name: f'^^<{_XSD}{_TYPES[name]}>' if name in _TYPES else '' for name in _READ_IN}
    literal = lambda text: f'"{text.translate(_ESCAPES)}"'
    entity = lambda number: f'<urn:opql:entity:{urllib.parse.quote(vocab.keys[number], safe="")}>'
    for number, (name, kind) in enumerate(zip(vocab.names, vocab.kinds)):
        file.write(f'{entity(number)} {_LABEL} {literal(name)} .\n')
        file.write(f'{entity(number)} <urn:opql:kind> {literal(kind)} .\n')
    for number, (topic, target, fact) in enumerate(entries):
        file.write(f'_:f{number} <urn:opql:topic> {entity(topic)} .\n')
        file.write(f'_:f{number} <urn:opql:target> {entity(target)} .\n')
        for name, value in _read_in(fact).items():
            file.write(f'_:f{number} <urn:opql:{name}> {literal(value)}{typed[name]} .\n')


_FORMATS: dict[str, Callable[[TextIO, EntityVocab, Iterator[Entry]], None]] = {
    '.csv': _write_csv,
    '.graphml': _write_graphml,
    '.nt': _write_n_triples,
}
