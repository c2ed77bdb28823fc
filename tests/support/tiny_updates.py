"""A memory of forty entries, and updates of it, for tests."""

import numpy as np

from opql_jax.corpus.entities import EntityVocab
from opql_jax.memory.build import BuildOptions, EntryTable, build
from opql_jax.memory.update import Injection, compact, delete, inject

from memory_tables import DIM, HASHES, make_table, random_places, relations_of

ENTITIES, MOST = 6, 9
VOCAB = EntityVocab.from_names([f'entity {i}' for i in range(MOST)])


def vocab_of(count):
    return EntityVocab(*(column[:count] for column in (VOCAB.keys, VOCAB.names, VOCAB.aliases)))


def make(directory, table=None, **options):
    """A memory of 40 entries over six entities, in shards of 7."""
    options = dict(num_entities=ENTITIES, relation_dim=DIM, shard_rows=7) | options
    hashes = HASHES | {'vocabulary': VOCAB.hash(options['num_entities'])}
    return build(
        directory,
        make_table() if table is None else table,
        relations_of,
        BuildOptions(hashes=hashes, **options),
    )


def table_of(topics, targets, passages, seed=0):
    """Mention pairs at random places."""
    rng = np.random.default_rng(seed)
    columns = random_places(rng, len(topics))
    return EntryTable(
        **columns
        | {'topic': np.array(topics), 'target': np.array(targets), 'passage': np.array(passages)}
    )


def encoder(seed):
    """What stands for the encoder: depends on the row and on which text it is of."""
    return lambda rows: relations_of(np.asarray(rows) + 1000 * seed)


def embed(entities):
    """What stands for the embedding of new entities."""
    return np.stack([entities, np.asarray(entities) ** 2], axis=1).astype(np.float32)


def add(directory, table, seed=1, count=MOST, **options):
    return inject(directory, table, encoder(seed), injection(count, **options))


def injection(count=MOST, **options):
    """What is injected besides entries: a vocabulary of so many entities, with embeddings of the
    new ones.
    """
    return Injection(
        **dict(vocab=vocab_of(count), encoder_hash=HASHES['encoder'], embed=embed) | options
    )


def entries_of(memory):
    """{id: (topic, target, relation, provenance)} of a memory, through its public face."""
    found = {}
    relations = np.asarray(memory.relations(), np.float32)
    for row, entry in enumerate(memory.ids.tolist()):
        where = tuple(tuple(sorted(item.items())) for item in memory.provenance([entry]))
        found[entry] = (
            int(memory.topic[row]),
            int(memory.target[row]),
            relations[row].tobytes(),
            where,
        )
    return found


UPDATES = {
    'inject': lambda directory: add(directory, make_table(12, seed=7), 7),
    'delete': lambda directory: delete(directory, entities=[1], entries=[7]),
    'compact': compact,
}
