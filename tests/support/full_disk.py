"""What fills the disk of the process it runs in, for `own_process`: no file may be larger than so many bytes."""

import contextlib
import resource

from opql_jax.training.checkpoints import Checkpoints

import tiny_training


@contextlib.contextmanager
def limit_of_files(size):
    """Lets no file become longer."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def train_until_the_disk_is_full(prepared, workdir, **options):
    """Has no room for the checkpoint of step 4; of a process that is not used again."""
    save = Checkpoints.save

    def save_on_a_small_disk(store, step, *state):
        with limit_of_files(2000) if step == 4 else contextlib.nullcontext():
            save(store, step, *state)
            store.wait()

    Checkpoints.save = save_on_a_small_disk
    tiny_training.run(prepared, workdir, **options)
