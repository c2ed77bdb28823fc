"""Sentences of public corpora that state relations, whose names are made uniform.

- JSON Lines of `{text, sub_text, obj_text, rel}`, and FewRel: see `labelled_sentences`. A line may
  have `rel_label`, a name of its relation.
- T-REx (Elsahar et al., 2018), JSON Lines of `{text, entities: [{uri, boundaries}], triples:
  [{subject, predicate, object}]}`.
- DocRED and Re-DocRED: see `docred`. As all relations among the entities of a document are labelled
  there, pairs without one state none.

What a relation is called is its name in lower case, by its id such as 'P57' in a file of names
where the corpora give ids.
"""

import collections
import itertools
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence

from opql_jax.core.errors import InputError
from opql_jax.corpus.json_lines import (
    map_records,
    object_field,
    object_list_field,
    read_json_lines,
    short_repr,
    string_field,
)
from opql_jax.corpus.sentences import sentence_starts
from opql_jax.datasets import docred
from opql_jax.datasets.labelled_sentences import LabelledSentence, nearest, read_labelled

# The relation of a pair that states none.
NONE = ''


def read(paths: Sequence[str], names: str) -> list[LabelledSentence]:
    """Reads corpora; `names` maps relation ids to names. InputError if a file holds nothing."""
    known = docred.read_relations(names)
    found: list[LabelledSentence] = []
    for path in paths:
        if _is_docred(path):
            found += _from_docred(path, known)
        elif 'triples' in next(_records(path, dict), {}):
            found += _from_trex(path, known)
        else:
            sentences = read_labelled(path)[0]
            labels = {relation: label for relation, label in _records(path, _label) if label}
            labels |= known
            found += [s._replace(relation=name_of(s.relation, labels)) for s in sentences]
    return found


def name_of(relation: str, known: Mapping[str, str]) -> str:
    """The uniform name of a relation: that of its id in `known`, or else the corpus's own."""
    return known.get(relation, relation).replace('_', ' ').strip().casefold()


def _records(path, convert: Callable) -> Iterator:
    """The converted records of a file of JSON Lines; none of another file."""
    if pathlib.Path(path).suffix == '.jsonl':
        yield from (record for _, record in map_records(path, read_json_lines(path), convert))


def _label(record: dict) -> tuple[str, str]:
    """A line's relation, and the name that it gives to this."""
    return string_field(record, 'rel'), string_field(record, 'rel_label', '')


def _is_docred(path) -> bool:
    if pathlib.Path(path).suffix != '.json' or not os.path.isfile(path):
        return False
    with open(path, 'rb') as file:
        return file.read(1) == b'['


def _from_trex(path, known: Mapping[str, str]) -> Iterator[LabelledSentence]:
    for text, spans, triples in _records(path, _document_of_trex):
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
