"""Sentences of public corpora, labelled with the relation of two mentions, the subject first.

- FewRel (Han et al., 2018), `*.json`: `{relation: [{tokens, h: [name, id, [[index, ...], ...]], t},
  ...]}`; a head or tail is at the first of its mentions, and the text has spaces between tokens.
- JSON Lines, `*.jsonl`: `{text, sub_text, obj_text, rel, rel_label?}`; the text is searched for the
  two strings.
- T-REx (Elsahar et al., 2018), JSON Lines of `{text, entities: [{uri, boundaries}], triples:
  [{subject, predicate, object}]}`.
- DocRED and Re-DocRED, see `docred`: pairs without a labelled relation state none.
"""

import collections
import itertools
import os
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from opql_jax.core.errors import InputError
from opql_jax.corpus.json_lines import (
    check_object,
    map_records,
    object_field,
    object_list_field,
    read_json,
    read_json_lines,
    short_repr,
    string_field,
)
from opql_jax.corpus.sentences import sentence_starts
from opql_jax.corpus.spans import whole_words
from opql_jax.datasets import docred

MISSING = 'a mention is not in the text'
OVERLAPPING = 'the mentions overlap'
# The relation of a pair that states none.
NONE = ''
Occurrence = tuple[int, int]


class LabelledSentence(NamedTuple):
    """A sentence that states `relation` of `topic` and `target`, (start, end) in code points."""

    text: str
    topic: tuple[int, int]
    target: tuple[int, int]
    relation: str


def read_corpora(paths: Sequence[str], names: str) -> list[LabelledSentence]:
    """Reads files of any of these forms; InputError if one holds nothing.

    A relation is called by its name in lower case, by that of its id in the file `names` if any.
    """
    known = docred.read_relations(names)
    found: list[LabelledSentence] = []
    for path in paths:
        if _is_docred(path):
            found += _from_docred(path, known)
        elif _is_trex(path):
            found += _from_trex(path, known)
        else:
            sentences, _, labels = _labelled(path)
            found += [s._replace(relation=name_of(s.relation, labels | known)) for s in sentences]
    return found


def name_of(relation: str, known: Mapping[str, str]) -> str:
    """The uniform name of a relation: that of its id in `known`, or else the corpus's own."""
    return known.get(relation, relation).replace('_', ' ').strip().casefold()


def read_labelled(path) -> tuple[list[LabelledSentence], dict[str, int]]:
    """The sentences of FewRel or JSON Lines, and the numbers of those that are skipped, by reason.

    InputError names relation and item, or line; also if no sentence is usable.
    """
    sentences, skipped, _ = _labelled(path)
    return sentences, skipped


def _labelled(path) -> tuple[list[LabelledSentence], dict[str, int], dict[str, str]]:
    """`read_labelled`, and the names that the file gives to relations."""
    path = pathlib.Path(path)
    if path.suffix == '.jsonl':
        records = (record for _, record in map_records(path, read_json_lines(path), _from_line))
    else:
        records = _fewrel(path)
    sentences, skipped, labels = [], collections.Counter(), {}
    for text, topics, targets, relation, label in records:
        labels |= {relation: label} if label else {}
        if pair := nearest(topics, targets):
            sentences.append(LabelledSentence(text, *pair, relation))
        else:
            skipped[OVERLAPPING if topics and targets else MISSING] += 1
    if not sentences:
        raise InputError(f'{path}: no sentence with two mentions ({dict(skipped) or "empty"})')
    return sentences, dict(skipped), labels


def nearest(
    topics: Iterable[Occurrence], targets: Iterable[Occurrence]
) -> tuple[Occurrence, Occurrence] | None:
    """The nearest two occurrences of two names that do not overlap; None if there are none."""
    apart = [
        (max(a[0], b[0]) - min(a[1], b[1]), a, b)
        for a, b in itertools.product(topics, targets)
        if a[1] <= b[0] or b[1] <= a[0]
    ]
    return min(apart)[1:] if apart else None


def _from_line(record: dict) -> tuple:
    check_object(record, 'sub_text', 'obj_text')
    text, relation = string_field(record, 'text'), string_field(record, 'rel')
    topic, target = string_field(record, 'sub_text', ''), string_field(record, 'obj_text', '')
    label = string_field(record, 'rel_label', '')
    return text, _occurrences(topic, text), _occurrences(target, text), relation, label


def _occurrences(name: str, text: str) -> list[tuple[int, int]]:
    return [found.span() for found in re.finditer(whole_words(name), text)] if name.strip() else []


def _fewrel(path) -> Iterator[tuple]:
    try:
        relations = read_json(path)
    except InputError as error:
        raise InputError(f'{error}; files of JSON Lines are called *.jsonl') from error
    if not isinstance(relations, dict):
        raise InputError(f'{path}: expected a JSON object {{relation: [sentence, ...]}}')
    for relation, items in relations.items():
        if not isinstance(items, list):
            raise InputError(f'{path}: relation {relation!r}: expected a list of sentences')
        for number, item in enumerate(items, 1):
            try:
                tokens = item['tokens']
                if not tokens or not all(isinstance(token, str) for token in tokens):
                    raise TypeError('tokens is a list of strings')
                ends = list(itertools.accumulate(len(token) + 1 for token in tokens))
                topic, target = (_span(item[side], tokens, ends) for side in ('h', 't'))
            except (KeyError, TypeError, IndexError, ValueError) as error:
                raise InputError(
                    f'{path}: relation {relation!r}, sentence {number}: '
                    f'expected {{tokens, h, t}} with h and t as [name, id, '
                    f'[[index, ...], ...]] ({type(error).__name__}: {error})'
                ) from error
            yield ' '.join(tokens), [topic], [target], relation, ''


def _span(mention, tokens, ends) -> tuple[int, int]:
    """The characters of a FewRel head or tail, by the first of its index lists."""
    indices = mention[2][0]
    first, last = min(indices), max(indices)
    if not 0 <= first <= last < len(tokens):
        raise IndexError(f'index {last if first >= 0 else first} of {len(tokens)} tokens')
    return ends[first] - len(tokens[first]) - 1, ends[last] - 1


def _is_docred(path) -> bool:
    if pathlib.Path(path).suffix != '.json' or not os.path.isfile(path):
        return False
    with open(path, 'rb') as file:
        return file.read(1) == b'['


def _is_trex(path) -> bool:
    records = read_json_lines(path) if pathlib.Path(path).suffix == '.jsonl' else iter(())
    return 'triples' in next(map_records(path, records, dict), (0, {}))[1]


def _from_trex(path, known: Mapping[str, str]) -> Iterator[LabelledSentence]:
    read = map_records(path, read_json_lines(path), _document_of_trex)
    for text, spans, triples in (document for _, document in read):
        starts = [0, *(start for start in sentence_starts(text, ()) if start), len(text)]
        for start, end in itertools.pairwise(starts):
            is_inside = lambda span: start <= span[0] < span[1] <= end
            moved = lambda span: (span[0] - start, span[1] - start)
            inside = lambda entity: map(moved, filter(is_inside, spans.get(entity, ())))
            for subject, relation, label, target in triples:
                if pair := nearest(inside(subject), inside(target)):
                    name = name_of(known.get(relation, label), known)
                    yield LabelledSentence(text[start:end], *pair, name)


def _document_of_trex(record: dict):
    """The text, each entity's spans, and triples (subject, relation id, its name, object)."""
    text, spans, triples = string_field(record, 'text'), collections.defaultdict(list), {}
    for prefix, entity in object_list_field(record, 'entities'):
        boundaries = entity.get('boundaries')
        if not (isinstance(boundaries, list) and list(map(type, boundaries)) == [int, int]):
            raise InputError(f'{prefix}boundaries: expected [start, end]: {short_repr(boundaries)}')
        # In T-REx some end past the text, and so are in no sentence, and some have a blank URI.
        spans[string_field(entity, 'uri', '', prefix)].append(tuple(boundaries))
    for prefix, triple in object_list_field(record, 'triples'):
        uris = []
        for side in ('subject', 'predicate', 'object'):
            value = object_field(triple, side, prefix)
            uris.append(string_field(value, 'uri', '', f'{prefix}{side}.'))
        subject, relation, target = uris
        name = string_field(triple['predicate'], 'surfaceform', relation, f'{prefix}predicate.')
        if subject and name and target:
            triples[subject, relation, name, target] = None
    return text, spans, list(triples)


def _from_docred(path, known: Mapping[str, str]) -> Iterator[LabelledSentence]:
    # Without one of its labels a pair would be taken to state nothing, so none may be unknown.
    for annotated in docred.read_documents(path, known):
        text, mentions = annotated.document.text, annotated.document.mentions or ()
        relations = collections.defaultdict(set)
        for head, relation, tail in annotated.facts:
            relations[head, tail].add(relation)
        start = 0
        for line in text.split('\n'):
            spans = collections.defaultdict(list)
            for mention in mentions:
                if start <= mention.start and mention.end <= start + len(line):
                    spans[mention.entity].append((mention.start - start, mention.end - start))
            for topic, target in itertools.permutations(spans, 2):
                if pair := nearest(spans[topic], spans[target]):
                    none = set() if relations[target, topic] else {NONE}
                    for relation in sorted(relations[topic, target] or none):
                        yield LabelledSentence(line, *pair, name_of(relation, known))
            start += len(line) + 1
