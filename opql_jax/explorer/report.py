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


# Times that two entities were read together in some way: the way, how often, and an example.
_Times = list[tuple[str, int, str]]


def write_report(kb: str | os.PathLike, output: str | os.PathLike) -> None:
    """Writes a knowledge base's page, whole or not at all; InputError: no plain text, or a link."""
    files.refuse_link(output)
    style = (STATIC / 'style.css').read_text(encoding='utf-8')
    title, template = pathlib.Path(os.path.abspath(kb)).name, make_templates()
    shown = {'title': title, 'style': style, 'report': make_report(kb)}
    page = template.get_template('report.html').render(**shown)
    with files.atomic_path(output) as partial:
        partial.write_text(page, encoding='utf-8')


def make_report(kb: str | os.PathLike) -> dict[str, Any]:
    """What `report.html` shows of the answering version; InputError unless it is of plain text."""
    folder = KBFolder(kb)
    with folder.hold() as stated:
        parts = Parts.of(folder, stated)
        text, memory = Prepared(folder.part(parts.text)), Memory.open(folder.part(parts.memory))
        info, manifest = describe_version(folder, stated), text.manifest
        names = text.vocab.names
        kinds = IndexFolder(folder.part(parts.retrieval)).kinds or text.vocab.kinds
        mentioned = text.passages['mentions'].combine_chunks().flatten().field('entity').to_numpy()
        mentions = np.bincount(mentioned, minlength=len(names))
        facts = np.diff(memory.offsets)
        often = np.argsort(-mentions, kind='stable')
        most = often[:_ROWS].tolist()
        lines = [file.read_bytes().splitlines() for file in rejected_files(folder, text)]
        rejected = [json.loads(line) for of_file in lines for line in of_file]
        return {
            'info': info,
            'kinds': _kinds(names, kinds, mentions, facts, often),
            'often': [(names[n], kinds[n], int(mentions[n])) for n in most if mentions[n]],
            **_relations(text, kinds, memory),
            # Pairs of mentions in one passage, and how many of these became facts.
            'mentioned_pairs': manifest.counts.pair_rows // 2,
            'near_pairs': memory.manifest.num_mentions // 2,
            'lengths': _all_lengths(text, facts),
            'reasons': collections.Counter(one['reason'] for one in rejected).most_common(_ROWS),
            'rejected': rejected[:_LISTED],
            'dropped': sorted(manifest.dropped_entities.items(), key=lambda item: -item[1]),
            'unlinked': manifest.counts.documents_without_mentions,
            'lonely': int((facts == 0).sum()),
            'made': _made(folder, stated, text, memory),
        }


def _kinds(names, kinds, mentions: np.ndarray, facts: np.ndarray, often: np.ndarray) -> list[tuple]:
    """Kinds by falling number of entities: that, their mentions and facts, and examples."""
    members: dict[str, list[int]] = collections.defaultdict(list)
    for row in often.tolist():
        members[kinds[row]].append(row)
    found = []
    for kind, rows in members.items():
        numbers = len(rows), int(mentions[rows].sum()), int(facts[rows].sum())
        found.append((kind, *numbers, [names[row] for row in rows[:_EXAMPLES]]))
    return sorted(found, key=lambda of_kind: -of_kind[1])


def _relations(text: Prepared, kinds: Sequence[str], memory: Memory) -> dict[str, _Times | int]:
    """Facts by what stands between names, their kinds, and by themselves, most frequent first."""
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
    names_of_ways = 'wordings', 'kinds_of_pairs', 'pairs'
    shown: dict[str, _Times | int] = {
        name: [(way, times, of_way[way]) for way, times in ways[:_ROWS]]
        for name, ways, of_way in zip(names_of_ways, common, examples)
    }
    return shown | {'num_pairs': len(counters[2])}


def _all_lengths(text: Prepared, facts: np.ndarray) -> list[dict[str, Any]]:
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


def _lengths(what: str, numbers: Sequence[int]) -> dict[str, Any]:
    """How long the things of a kind are, and how often each range occurs (1: the most frequent)."""
    values = np.array(numbers, np.int64)
    # 0, 1, 2 to 3, 4 to 7, and so on.
    counts = np.bincount([number.bit_length() for number in numbers])
    bars = []
    for bits, count in enumerate(counts.tolist()):
        first, last = (1 << bits) // 2, (1 << bits) - 1
        lengths = f'{first:,}' if last <= first else f'{first:,} to {last:,}'
        bars.append((lengths, count, count / counts.max()))
    used = np.flatnonzero(counts)
    return {
        'what': what,
        'number': len(values),
        'least': int(values.min()),
        'median': float(np.median(values)),
        'mean': float(values.mean()),
        'greatest': int(values.max()),
        'bars': bars[used[0] :] if len(used) else [],
    }


def _made(folder: KBFolder, stated, text: Prepared, memory: Memory) -> dict[str, str]:
    """How the parts were made, as far as their manifests say."""
    encoder = read_manifest(folder.part(stated['model']), released.FORMAT)
    settings = text.manifest.settings
    fields, stored = encoder.encoder, memory.manifest
    formats: Iterable = (text.manifest, stored, encoder)
    layers = f'{fields.num_layers} layers of {fields.hidden_size}'
    return {
        'Encoder': f'{layers}, relations of {fields.relation_dim} numbers',
        'Parameters of the encoder': stored.hashes['encoder'],
        'Text': f'passages of at most {settings["max_tokens"]} tokens',
        'Memory': f'{len(memory):,} facts, relations as {stored.dtype}',
        'Learnt from questions': 'yes' if stated.get('question_map') else 'no',
        'Formats': ', '.join(f'{one.format} {one.version}' for one in formats),
        'This page': f'by opql_jax {importlib.metadata.version("opql-jax")}',
    }
