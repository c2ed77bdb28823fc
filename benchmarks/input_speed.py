"""How many rows of input a core makes at the paper's shapes: `ms` of CPU time a batch of 512.

The text is generated: full pieces, with at least as many mentions as hyperlinks give Wikipedia.
"""

import argparse
import pathlib
import tempfile
import time
import types
from collections.abc import Iterator

import numpy as np
from timing import run

from opql_jax.data import passage_records
from opql_jax.data.markup import TokenisedPassage
from opql_jax.data.sources.cloze import ClozeSource, EntryIndex
from opql_jax.data.sources.entities import EntitySource
from opql_jax.data.sources.relations import RelationSettings, RelationSource
from opql_jax.data.tokenizer import SpecialIds

TOKENS, ROWS, VOCABULARY = 122, 512, 30_000


def made_text(folder: pathlib.Path, pieces: int, entities: int, rng) -> types.SimpleNamespace:
    """A prepared text as sources read it: full pieces with 2 to 20 mentions of skewed entities."""
    passages, pairs = [], []
    for number in range(pieces):
        count = int(np.clip(rng.poisson(8), 2, 20))
        starts = np.sort(rng.choice(TOKENS // 3, count, replace=False)).astype(np.int32) * 3
        found = (entities * rng.random(count) ** 3).astype(np.int32)
        passages.append(
            TokenisedPassage(
                rng.integers(10, VOCABULARY, TOKENS, dtype=np.int32),
                starts,
                starts + rng.integers(1, 4, count, dtype=np.int32),
                found,
            )
        )
        i, j = (axis.ravel() for axis in np.mgrid[:count, :count])
        kept = found[i] != found[j]
        pairs.append(np.stack([found[i], found[j], np.full(count * count, number), i, j])[:, kept])
    passage_records.write_passages(folder / 'text', map(passage_records.encode_passage, passages))
    table = np.concatenate(pairs, axis=1)
    table = table[:, np.lexsort((table[1], table[0]))].astype(np.int32)
    columns = dict(zip(('topic', 'target', 'passage', 'topic_mention', 'target_mention'), table))
    special = SpecialIds(pad=0, unk=1, cls=2, sep=3, ent=5, r1=6, r2=7)
    return types.SimpleNamespace(
        records=passage_records.PassageRecords(folder / 'text'), special=special, pairs=columns
    )


def made_entries(columns, rng) -> EntryIndex:
    """A memory of half of the pairs, each read in up to five pieces."""
    key = columns['topic'].astype(np.int64) << 32 | columns['target']
    _, first = np.unique(key, return_index=True)
    first = first[rng.random(len(first)) < 0.5]
    passages = rng.choice(columns['passage'], (len(first), 5))
    passages[:, 0] = columns['passage'][first]
    return EntryIndex(columns['topic'][first], columns['target'][first], passages)


def measure(options: argparse.Namespace) -> Iterator[dict]:
    """A line for each objective."""
    rng, buckets = np.random.default_rng(0), ((128, ROWS),)
    with tempfile.TemporaryDirectory() as folder:
        text = made_text(pathlib.Path(folder), options.pieces, options.entities, rng)
        settings = RelationSettings('groups', 'mentions', ROWS, buckets=buckets, max_context=16)
        entries = made_entries(text.pairs, rng)
        sources = {
            'entities': EntitySource(text, ROWS, buckets=buckets),
            'relations': RelationSource(text, settings),
            'lm_cloze': ClozeSource(
                text, entries=entries, rows=ROWS, topics=16, buckets=((144, ROWS),)
            ),
        }
        for name, source in sources.items():
            source[0]
            started = time.process_time()
            for step in range(options.batches):
                source[step]
            seconds = (time.process_time() - started) / options.batches
            speed = round(ROWS / seconds)
            yield {'objective': name, 'ms': round(1000 * seconds, 1), 'rows_per_second': speed}


if __name__ == '__main__':
    run(__doc__, measure, pieces=20_000, entities=20_000, batches=10)
