"""Another corpus than the one trained on: a memory of it alone."""

import collections
import itertools

import numpy as np
import pytest

from opql_jax.data.pair_selection import select_pair_rows
from opql_jax.data.prepare import prepare
from opql_jax.data.prepared import Prepared
from opql_jax.datasets.slot_filling import SlotFilling
from opql_jax.kb.update_memory import Selection, delete, inject
from opql_jax.memory.format import Memory

import tiny_docred
import tiny_training


@pytest.fixture(scope='module')
def world(tmp_path_factory):
    """Text, encoder and memory of some documents; text and memory of other people's."""
    root = tmp_path_factory.mktemp('other_corpus')
    write(root / 'prepared', tiny_docred.world(24), 'train', wordpieces=600, max_tokens=40)
    write(root / 'other', tiny_docred.world(9, first=50), 'dev', extends=str(root / 'prepared'))
    tiny_training.write_untrained(root / 'prepared', root / 'model', spread=8.0)
    tiny_training.write_memory(root / 'prepared', root / 'model', root / 'memory', pairs='all')
    other = root / 'other', root / 'model', root / 'memory_other'
    tiny_training.write_memory(*other, pairs='all', only_new=True)
    return root


def write(folder, documents, part, **options):
    """Prepares documents, all of them for one part."""
    file = tiny_docred.write(folder.with_name(f'{folder.name}_documents'), documents)
    relations = str(file.with_name('rel_info.json'))
    prepare(
        kb=str(folder.parent),
        text=folder.name,
        reader=SlotFilling(str(file), relations, part, float(part == 'dev')),
        **options,
    )


def contents(memory):
    """Topic, target, passage and relation of each entry, sorted."""
    where = [item['passage'] for item in memory.provenance(memory.ids)]
    relations = np.asarray(memory.relations()).round(4).tolist()
    return sorted(zip(memory.topic.tolist(), memory.target.tolist(), where, relations))


def test_a_memory_of_the_new_text_is_what_injecting_it_and_deleting_the_old_text_gives(world):
    memory, old = str(world / 'memory'), len(Prepared(world / 'prepared').passages)
    inject(str(world / 'other'), str(world / 'model'), memory)
    delete(str(world / 'other'), memory, Selection(passages=tuple(range(old))))
    one, other = Memory.open(world / 'memory_other'), Memory.open(memory)
    assert contents(one) == contents(other) and len(one) > 9 * 8
    new = len(Prepared(world / 'other').vocab) - len(Prepared(world / 'prepared').vocab)
    assert one.entity_rows.shape == (new, 8) and new > 9
    np.testing.assert_allclose(one.entity_rows, other.entity_rows, atol=1e-5)
    one.verify()


def test_pairs_of_the_new_text_are_counted_in_it_alone(world):
    prepared, old = Prepared(world / 'other'), len(Prepared(world / 'prepared').passages)
    seen = collections.defaultdict(set)
    for number, passage in enumerate(prepared.passages.to_pylist()):
        for a, b in itertools.permutations({m['entity'] for m in passage['mentions']}, 2):
            seen[a, b].add(number)
    often = {pair for pair, passages in seen.items() if len(passages) > 1}
    wanted = {pair for pair, passages in seen.items() if len([p for p in passages if p >= old]) > 1}
    rows = select_pair_rows(prepared, 'all', min_count=2, first_passage=old)
    topics, targets = (prepared.pairs[side][rows].tolist() for side in ('topic', 'target'))
    assert set(zip(topics, targets)) == wanted < often
    assert (prepared.pairs['passage'][rows] >= old).all()
