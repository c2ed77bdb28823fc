"""Another corpus than the one trained on: a memory of it, followed without training."""

import collections
import itertools
import shutil

import numpy as np
import pytest

from opql_jax.data.pair_selection import select_pair_rows
from opql_jax.data.prepare import prepare
from opql_jax.data.prepared import Prepared
from opql_jax.datasets.slot_filling import SlotFilling
from opql_jax.kb.open_kb import open_kb
from opql_jax.kb.update_memory import Selection, delete, inject
from opql_jax.memory.format import Memory
from opql_jax.training import objectives

import tiny_docred
import tiny_training

FOLLOWER = dict(text='other', model='follower')


@pytest.fixture(scope='module')
def world(tmp_path_factory):
    """Text, encoder, memory and follower of some documents; text and memory of other people's."""
    root = tmp_path_factory.mktemp('other_corpus')
    write(root / 'prepared', tiny_docred.world(24), 'train', wordpieces=600, max_tokens=40)
    write(root / 'other', tiny_docred.world(9, first=50), 'dev', extends=str(root / 'prepared'))
    tiny_training.write_untrained(root / 'prepared', root / 'model', spread=8.0)
    tiny_training.write_memory(root / 'prepared', root / 'model', root / 'memory', pairs='all')
    follow = objectives.Follow(memory_dir=str(root / 'memory'))
    tiny_training.write_untrained(root / 'prepared', root / 'follower', follow, spread=8.0)
    build(root)
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


def build(root, prepared='other', model='model', memory='memory_other', **options):
    return tiny_training.write_memory(
        root / prepared, root / model, root / memory, **dict(pairs='all', only_new=True) | options
    )


def contents(memory):
    """Topic, target, passage and relation of each entry, sorted."""
    where = [item['passage'] for item in memory.provenance(memory.ids)]
    relations = np.asarray(memory.relations()).round(4).tolist()
    return sorted(zip(memory.topic.tolist(), memory.target.tolist(), where, relations))


@pytest.fixture(scope='module')
def replaced(world):
    """What comes to the same: the new text injected into the memory, the old one deleted."""
    memory = shutil.copytree(world / 'memory', world / 'replaced')
    inject(str(world / 'other'), str(world / 'model'), str(memory))
    old = len(Prepared(world / 'prepared').passages)
    delete(str(world / 'other'), str(memory), Selection(passages=tuple(range(old))))
    return memory


def test_a_memory_of_the_new_text_is_what_injecting_it_and_deleting_the_old_text_gives(
    world, replaced
):
    one, other = Memory.open(world / 'memory_other'), Memory.open(replaced)
    assert contents(one) == contents(other) and len(one) > 9 * 8
    new = len(Prepared(world / 'other').vocab) - len(Prepared(world / 'prepared').vocab)
    assert one.entity_rows.shape == (new, 8) and new > 9
    np.testing.assert_allclose(one.entity_rows, other.entity_rows, atol=1e-5)
    one.verify()


@pytest.mark.usefixtures('replaced')
def test_the_model_answers_from_the_new_text_alone(world):
    kb, same = (
        open_kb(world, **FOLLOWER, memory=memory) for memory in ('memory_other', 'replaced')
    )
    questions = kb.prepared.questions('2-hop/dev')[:16]
    old = len(Prepared(world / 'prepared').passages)
    for found, wanted in zip(kb.answer(questions), same.answer(questions), strict=True):
        for hop, hop_wanted in zip(found.hops, wanted.hops, strict=True):
            assert sorted(hop.entities.tolist()) == sorted(hop_wanted.entities.tolist())
            np.testing.assert_allclose(np.sort(hop.weights), np.sort(hop_wanted.weights), atol=1e-3)
            assert all(item['passage'] >= old for item in kb.memory.provenance(hop.entries))


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
