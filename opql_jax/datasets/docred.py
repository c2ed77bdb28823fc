"""Documents in the form of DocRED (Yao et al., 2019) and Re-DocRED.

A JSON list of `{title, sents: [[token]], vertexSet: [[{sent_id, pos: [first, end], type}]], labels:
[{h, t, r}]?}`: sentences, the mentions of each entity (`pos` counts tokens of a sentence), and
relations between entities, by their indices in `vertexSet`.
"""

import collections
import dataclasses
import json
import os
from collections.abc import Mapping, Sequence

from opql_jax.core.errors import InputError
from opql_jax.corpus.documents import Document, Mention, validate
from opql_jax.corpus.json_lines import read_json
from opql_jax.corpus.rejected import check_rejected

Fact = tuple[str, str, str]  # head, relation, tail: entity keys and an id such as 'P27'

# Tokens without a space before them, after them, and on both sides.
_CLOSING = frozenset(
    [*',.;:!?%)]}”', "'", "'s", '’s', "n't", 'n’t', "'re", "'ve", "'ll", "'d", '...']
)
_OPENING = frozenset('([{“‘$£€#')
_JOINING = frozenset('-/')


@dataclasses.dataclass(frozen=True)
class AnnotatedDocument:
    """A document with its entities and facts; the two entities of a fact differ."""

    document: Document  # the text, a line for each sentence, with its mentions
    # By entity key, the name of the entity and the number of its mentions under each spelling.
    names: dict[str, tuple[str, collections.Counter[str]]]
    facts: list[Fact]  # labels whose entities are mentioned in one sentence, each once
    apart: list[Fact]  # the other labels


def read_relations(path: str | os.PathLike) -> dict[str, str]:
    """Names of relations by id, a JSON object such as `{"P27": "country of citizenship"}`."""
    relations = read_json(path)
    good = isinstance(relations, dict) and all(
        isinstance(name, str) and name.strip() for name in relations.values()
    )
    if not (good and relations):
        raise InputError(f'{path}: expected a JSON object with a name for each relation id')
    return relations


def read_documents(
    path: str | os.PathLike,
    relations: Mapping[str, str],
    *,
    rejected_path: str | os.PathLike | None = None,
    max_reject_fraction: float = 0.01,
) -> list[AnnotatedDocument]:
    """Reads a file of documents; InputError: missing, empty, or more than a share of bad ones.

    These, and labels of other `relations` ({id: name}), are left out and written to `rejected_path`
    as `{document, reason, record}`, numbered from 1; None raises InputError for the first.
    """
    records = read_json(path)
    if not isinstance(records, list) or not records:
        raise InputError(f'{path}: expected a JSON list of documents, and at least one')
    read, reasons, rejected, seen = [], [], [], {}

    def reject(reason, record):
        if rejected_path is None:
            raise InputError(f'{path}: document {number}: {reason}')
        rejected.append({'document': number, 'reason': reason, 'record': record})

    for number, record in enumerate(records, 1):
        try:
            _check(record)
            if first := seen.get(record['title']):
                raise InputError(f'title: {record["title"]!r} is that of document {first}')
            labels = list(enumerate(record.get('labels') or ()))
            known = [label for _, label in labels if label['r'] in relations]
            annotated = _annotated(record, known)
        except InputError as error:
            reasons.append(f'document {number}: {error}')
            reject(str(error), record)
            continue
        for i, label in labels:
            if label['r'] not in relations:
                reject(f'labels[{i}].r: unknown relation {label["r"]!r}', label)
        read.append(annotated)
        seen[record['title']] = number
    if rejected_path is not None:
        os.makedirs(os.path.dirname(rejected_path) or '.', exist_ok=True)
        with open(rejected_path, 'w', encoding='utf-8') as file:
            file.writelines(json.dumps(row) + '\n' for row in rejected)
    check_rejected(path, reasons, 'documents', len(records), max_reject_fraction, rejected_path)
    return read


def _check(record) -> None:
    """Raises InputError, naming the field, unless a record has the form of a document."""

    def need(good, field, expected, found):
        if not good:
            raise InputError(f'{field}: expected {expected}, found {found!r}')

    whole = lambda value: type(value) is int
    below = lambda value, items: whole(value) and 0 <= value < len(items)
    need(isinstance(record, dict), 'record', 'a JSON object', record)
    title, sents, clusters, labels = map(record.get, ('title', 'sents', 'vertexSet', 'labels'))
    need(isinstance(title, str) and title.strip(), 'title', 'a string', title)
    need(isinstance(sents, list), 'sents', 'a list of sentences', sents)
    for i, sent in enumerate(sents):
        good = isinstance(sent, list) and all(isinstance(token, str) for token in sent)
        need(good, f'sents[{i}]', 'a list of tokens', sent)
    need(isinstance(clusters, list), 'vertexSet', 'a list of clusters', clusters)
    for i, cluster in enumerate(clusters):
        need(isinstance(cluster, list), f'vertexSet[{i}]', 'a list of mentions', cluster)
        for j, mention in enumerate(cluster):
            field = f'vertexSet[{i}][{j}]'
            need(isinstance(mention, dict), field, 'an object', mention)
            kind, sentence, pos = (mention.get(name) for name in ('type', 'sent_id', 'pos'))
            need(isinstance(kind, str) and kind, f'{field}.type', 'a string', kind)
            expected = f'one of {len(sents)} sentences'
            need(below(sentence, sents), f'{field}.sent_id', expected, sentence)
            size = len(sents[sentence])
            good = isinstance(pos, list) and len(pos) == 2 and all(map(whole, pos))
            good = good and 0 <= pos[0] < pos[1] <= size
            need(good, f'{field}.pos', f'[first, end] among {size} tokens', pos)
    need(isinstance(labels, list | None), 'labels', 'a list', labels)
    for i, label in enumerate(labels or ()):
        need(isinstance(label, dict), f'labels[{i}]', 'an object', label)
        for side in ('h', 't'):
            value = label.get(side)
            expected = f'one of {len(clusters)} clusters'
            need(below(value, clusters), f'labels[{i}].{side}', expected, value)
        need(isinstance(label.get('r'), str), f'labels[{i}].r', 'a relation id', label.get('r'))


def _annotated(record, labels) -> AnnotatedDocument:
    text, token_spans = join_tokens(record['sents'])
    spans = _disjoint(record['vertexSet'], token_spans)
    by_cluster = collections.defaultdict(list)
    for start, end, sentence, cluster in spans:
        by_cluster[cluster].append((text[start:end].replace('\n', ' '), sentence))
    keys, names = {}, {}
    for cluster, mentioned in sorted(by_cluster.items()):
        kinds = collections.Counter(mention['type'] for mention in record['vertexSet'][cluster])
        spellings = collections.Counter(_without_article(surface) for surface, _ in mentioned)
        name = max(spellings, key=lambda s: (len(s), spellings[s], s))
        kind = kinds.most_common(1)[0][0]
        # By which mentions are joined over documents, but people with one-word names ('Paul').
        other = f' ({record["title"]})' if kind == 'PER' and ' ' not in name else ''
        keys[cluster] = f'{kind}:{name}{other}'
        names.setdefault(keys[cluster], (name, collections.Counter()))[1].update(spellings)
    sentences = collections.defaultdict(set)
    for cluster, mentioned in by_cluster.items():
        sentences[keys[cluster]] |= {sentence for _, sentence in mentioned}
    facts, apart = {}, {}
    for label in labels:
        head, tail = keys.get(label['h']), keys.get(label['t'])
        if head is not None and tail is not None and head != tail:
            (facts if sentences[head] & sentences[tail] else apart)[head, label['r'], tail] = None
    mentions = tuple(Mention(start, end, keys[cluster]) for start, end, _, cluster in spans)
    document = Document(record['title'], record['title'], text, mentions)
    validate(document)
    return AnnotatedDocument(document, names, list(facts), list(apart))


def join_tokens(sentences: Sequence[Sequence[str]]) -> tuple[str, list[list[tuple[int, int]]]]:
    """The text, a line a sentence, and for each sentence the (start, end) of its tokens."""
    text, spans = '', []
    for sentence in sentences:
        spans.append([])
        start_of_line, glue, quoted = True, True, False
        for token in (' '.join(raw.split()) for raw in sentence):
            if token:
                if start_of_line and text:
                    text += '\n'
                opens = token == '"' and not quoted
                closes = token == '"' and quoted
                if not (start_of_line or glue or closes or token in _CLOSING or token in _JOINING):
                    text += ' '
                glue = opens or token in _OPENING or token in _JOINING
                quoted ^= token == '"'
                start_of_line = False
            spans[-1].append((len(text), len(text) + len(token)))
            text += token
    return text, spans


def _disjoint(clusters, token_spans) -> list[tuple[int, int, int, int]]:
    """Mentions `(start, end, sentence, cluster)` by start; of overlapping ones the longest."""
    found = set()
    for cluster, mentions in enumerate(clusters):
        for mention in mentions:
            sentence, spans = mention['sent_id'], token_spans[mention['sent_id']]
            if tokens := [s for s in spans[slice(*mention['pos'])] if s[0] < s[1]]:
                found.add((tokens[0][0], tokens[-1][1], sentence, cluster))
    disjoint, taken = [], set()
    for span in sorted(found, key=lambda s: (s[0] - s[1], s[0], s[3])):
        if taken.isdisjoint(range(*span[:2])):
            taken.update(range(*span[:2]))
            disjoint.append(span)
    return sorted(disjoint)


def _without_article(name: str) -> str:
    return name[4:] if name[:4].lower() == 'the ' and len(name) > 4 else name
