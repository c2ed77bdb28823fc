"""The entity vocabulary: keys, names and aliases; an entity's id is its row."""

from __future__ import annotations

import collections
import copy
import difflib
import hashlib
import heapq
import itertools
import json
import os
from collections.abc import Iterable, Sequence

import pyarrow as pa

from opql_jax.core.errors import InputError, NotFound
from opql_jax.corpus import tables
from opql_jax.corpus.documents import Document
from opql_jax.corpus.json_lines import short_repr

UNKNOWN_KIND = 'name'
# The kind of titles partly in lower case that no text mentions: 'The Guide for Visitors'.
TITLE_KIND = 'title'
# Longest kind, in characters.
LONGEST_KIND = 100
# Names that a message suggests, and the fewest letters in words that they share with the unknown.
_NEAREST, _FEWEST_SHARED = 3, 4


class EntityVocab:
    """The entities of a corpus; the id of an entity is its row.

    A string is looked up as a key (as documents link), a name, then an alias; one that several
    entities share means the one with the lowest id, as in `id_of_key` and `spellings`. `kinds` are
    values of `recognition.KINDS`; TITLE_KIND if only a title names it, UNKNOWN_KIND if nothing
    tells, and 'thing' where `models.mention_kinds` tells what it is not.
    """

    def __init__(
        self,
        keys: Sequence[str],
        names: Sequence[str],
        aliases: Sequence[Sequence[str]],
        kinds: Sequence[str] | None = None,
    ):
        """InputError: an empty key, name or kind, a repeated key, or a long kind."""
        self.keys, self.names, self.aliases = list(keys), list(names), [list(a) for a in aliases]
        self.kinds = [UNKNOWN_KIND] * len(self.keys) if kinds is None else list(kinds)
        self.id_of_key: dict[str, int] = {}
        for row, (key, name) in enumerate(zip(self.keys, self.names)):
            if not key or not name or not self.kinds[row]:
                raise InputError(f'entity vocabulary: row {row} has an empty key, name or kind')
            if len(self.kinds[row]) > LONGEST_KIND:
                raise InputError(f'entity vocabulary: the kind in row {row} is too long')
            if self.id_of_key.setdefault(key, row) != row:
                rows = f'{self.id_of_key[key]} and {row}'
                raise InputError(f'entity vocabulary: key {key!r} is in rows {rows}')
        self.spellings: dict[str, int] = {}
        for row, name in enumerate(self.names):
            self.spellings.setdefault(name, row)
        for row, aliases_of_row in enumerate(self.aliases):
            for alias in aliases_of_row:
                if alias:
                    self.spellings.setdefault(alias, row)

    @classmethod
    def from_names(cls, names: Iterable[str]) -> EntityVocab:
        """One entity per name; spellings that differ only by case are its aliases."""
        rows: dict[str, dict[str, None]] = {}
        for name in names:
            rows.setdefault(name.casefold(), {})[name] = None
        spellings = [list(row) for row in rows.values()]
        first = [row[0] for row in spellings]
        return cls(first, first, [row[1:] for row in spellings])

    @classmethod
    def from_documents(cls, documents: Iterable[Document]) -> EntityVocab:
        """The entities that documents name: title entities and linked mentions, as they appear.

        An entity is called by the title of the first document about it, otherwise by its most
        frequent mention; the other forms are its aliases, most frequent first. When no document has
        any link, every title is an entity (see `linking.link_titles`).
        """
        documents = list(documents)
        linked = any(d.mentions or d.title_entity is not None for d in documents)
        titles: dict[str, str] = {}
        surfaces: dict[str, collections.Counter[str]] = {}
        for document in documents:
            key = document.title_entity if linked else document.title
            if key is not None:
                titles.setdefault(key, document.title)
                surfaces.setdefault(key, collections.Counter())
            for mention in document.mentions or ():
                surface = ' '.join(document.text[mention.start : mention.end].split())
                surfaces.setdefault(mention.entity, collections.Counter())[surface] += 1
        names, aliases = [], []
        for key, counts in surfaces.items():
            forms = sorted(counts, key=lambda form: (-counts[form], form))
            names.append(titles.get(key) or forms[0])
            aliases.append([form for form in forms if form != names[-1]])
        return cls(list(surfaces), names, aliases)

    def __len__(self) -> int:
        return len(self.keys)

    def get(self, name: str) -> int | None:
        """The id of a key, name or alias, or None."""
        entity = self.id_of_key.get(name)
        return self.spellings.get(name) if entity is None else entity

    def id(self, name: str) -> int:
        """The id of a key, name or alias; else NotFound with the closest spellings."""
        entity = self.get(name)
        if entity is None:
            raise NotFound(f'unknown entity {short_repr(name)}{self.did_you_mean([name])}')
        return entity

    def did_you_mean(self, names: Sequence[str]) -> str:
        """The end of a message about unknown names: close spellings, or '' if none is close."""
        spellings: dict[str, str] = {}
        for spelling in self.spellings:
            spellings.setdefault(spelling.casefold(), spelling)
        found: list[str] = []
        for name in names:
            folded = name.casefold()
            close = difflib.get_close_matches(folded, spellings, n=_NEAREST, cutoff=0.7)
            found += [spellings[one] for one in close or _with_words_of(folded, spellings)]
        nearest = ' or '.join(map(short_repr, list(dict.fromkeys(found))[:_NEAREST]))
        return f'; did you mean {nearest}?' if found else ''

    def with_kinds(self, kinds: Sequence[str]) -> EntityVocab:
        """The same entities, of these kinds."""
        vocab = copy.copy(self)
        vocab.kinds = list(kinds)
        return vocab

    def hash(self, count: int | None = None) -> str:
        """Hex SHA-256 of keys, names and aliases (no kinds) of the first `count` entities."""
        digest = hashlib.sha256()
        for row in itertools.islice(zip(self.keys, self.names, self.aliases), count):
            digest.update(json.dumps(row, ensure_ascii=False).encode('utf-8') + b'\n')
        return digest.hexdigest()

    def save(self, path: str | os.PathLike, counts: Sequence[int] | None = None) -> None:
        """Writes entities.parquet with `counts` of mentions; kinds only if one is known."""
        counts = [0] * len(self) if counts is None else counts
        columns = [self.keys, self.names, self.aliases, counts, self.kinds]
        schema = tables.ENTITIES
        if all(kind == UNKNOWN_KIND for kind in self.kinds):
            schema = schema.remove(schema.get_field_index('kind'))
        arrays = [pa.array(column, type=field.type) for column, field in zip(columns, schema)]
        tables.write_table(path, [pa.RecordBatch.from_arrays(arrays, schema=schema)], schema)

    @classmethod
    def load(cls, path: str | os.PathLike, rows: int | None = None) -> EntityVocab:
        """Reads entities.parquet, of `rows` rows if given; InputError if missing or damaged."""
        table = tables.read_table(path, tables.ENTITIES, optional=('kind',), rows=rows)
        kinds = table['kind'].to_pylist() if 'kind' in table.column_names else None
        keys, names, aliases = (table[name].to_pylist() for name in ('key', 'name', 'aliases'))
        try:
            return cls(keys, names, aliases, kinds)
        except InputError as error:
            raise InputError(f'{path}: {error}; {tables.PREPARED.advice}') from error


def _with_words_of(name: str, spellings: Iterable[str]) -> list[str]:
    """The spellings that share most words with a name: 'cape lion' of 'the last cape lion'."""
    words = set(name.split())
    shared = {one: sum(map(len, words.intersection(one.split()))) for one in spellings}
    near = (one for one in shared if shared[one] >= _FEWEST_SHARED)
    return heapq.nsmallest(_NEAREST, near, key=lambda one: (-shared[one], len(one), one))
