"""A knowledge base as one page: `opql info KB --html FILE`.

For people who want to know what was read of their text.

The page holds its style, has no script and loads nothing. Its figures are counted from the tables
of the version that answers.
"""

import collections
import dataclasses
import importlib.metadata
import itertools
import json
import os
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

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


@dataclasses.dataclass(frozen=True)
class Kind:
    """The entities of a kind.

    How many, how often the text mentions them, how many facts lead from them, and those mentioned
    most.
    """

    kind: str
    entities: int
    mentions: int
    facts: int
    examples: list[str]


@dataclasses.dataclass(frozen=True)
class Relation:
    """How often two entities were read together in some way, and an example."""

    relation: str
    times: int
    example: str


@dataclasses.dataclass(frozen=True)
class Bar:
    """A range of lengths in words, how many have one, and their share of the most frequent.

    The share is 0 to 1.
    """

    lengths: str
    count: int
    share: float


@dataclasses.dataclass(frozen=True)
class Lengths:
    """How long the things of a kind are.

    Their number, least, median, mean and greatest length, and how often each range occurs.
    """

    what: str
    count: int
    least: int
    median: float
    mean: float
    greatest: int
    bars: list[Bar]


@dataclasses.dataclass(frozen=True)
class Rejected:
    """A document that was left out: its file, its line there or None, and why."""

    file: str
    line: int | None
    reason: str


@dataclasses.dataclass(frozen=True)
class Report:
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
    rejected: list[Rejected]
    dropped: list[tuple[str, float]]
    unlinked: int
    lonely: int
    made: dict[str, str]


def write_report(kb: str | os.PathLike, output: str | os.PathLike) -> None:
    """Writes the page of a knowledge base of plain text; the file appears whole or not at all.

    Raises:
        InputError: this is no knowledge base of plain text, or a link is in the place of the file.
    """
    files.refuse_link(output)
    style = (STATIC / 'style.css').read_text(encoding='utf-8')
    page = (
        make_templates()
        .get_template('report.html')
        .render(title=pathlib.Path(os.path.abspath(kb)).name, style=style, report=make_report(kb))
    )
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
        rejected = [
            _rejected(line)
            for file in rejected_files(folder, text)
            for line in file.read_bytes().splitlines()
        ]
        wordings, kinds_of_pairs, pairs, num_pairs = _relations(text, kinds, memory)
        return Report(
            info=info,
            kinds=_kinds(names, kinds, mentions, facts, often),
            often=[
                (names[row], kinds[row], int(mentions[row]))
                for row in often[:_ROWS].tolist()
                if mentions[row]
            ],
            wordings=wordings,
            kinds_of_pairs=kinds_of_pairs,
            pairs=pairs,
            num_pairs=num_pairs,
            mentioned_pairs=manifest.counts.pair_rows // 2,
            near_pairs=memory.manifest.num_mentions // 2,
            lengths=_all_lengths(text, facts),
            reasons=collections.Counter(one.reason for one in rejected).most_common(_ROWS),
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
    found = [
        Kind(
            kind,
            len(rows),
            int(mentions[rows].sum()),
            int(facts[rows].sum()),
            [names[row] for row in rows[:_EXAMPLES]],
        )
        for kind, rows in members.items()
    ]
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
    for entry, passage, first, end, start, sentence, other in zip(
        *(
            columns[name]
            for name in (
                'entry',
                'passage',
                'topic_start',
                'topic_end',
                'target_start',
                'topic_sentence_start',
                'target_sentence_start',
            )
        )
    ):
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
    told = (
        (words, times)
        for words, times in counters[0].most_common()
        if any(len(word) > 1 for word in words_of(words))
    )
    wordings = [
        Relation(words, times, examples[0][words]) for words, times in itertools.islice(told, _ROWS)
    ]
    kinds_of_pairs = [
        Relation(way, times, examples[1][way]) for way, times in counters[1].most_common(_ROWS)
    ]
    pairs = [Relation('', times, examples[2][way]) for way, times in counters[2].most_common(_ROWS)]
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
        bars.append(
            Bar(
                f'{first:,}' if last <= first else f'{first:,} to {last:,}',
                count,
                count / counts.max(),
            )
        )
    used = np.flatnonzero(counts)
    bars = bars[used[0] :] if len(used) else []
    return Lengths(
        what,
        len(values),
        int(values.min()),
        float(np.median(values)),
        float(values.mean()),
        int(values.max()),
        bars,
    )


def _rejected(line: bytes) -> Rejected:
    record = json.loads(line)
    return Rejected(record['file'], record.get('line'), record['reason'])


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
