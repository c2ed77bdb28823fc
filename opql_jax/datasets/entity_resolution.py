"""Finds entities of Freebase and Wikidata sets in a vocabulary, and their names in questions."""

import functools
import itertools
import os
import re
from collections.abc import Container, Iterable, Sequence
from urllib.parse import unquote

from opql_jax.core.errors import InputError
from opql_jax.corpus import json_lines
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.words import word_list

_WORD = re.compile(r'\w+')
_FUNCTION_WORDS = word_list('no_topics')


class EntityResolver:
    """Finds entities of a vocabulary by Freebase MID, Wikidata QID or name."""

    def __init__(
        self,
        vocab: EntityVocab,
        mid_to_qid: str | os.PathLike | None = None,
        qid_labels: str | os.PathLike | None = None,
    ):
        """Reads the tables; InputError names the line or the QID that cannot be read.

        `mid_to_qid` has lines `mid<TAB>qid`, a MID as `m.02mjmr` or `/m/02mjmr`, of which the first
        counts; `qid_labels` is `{qid: {"label", "aliases": [...], "wikipedia"?: address}}`, JSON.
        """
        self.vocab = vocab
        self._qids = {} if mid_to_qid is None else _read_qids(mid_to_qid)
        self._names = {} if qid_labels is None else _read_labels(qid_labels)

    def entity(self, mid: str = '', qid: str = '', names: Iterable[str] = ()) -> int | None:
        """The id of the entity whose key is the MID or QID, or of the first that is named so.

        Names are the QID's in the tables, then `names`; in any case if that means one entity only.
        """
        qid = qid or self._qids.get(mid, '')
        for key in _keys(mid, qid):
            if key in self.vocab.id_of_key:
                return self.vocab.id_of_key[key]
        for name in (*self._names.get(qid, ()), *names):
            for entity in (self.vocab.get(name), self._folded.get(name.casefold())):
                if entity is not None:
                    return entity
        return None

    def key_or_name(
        self, name: str, mid: str = '', qid: str = '', names: Iterable[str] = ()
    ) -> str:
        """The key of what `entity` finds by MID, QID or names; `name` if it is unknown."""
        entity = self.entity(mid, qid, [*names, name])
        return name if entity is None else self.vocab.keys[entity]

    def names(self, mid: str = '', qid: str = '') -> list[str]:
        """The names of a MID or QID in the tables, and in the vocabulary where it is a key."""
        qid = qid or self._qids.get(mid, '')
        names = list(self._names.get(qid, ()))
        for key in _keys(mid, qid):
            if (row := self.vocab.id_of_key.get(key)) is not None:
                names += [self.vocab.names[row], *self.vocab.aliases[row]]
        return list(dict.fromkeys(names))

    @functools.cached_property
    def _folded(self) -> dict[str, int]:
        """Case-folded names and aliases that are one entity's only."""
        entities: dict[str, int | None] = {}
        for row, (name, aliases) in enumerate(zip(self.vocab.names, self.vocab.aliases)):
            for spelling in (name, *aliases):
                if entities.setdefault(spelling.casefold(), row) != row:
                    entities[spelling.casefold()] = None
        return {spelling: row for spelling, row in entities.items() if spelling and row is not None}


def _keys(mid: str, qid: str) -> list[str]:
    """The keys that a vocabulary may have for an entity."""
    return ([mid, '/' + mid.replace('.', '/')] if mid else []) + ([qid] if qid else [])


def _read_qids(path) -> dict[str, str]:
    qids = {}
    for number, line in json_lines.read_lines(path):
        if not (columns := line.split()):
            continue
        if not re.fullmatch(r'/?[mg][./]\w+ Q\d+', ' '.join(columns)):
            raise InputError(f'{path}:{number}: expected m.02mjmr<TAB>Q76, found {line!r}')
        qids.setdefault(columns[0].strip('/').replace('/', '.'), columns[1])
    return qids


def _read_labels(path) -> dict[str, list[str]]:
    entries = json_lines.read_json(path)
    if not isinstance(entries, dict):
        raise InputError(f'{path}: expected a JSON object of QIDs, found {type(entries).__name__}')
    names = {}
    for qid, entry in entries.items():
        with json_lines.errors_at(f'{path}: {qid}'):
            if not isinstance(entry, dict):
                raise InputError(f'expected an object, found {entry!r}')
            names[qid] = names_of(entry)
    return names


def names_of(entry: dict, aliases: str = 'aliases', prefix: str = '') -> list[str]:
    """A QID's Wikipedia title, label and aliases, each once; errors begin with `prefix`."""
    address = json_lines.string_field(entry, 'wikipedia', '', prefix)
    label = json_lines.string_field(entry, 'label', '', prefix)
    title = unquote(address.rpartition('/wiki/')[2]).replace('_', ' ')
    names = [title, label, *json_lines.string_list_field(entry, aliases, prefix)]
    return list(dict.fromkeys(filter(None, names)))


def find_topics(
    text: str, topics: Sequence[tuple[str, Iterable[str]]], known: Container[str] = ()
) -> list[tuple[int, int, str]]:
    """Finds a question's topics: `(start, end, topic)`, disjoint, by start, code points.

    A topic is where the longest of its names stands, in any case; if none stands there, the longest
    run of words of a name is the only one. Of overlapping ones the longest stays, then one in
    `known`.
    """
    names_of_topics = [(topic, [name for name in names if name]) for topic, names in topics]
    found = [(*span, topic) for topic, names in names_of_topics if (span := find_name(text, names))]
    if not found:
        runs = [(*span, t) for t, names in names_of_topics if (span := _longest_run(text, names))]
        found = [max(runs, key=lambda run: run[1] - run[0])] if runs else []
    disjoint: list[tuple[int, int, str]] = []
    for start, end, topic in sorted(found, key=lambda m: (m[0] - m[1], m[0], m[2] not in known)):
        if all(end <= other[0] or other[1] <= start for other in disjoint):
            disjoint.append((start, end, topic))
    return sorted(disjoint)


def find_name(text: str, names: Sequence[str]) -> tuple[int, int] | None:
    """The span of the longest name in a text."""
    for name in sorted(names, key=len, reverse=True):
        match = re.search(rf'(?<!\w){re.escape(name)}(?!\w)', text, re.I)
        if match and not _FUNCTION_WORDS.issuperset(_WORD.findall(match[0].lower())):
            return match.span()
    return None


def _longest_run(text: str, names: Sequence[str]) -> tuple[int, int] | None:
    """The span of the longest common run of words of a name, between content words."""
    words = [(match.start(), match.end(), match[0].lower()) for match in _WORD.finditer(text)]
    content = [len(word) > 1 and word not in _FUNCTION_WORDS for _, _, word in words]
    best = None
    for name in names:
        words_of_name = _WORD.findall(name.lower())
        starts = (i for i in range(len(words)) if content[i])
        for i, j in itertools.product(starts, range(len(words_of_name))):
            for k, (word, (_, end, other)) in enumerate(zip(words_of_name[j:], words[i:]), i):
                if word != other:
                    break
                if content[k] and (best is None or end - words[i][0] > best[1] - best[0]):
                    best = words[i][0], end
    return best
