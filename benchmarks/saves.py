"""What a checkpoint costs a run.

How long a step waits for it, and what the steps lose while it is written.

python benchmarks/saves.py --model base --entities 100000 --rows 4 --folder /mnt/runs --json

Steps of relation pretraining (see `train_step.py`), with a checkpoint among them. `waited_seconds`
is the time until the state is copied, so that training may go on; `written_seconds` that until it
is hashed and whole on disk; `slower_seconds` what the steps took longer meanwhile than before.
`lost_seconds` is the first and the last, and `share` that of an interval. On a machine that is busy
with other things, these say little: `waited_core_seconds` is the work of the cores until the state
is copied, and `core_seconds` all of it, which would be lost if training needed one core alone.
"""

from opql_jax.training import malloc

if __name__ == '__main__':
    malloc.keep_freed_memory()

import statistics
import tempfile
import time

import jax
import numpy as np
from timing import Size, chosen, devices, make_parser, show
from train_step import VOCABULARY, make_encoder, make_program, random_batch

from opql_jax.parallel.mesh import make_mesh
from opql_jax.training.checkpoints import Checkpoints


def measure(options) -> dict:
    """The figures of the last of some checkpoints: the first one makes the folder."""
    encoder = make_encoder(options.model, VOCABULARY, dtype=options.dtype)
    program = make_program(encoder, options.entities, make_mesh())
    batch = random_batch(options.rows, options.length, np.random.default_rng(0), options.entities)
    step = lambda: jax.block_until_ready(program([batch]))

    def timed(function):
        wall, cores = time.perf_counter(), time.process_time()
        function()
        return time.perf_counter() - wall, time.process_time() - cores

    step()  # which compiles
    found: dict[str, float] = {}
    with (
        tempfile.TemporaryDirectory(dir=options.folder) as folder,
        Checkpoints(folder, keep=1) as checkpoints,
    ):
        for number in range(1, options.saves + 1):
            alone = [timed(step) for _ in range(options.steps)]
            usual, usual_cores = (statistics.median(column) for column in zip(*alone))
            started = time.perf_counter()
            state = program.state
            waited, waited_cores = timed(
                lambda: checkpoints.save(number, state.params, state.opt_state, {'step': number})
            )
            meanwhile = []
            while not (checkpoints.directory / str(number)).exists():
                meanwhile.append(timed(step))
            written = time.perf_counter() - started
            _, last_cores = timed(checkpoints.wait)
            slower = sum(seconds - usual for seconds, _ in meanwhile)
            found = {
                'step_seconds': usual,
                'waited_seconds': waited,
                'written_seconds': written,
                'steps_meanwhile': len(meanwhile),
                'slower_seconds': slower,
                'lost_seconds': waited + slower,
                'share': (waited + slower) / (60 * options.minutes),
                'waited_core_seconds': waited_cores,
                'core_seconds': waited_cores
                + last_cores
                + sum(spent - usual_cores for _, spent in meanwhile),
            }
    size = sum(
        leaf.nbytes for leaf in jax.tree.leaves((program.state.params, program.state.opt_state))
    )
    return {'gigabytes': size / 1e9} | {name: round(value, 5) for name, value in found.items()}


def main():
    """Prints one line."""
    parser = make_parser(
        __doc__,
        model=(Size('base'), 'in gin/models'),
        entities=(100_000, 'rows of the entity table'),
        rows=(4, 'of a batch'),
        length=(64, 'tokens of a row'),
        dtype=('float32', "of the transformer's computation"),
        steps=(5, 'before each checkpoint, whose median is the usual time'),
        saves=(2, 'checkpoints, of which the last is measured'),
        minutes=(20.0, 'of an interval'),
    )
    parser.add_argument('--folder', help="for checkpoints; the system's temporary one if left out")
    options = parser.parse_args()
    line = {'devices': devices()}
    line |= chosen(options, 'model', 'entities', 'rows', 'length', 'dtype', 'minutes')
    show(line | measure(options), options.json)


if __name__ == '__main__':
    main()
