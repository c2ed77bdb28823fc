"""Small memories of random entries, built without an encoder, and updates of them."""

import dataclasses
import hashlib

import numpy as np

from opql_jax.core.arrays import packed, unpacked
from opql_jax.corpus.entities import EntityVocab
from opql_jax.memory.build import BuildOptions, EntryTable, build
from opql_jax.memory.format import SPANS
from opql_jax.memory.relations import Halves
from opql_jax.memory.update import Injection, compact, delete, inject

ENTITIES, MOST, DIM = 6, 9, 3
VOCAB = EntityVocab.from_names([f'entity {i}' for i in range(MOST)])
HASHES = {'encoder': 'e' * 64, 'entity_table': 't' * 64, 'vocabulary': VOCAB.hash(ENTITIES)}


def make_table(num_rows=40, seed=0) -> EntryTable:
    """Random mention pairs in random order, with several rows per pair; topic 5 has none."""
    rng = np.random.default_rng(seed)
    columns = random_places(rng, num_rows)
    ends = {'topic': rng.integers(0, 5, num_rows), 'target': rng.integers(0, 3, num_rows)}
    return EntryTable(**columns | ends)


def random_places(rng, num_rows):
    """Columns of an EntryTable: numbers below 100, in order where they bound a span."""
    fields = dataclasses.fields(EntryTable)
    columns = {field.name: rng.integers(0, 100, num_rows) for field in fields}
    for span in SPANS:
        start, end = f'{span}_start', f'{span}_end'
        columns[start], columns[end] = np.sort([columns[start], columns[end]], axis=0)
    return columns


def table_of(topics, targets, passages=0, seed=0):
    columns = random_places(np.random.default_rng(seed), len(topics))
    columns |= {'topic': np.array(topics), 'target': np.array(targets)}
    return EntryTable(**columns | {'passage': np.broadcast_to(passages, len(topics))})


def relations_of(rows):
    """What stands for the encoder: a vector that depends on the row alone."""
    rows = np.asarray(rows)[:, None]
    return np.sin(rows * np.arange(1.0, DIM + 1)).astype(np.float32)


def make(directory, entries=None, encode=relations_of, embed=None, **options):
    small = dict(num_entities=ENTITIES, relation_dim=DIM, hashes=HASHES, shard_rows=7)
    options, entries = BuildOptions(**small | options), make_table() if entries is None else entries
    return build(directory, entries, encode, options, embed)


def digest_of_tree(directory):
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob('*'))
        if path.is_file()
    }


def halves_of(num_rows=40, num_mentions=30, seed=0, dim=4) -> Halves:
    """What stands for halves of mentions; of some mentions no row is."""
    rng = np.random.default_rng(seed)
    pairs = np.stack([rng.choice(num_mentions, 2, replace=False) for _ in range(num_rows)])
    places = np.arange(1.0, 2 * dim + 1).reshape(2, dim)
    angle = lambda mentions: seed + np.asarray(mentions)[:, None, None] * places
    return Halves(pairs, lambda mentions: packed(np.sin(angle(mentions))))


def sums_of(halves: Halves, rows) -> np.ndarray:
    """The relations of rows of a table [n, d] float64, one by one."""
    relations = []
    for topic, target in halves.mentions[rows].tolist():
        ends = unpacked(halves.of(np.array(sorted([topic, target])))).astype(np.float64)
        relation = (ends[0, 0] + ends[1, 1]) / np.linalg.norm(ends[0, 0] + ends[1, 1])
        relations.append(np.roll(relation, len(relation) // 2) if topic > target else relation)
    return np.array(relations)


def encoder(seed):
    return lambda rows: relations_of(np.asarray(rows) + 1000 * seed)


def embed(entities):
    return np.stack([entities, np.asarray(entities) ** 2], axis=1).astype(np.float32)


def add(directory, table, seed=1, count=MOST, **options):
    return inject(directory, table, encoder(seed), injection(count, **options))


def vocab_of(count):
    return EntityVocab(*(column[:count] for column in (VOCAB.keys, VOCAB.names, VOCAB.aliases)))


def injection(count=MOST, **options):
    """What is injected besides entries: a vocabulary, and embeddings of what is new in it."""
    defaults = dict(vocab=vocab_of(count), encoder_hash=HASHES['encoder'], embed=embed)
    return Injection(**defaults | options)


def entries_of(memory):
    """{id: (topic, target, relation, provenance)} of a memory, through its public face."""
    found = {}
    relations = np.asarray(memory.relations(), np.float32)
    for row, entry in enumerate(memory.ids.tolist()):
        where = tuple(tuple(sorted(item.items())) for item in memory.provenance([entry]))
        ends = int(memory.topic[row]), int(memory.target[row])
        found[entry] = *ends, relations[row].tobytes(), where
    return found


UPDATES = {
    'inject': lambda directory: add(directory, make_table(12, seed=7), 7),
    'delete': lambda directory: delete(directory, entities=[1], entries=[7]),
    'compact': compact,
}
