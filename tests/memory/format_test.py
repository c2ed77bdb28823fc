"""Opening a memory: what it holds, and everything that can be wrong with its files."""

import jax.numpy as jnp
import numpy as np
import pyarrow.parquet as pq
import pytest
from damage import changed, put, sign, stating

from opql_jax.core.hashing import params_hash
from opql_jax.core.manifest import ManifestError
from opql_jax.memory.format import Memory
from opql_jax.memory.update import compact, delete

from tiny_memories import make


@pytest.fixture
def directory(tmp_path):
    make(tmp_path)
    return tmp_path


def reverse_provenance(directory):
    files = [directory / f'segment-00000/provenance-0000{number}.parquet' for number in (0, 1)]
    for file, table in zip(files, [pq.read_table(file) for file in reversed(files)]):
        pq.write_table(table, file)
    sign(directory)


NAMES = 'topic', 'target', 'relations-00001'
TOPIC, TARGET, SHARD = (f'segment-00000/{name}.npy' for name in NAMES)


# Digests are right, and numbers possible: what would be found under another entity or entry.
@pytest.mark.parametrize(
    'damage, message',
    [
        (changed(TOPIC, lambda topic: topic[::-1]), 'topic.npy: not in rising order'),
        (changed(TARGET, put(3, 6)), 'target.npy: has numbers from 0 to 6'),
        (changed(SHARD, put(3, np.nan)), 'relations-00001.npy: row 3 has .* not finite'),
        (reverse_provenance, 'provenance-0000.*: its entries are not those of the shard'),
        (stating(num_entries=39), 'num_entries is 39, there are 40 living entries'),
        (stating(num_entities=2**31 - 1), 'num_entities is 2147483647, of 6'),
        (stating(num_mentions=41), 'num_mentions is 41, there are 40'),
    ],
)
def test_a_signed_folder_is_not_believed(directory, damage, message):
    damage(directory)
    with pytest.raises(ManifestError, match=message):
        Memory.open(directory).verify()


@pytest.mark.parametrize('change', [put(3, 4), lambda ids: ids[::-1]])
def test_ids_are_stored_once_they_are_no_rows_and_not_believed(directory, change):
    assert not [*directory.glob('*/ids.npy')]
    delete(directory, entries=[5])
    assert compact(directory).ids.tolist() == [*range(5), *range(6, 40)]
    (ids,) = directory.glob('*/ids.npy')
    changed(ids, change)(directory)
    with pytest.raises(ManifestError, match='ids.npy: not ids from 0 on, each once, rising'):
        Memory.open(directory)


@pytest.mark.parametrize('dead', [[3, 40], [5, 3]])
def test_tombstones_of_no_entry_or_out_of_order_are_refused(directory, dead):
    delete(directory, entries=[3, 5])
    np.save(directory / 'tombstones-00001.npy', np.array(dead))
    sign(directory)
    with pytest.raises(ManifestError, match='tombstones-00001.npy: '):
        Memory.open(directory)


def test_params_hash_depends_on_paths_shapes_types_and_values_only():
    base = {'b': {'w': np.arange(6, dtype=np.float32).reshape(2, 3)}, 'a': np.zeros(2, np.float32)}
    same = {'a': jnp.zeros(2), 'b': {'w': jnp.arange(6.0).reshape(2, 3)}}
    assert params_hash(base) == params_hash(same)
    others = [
        base | {'a': np.ones(2, np.float32)},
        base | {'a': np.zeros(2, np.int32)},
        base | {'b': {'w': base['b']['w'].reshape(3, 2)}},
        base | {'b': {'v': base['b']['w']}},
    ]
    assert len({params_hash(tree) for tree in [base, *others]}) == 5
