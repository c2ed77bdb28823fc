"""Locks on folders, shared and exclusive."""

from opql_jax.core import locks


def test_a_folder_that_is_read_cannot_be_locked_exclusively(tmp_path):
    readers = [locks.shared([tmp_path, tmp_path / 'missing']) for _ in range(2)]
    for reader in readers:
        with locks.try_exclusive(tmp_path) as locked:
            assert not locked
        reader.close()
    with locks.try_exclusive(tmp_path) as locked:
        assert locked
        with locks.try_exclusive(tmp_path) as another:
            assert not another


def test_a_bucket_has_no_locks():
    with locks.try_exclusive('gs://b/folder') as locked:
        assert locked
