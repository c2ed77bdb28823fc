"""A bucket in main memory, which tests put in the place of gs://."""

import importlib.machinery
import sys
import types

from etils.epath import backend, gpath
from fsspec.implementations.memory import MemoryFileSystem


class Bucket(MemoryFileSystem):
    """What `fsspec` gives for gs://, without a network; folders are but parts of names."""

    protocol = ('gcs', 'gs')
    store: dict = {}
    pseudo_dirs = ['']

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.removeprefix('gs://'))

    def mkdir(self, path, create_parents=True, **_):
        pass

    def makedirs(self, path, exist_ok=False):
        pass

    def mv(self, path1, path2, **_):
        self.cp_file(path1, path2)  # by the bucket itself, whole or not at all
        self.rm_file(path1)


def use_bucket(monkeypatch):
    monkeypatch.setattr(Bucket, 'store', {})
    monkeypatch.setattr(Bucket, 'pseudo_dirs', [''])
    # As after the first path of a bucket in a process, or TensorFlow's code for buckets would be
    # used.
    monkeypatch.setattr(gpath, '_is_tf_installed', lambda: False)
    gcsfs = types.ModuleType('gcsfs')
    gcsfs.__spec__ = importlib.machinery.ModuleSpec('gcsfs', None)  # as it is installed
    monkeypatch.setitem(sys.modules, 'gcsfs', gcsfs)
    of = type(backend.fsspec_backend)
    monkeypatch.setattr(of, '_get_filesystem', lambda self, name: Bucket())
