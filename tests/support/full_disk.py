"""What fills the disk of the process it runs in, for `own_process`: no file may be larger than so many bytes."""

import contextlib
import resource

from opql_jax.core.errors import InputError
from opql_jax.training.checkpoints import Checkpoints

import memory_tables
import tiny_training


@contextlib.contextmanager
def limit_of_files(size):
    """Yields a function that lifts the limit again."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    lift = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, before)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield lift
    finally:
        lift()


def build_on_a_disk_that_is_full_for_a_while(folder, table):
    """Has room again once the first relations are encoded, when other files could not be written."""
    with limit_of_files(1000) as lift, contextlib.suppress(OSError, InputError):
        memory_tables.make(folder, table, lambda rows: lift() or memory_tables.relations_of(rows))


def train_until_the_disk_is_full(prepared, workdir, **options):
    """Has no room for the checkpoint of step 4; of a process that is not used again."""
    save = Checkpoints.save

    def save_on_a_small_disk(store, step, *state):
        with limit_of_files(2000) if step == 4 else contextlib.nullcontext():
            save(store, step, *state)
            store.wait()

    Checkpoints.save = save_on_a_small_disk
    tiny_training.run(prepared, workdir, **options)
