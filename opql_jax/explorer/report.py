"""A knowledge base as one page, with what was read of a text: `opql info KB --html FILE`.

The page has its style inside, no script, and loads nothing. Its figures are counted from the tables
of the version that answers.
"""

import collections
import importlib.metadata
import json
import os
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from opql_jax.core import files
from opql_jax.core.manifest import read_manifest
from opql_jax.corpus import tables
from opql_jax.corpus.documents import read_documents
from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.prepared import Prepared
from opql_jax.explorer.rendering import STATIC, make_templates
from opql_jax.kb.info import describe_version, rejected_files
from opql_jax.kb.paths import words_between
from opql_jax.kb.text.index_text import Parts
from opql_jax.memory.format import Memory
from opql_jax.models import released
from opql_jax.retrieval.index import IndexFolder
from opql_jax.retrieval.words import words_of

# Rows of a table, examples in one of its cells, and documents that were left out which are listed.
_ROWS, _EXAMPLES, _LISTED = 25, 3, 200


class Kind(NamedTuple):
    """A kind of entities: their number, mentions and facts, and the names mentioned most."""

    kind: str
    entities: int
    mentions: int
    facts: int
    examples: list[str]


class Relation(NamedTuple):
    """How often two entities were read together in some way, and an example."""

    relation: str
    times: int
    example: str


class Bar(NamedTuple):
    """A range of lengths, how many have one, and their share, 0 to 1, of the most frequent."""

    lengths: str
    times: int
    share: float


class Lengths(NamedTuple):
    """How long the things of a kind are: their number, and how often each range occurs."""

    what: str
    number: int
    least: int
    median: float
    mean: float
    greatest: int
    bars: list[Bar]


class Report(NamedTuple):
    """What the page shows.

    Attributes:
        info: what `opql info` tells.
        kinds: entities by kind, most entities first.
        often: entities that are mentioned most, with their kinds and mentions.
        wordings: facts by what stands between the two names in a sentence, unless that is function
            words only, most frequent first; of both directions one counts.
        kinds_of_pairs: facts by the kinds of their two entities.
        pairs: pairs of entities by how often they were read together.
        num_pairs: different pairs of entities, and of `mentioned_pairs`, those of mentions in one
            passage, how many became facts (`near_pairs`).
        lengths: of documents, passages, sentences and entities.
        reasons: why documents were left out, with their numbers; `rejected` are the first of them.
        dropped: names that too many documents mention to be linked, with the share of documents.
        unlinked: documents in which no name was recognised, and `lonely`, entities that no fact
            leads to or from.
        made: how it was made, by the names of settings.
    """

    info: dict[str, Any]
    kinds: list[Kind]
    often: list[tuple[str, str, int]]
    wordings: list[Relation]
    kinds_of_pairs: list[Relation]
    pairs: list[Relation]
    num_pairs: int
    mentioned_pairs: int
    near_pairs: int
    lengths: list[Lengths]
    reasons: list[tuple[str, int]]
    rejected: list[dict]
    dropped: list[tuple[str, float]]
    unlinked: int
    lonely: int
    made: dict[str, str]


def write_report(kb: str | os.PathLike, output: str | os.PathLike) -> None:
    """Writes the page of a knowledge base of plain text, whole or not at all.

    InputError: this is no knowledge base of plain text, or the file is a link.
    """
    files.refuse_link(output)
    style = (STATIC / 'style.css').read_text(encoding='utf-8')
    title, template = pathlib.Path(os.path.abspath(kb)).name, make_templates()
    shown = {'title': title, 'style': style, 'report': make_report(kb)}
    page = template.get_template('report.html').render(**shown)
    with files.atomic_path(output) as partial:
        partial.write_text(page, encoding='utf-8')


def make_report(kb: str | os.PathLike) -> Report:
    """Counts what the answering version has; InputError unless it is of plain text."""
    folder = KBFolder(kb)
    with folder.hold() as stated:
        parts = Parts.of(folder, stated)
        text, memory = Prepared(folder.part(parts.text)), Memory.open(folder.part(parts.memory))
        info, manifest = describe_version(folder, stated), text.manifest
        names = text.vocab.names
        kinds = IndexFolder(folder.part(parts.retrieval)).kinds or text.vocab.kinds
        mentions = np.bincount(_mentioned(text), minlength=len(names))
        facts = np.diff(memory.offsets)
        often = np.argsort(-mentions, kind='stable')
        most = often[:_ROWS].tolist()
        rejected = [
            json.loads(line)
            for file in rejected_files(folder, text)
            for line in file.read_bytes().splitlines()
        ]
        wordings, kinds_of_pairs, pairs, num_pairs = _relations(text, kinds, memory)
        return Report(
            info=info,
            kinds=_kinds(names, kinds, mentions, facts, often),
            often=[(names[row], kinds[row], int(mentions[row])) for row in most if mentions[row]],
            wordings=wordings,
            kinds_of_pairs=kinds_of_pairs,
            pairs=pairs,
            num_pairs=num_pairs,
            mentioned_pairs=manifest.counts.pair_rows // 2,
            near_pairs=memory.manifest.num_mentions // 2,
            lengths=_all_lengths(text, facts),
            reasons=collections.Counter(one['reason'] for one in rejected).most_common(_ROWS),
            rejected=rejected[:_LISTED],
            dropped=sorted(manifest.dropped_entities.items(), key=lambda item: -item[1]),
            unlinked=manifest.counts.documents_without_mentions,
            lonely=int((facts == 0).sum()),
            made=_made(folder, stated, text, memory),
        )


def _mentioned(text: Prepared) -> np.ndarray:
    """The entity of each mention."""
    return text.passages['mentions'].combine_chunks().flatten().field('entity').to_numpy()


def _kinds(names, kinds, mentions: np.ndarray, facts: np.ndarray, often: np.ndarray) -> list[Kind]:
    members: dict[str, list[int]] = collections.defaultdict(list)
    for row in often.tolist():
        members[kinds[row]].append(row)
    found = []
    for kind, rows in members.items():
        numbers = len(rows), int(mentions[rows].sum()), int(facts[rows].sum())
        found.append(Kind(kind, *numbers, [names[row] for row in rows[:_EXAMPLES]]))
    return sorted(found, key=lambda kind: -kind.entities)


def _relations(
    text: Prepared, kinds: Sequence[str], memory: Memory
) -> tuple[list[Relation], list[Relation], list[Relation], int]:
    """Wordings, kinds of pairs and pairs with their numbers, and the number of different pairs."""
    rows = np.arange(len(memory))
    # Each pair of mentions is there in both directions, of which the one in the order of the text
    # counts.
    columns = {name: column.tolist() for name, column in memory.mentions(rows).items()}
    entities = dict(zip(memory.ids.tolist(), zip(memory.topic.tolist(), memory.target.tolist())))
    texts, names = text.passages['text'].to_pylist(), text.vocab.names
    counters: tuple[collections.Counter, ...] = tuple(collections.Counter() for _ in range(3))
    examples: tuple[dict, ...] = ({}, {}, {})
    read = 'entry passage topic_start topic_end target_start topic_sentence_start'.split()
    values = zip(*(columns[name] for name in [*read, 'target_sentence_start']))
    for entry, passage, first, end, start, sentence, other in values:
        if first > start:
            continue
        topic, target = entities[entry]
        example = f'{names[topic]} → {names[target]}'
        words = words_between(texts[passage][end:start]) if sentence == other else ''
        ways = words, f'{kinds[topic]} → {kinds[target]}', tuple(sorted([topic, target]))
        for way, counter, of_way in zip(ways, counters, examples):
            counter[way] += 1
            of_way.setdefault(way, example)
    del counters[0]['']  # mentions that are far apart, or in two sentences
    says = lambda words: any(len(word) > 1 for word in words_of(words))
    common = [counter.most_common() for counter in counters]
    common[0] = [(words, times) for words, times in common[0] if says(words)]
    wordings, kinds_of_pairs, pairs = (
        [Relation(way, times, of_way[way]) for way, times in ways[:_ROWS]]
        for ways, of_way in zip(common, examples)
    )
    pairs = [pair._replace(relation='') for pair in pairs]
    return wordings, kinds_of_pairs, pairs, len(counters[2])


def _all_lengths(text: Prepared, facts: np.ndarray) -> list[Lengths]:
    documents = (document.text for document in read_documents(text.file(tables.DOCUMENTS_FILE)))
    passages = text.passages['text'].to_pylist()
    sentences = (
        passage[start:end]
        for passage, starts in zip(passages, text.passages['sentence_starts'].to_pylist())
        for start, end in zip(starts, [*starts[1:], len(passage)])
    )
    in_words = lambda texts: [len(one.split()) for one in texts]
    return [
        _lengths('Words of a document', in_words(documents)),
        _lengths('Words of a passage', in_words(passages)),
        _lengths('Words of a sentence', in_words(sentences)),
        _lengths('Facts that lead from an entity', facts.tolist()),
    ]


def _lengths(what: str, numbers: Sequence[int]) -> Lengths:
    values = np.array(numbers, np.int64)
    # 0, 1, 2 to 3, 4 to 7, and so on.
    counts = np.bincount([number.bit_length() for number in numbers])
    bars = []
    for bits, count in enumerate(counts.tolist()):
        first, last = (1 << bits) // 2, (1 << bits) - 1
        lengths = f'{first:,}' if last <= first else f'{first:,} to {last:,}'
        bars.append(Bar(lengths, count, count / counts.max()))
    used = np.flatnonzero(counts)
    bars = bars[used[0] :] if len(used) else []
    least, median, mean, most = values.min(), np.median(values), values.mean(), values.max()
    return Lengths(what, len(values), int(least), float(median), float(mean), int(most), bars)


def _made(folder: KBFolder, stated, text: Prepared, memory: Memory) -> dict[str, str]:
    """How the parts were made, as far as their manifests say."""
    encoder = read_manifest(folder.part(stated['model']), released.FORMAT)
    settings = text.manifest.settings
    fields, stored = encoder.encoder, memory.manifest
    formats: Iterable = (text.manifest, stored, encoder)
    return {
        'Encoder': (
            f'{fields.num_layers} layers of {fields.hidden_size}, relations of '
            f'{fields.relation_dim} numbers'
        ),
        'Parameters of the encoder': stored.hashes['encoder'],
        'Text': f'passages of at most {settings["max_tokens"]} tokens',
        'Memory': f'{len(memory):,} facts, relations as {stored.dtype}',
        'Learnt from questions': 'yes' if stated.get('question_map') else 'no',
        'Formats': ', '.join(f'{one.format} {one.version}' for one in formats),
        'This page': f'by opql_jax {importlib.metadata.version("opql-jax")}',
    }
