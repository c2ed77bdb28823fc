"""Relations as sums of halves of mentions are those that would be stored a row a pair."""

import numpy as np
import pytest

from opql_jax.core.arrays import packed, unpacked
from opql_jax.core.errors import InputError
from opql_jax.memory.format import Memory
from opql_jax.memory.relations import Halves, sums
from opql_jax.memory.update import compact, delete, inject

import tiny_memories as tiny

DIM = 4
HALVES, MORE = tiny.halves_of(), tiny.halves_of(12, 9, seed=1)
# Two halves, each rounded to 1/254 of its largest number, over the length of their sum.
ROUNDING = 2e-2


def build(directory, halves=HALVES, **options):
    return tiny.make(directory, encode=halves, relation_dim=DIM, **options)


def rows_of(memory, table):
    rows = zip(table.passage, table.topic_start, table.target_start, table.topic)
    place = {tuple(row): i for i, row in enumerate(rows)}
    found = memory.mentions(np.arange(len(memory)))
    columns = (found[name] for name in ('passage', 'topic_start', 'target_start'))
    return [place[tuple(row)] for row in zip(*columns, memory.topic.tolist())]


def test_sums_are_those_of_a_loop_in_float64():
    rng = np.random.default_rng(0)
    for dim, mentions, count in ((2, 2, 1), (5, 50, 700), (64, 300, 2000)):
        halves = packed(rng.normal(size=(2 * mentions, dim)))
        pairs = np.stack([rng.choice(mentions, 2, replace=False) for _ in range(count)])
        found = sums(pairs, lambda rows, halves=halves: halves[rows])
        of = lambda numbers, halves=halves: halves.reshape(-1, 2, dim + 4)[numbers]
        expected = tiny.sums_of(Halves(pairs, of), np.arange(count))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        assert found.dtype == np.float32
    none = sums(np.zeros((0, 2), np.int32), lambda rows: packed(np.zeros((len(rows), 6))))
    assert none.shape == (0, 6)


def test_halves_that_cancel_give_zeros():
    halves = packed(np.array([[1, 2], [0, 0], [0, 0], [-1, -2]]))
    found = sums(np.array([[0, 1], [1, 0]]), lambda rows: halves[rows])
    np.testing.assert_array_equal(found, np.zeros((2, 2)))


def test_relations_are_the_rows_that_would_be_stored(tmp_path):
    memory, table = build(tmp_path / 'halves'), tiny.make_table()
    rows = rows_of(memory, table)
    exact = tiny.sums_of(HALVES, rows)
    np.testing.assert_allclose(memory.relations(), exact, atol=ROUNDING)
    of_rows = lambda rows: tiny.sums_of(HALVES, rows)
    stored = tiny.make(tmp_path / 'rows', encode=of_rows, relation_dim=DIM)
    np.testing.assert_allclose(memory.relations(), stored.relations(), atol=ROUNDING)
    for name in ('topic', 'target', 'ids', 'offsets'):
        np.testing.assert_array_equal(getattr(memory, name), getattr(stored, name))
    assert memory.provenance(memory.ids) == stored.provenance(stored.ids)
    some = [39, 0, 7, 6, 7]
    np.testing.assert_array_equal(memory.relations(some), memory.relations()[some])
    assert memory.relations([]).shape == (0, DIM)
    memory.verify()


def test_a_mention_is_stored_once_and_only_if_an_entry_is_of_it(tmp_path):
    memory = build(tmp_path)
    used = np.unique(HALVES.mentions)
    assert len(used) < 30 and memory.manifest.segments[0].num_mentions == len(used)
    stored = np.concatenate(memory.relation_shards).reshape(-1, 2, DIM + 4)
    np.testing.assert_array_equal(stored, HALVES.of(used))


@pytest.fixture
def updated(tmp_path):
    """A memory of two segments with deleted entries, and the relations of the others by id."""
    build(tmp_path)
    first, second = tiny.make_table(), tiny.make_table(12, seed=1)
    known = dict(zip(range(40), tiny.sums_of(HALVES, rows_of(Memory.open(tmp_path), first))))
    inject(tmp_path, second, MORE, tiny.injection(7)).close()
    columns = 'target_start topic_start passage target topic'.split()
    order = np.lexsort([getattr(second, name) for name in columns])
    known |= dict(zip(range(40, 52), tiny.sums_of(MORE, order)))
    gone = delete(tmp_path, entities=[1], entries=[7, 45]).entries
    return tmp_path, {entry: known[entry] for entry in known if entry not in gone.tolist()}


def check(memory, known):
    assert set(memory.ids.tolist()) == set(known)
    expected = [known[entry] for entry in memory.ids.tolist()]
    np.testing.assert_allclose(memory.relations(), expected, atol=ROUNDING)
    memory.verify()


def test_updates_keep_the_relations_and_merging_forgets_the_mentions_of_what_was_deleted(updated):
    directory, known = updated
    check(Memory.open(directory), known)
    before = sum(segment.num_mentions for segment in Memory.open(directory).manifest.segments)
    provenance = {entry: Memory.open(directory).provenance([entry]) for entry in known}
    compact(directory).close()
    memory = Memory.open(directory)
    check(memory, known)
    assert len(memory.manifest.segments) == 1 and memory.manifest.segments[0].num_mentions < before
    assert {entry: memory.provenance([entry]) for entry in known} == provenance
    delete(directory, entries=list(known))
    assert compact(directory).relations().shape == (0, DIM)


def test_what_is_injected_has_the_form_of_the_memory(tmp_path):
    build(tmp_path / 'halves')
    tiny.make(tmp_path / 'rows')
    for name, encode in (('halves', tiny.relations_of), ('rows', MORE)):
        before = tiny.digest_of_tree(tmp_path / name)
        with pytest.raises(InputError, match=f'stores relations as {name}'):
            inject(tmp_path / name, tiny.make_table(12, seed=1), encode, tiny.injection(7))
        assert tiny.digest_of_tree(tmp_path / name) == before


@pytest.mark.parametrize(
    ('of', 'options', 'message'),
    [
        (HALVES.of, {'mentions': 'average'}, 'no sum of halves'),
        (lambda m: np.zeros((len(m), DIM)), {}, r'shape \(7, 4\) for 7 mentions of relation_dim 4'),
        (lambda m: packed(unpacked(HALVES.of(m)) * np.where(m == 2, np.nan, 1)[:, None, None]), {},
            'half relation of mention 2 is not finite'),
    ],
)  # fmt: skip
def test_bad_halves_are_named(tmp_path, of, options, message):
    with pytest.raises(InputError, match=message):
        build(tmp_path, Halves(HALVES.mentions, of), **options)
