"""What stands for a full disk: no file may be larger than so many bytes."""

import contextlib
import resource


@contextlib.contextmanager
def limit_of_files(size):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
