"""The same evaluation of one checkpoint of a training run, or of several."""

from collections.abc import Callable

from opql_jax.core import files
from opql_jax.training.checkpoints import each_step
from opql_jax.training.tensorboard import SummaryWriter


def score_steps(
    score: Callable[..., dict], model_dir, output_dir, step: int | str | None, patience: float, dry_run: bool
) -> dict[str, dict]:
    """Calls `score(step, folder)` of each step that is asked for, and gives what it says of the last.

    Args:
        score: of one checkpoint (None: the newest), into a folder; gives {set: {metric: value}}, or nothing where another process
            does, or nothing is to be scored.
        model_dir: the workdir of training.
        output_dir: the folder for one step. For several it has a folder named after each, and the scores as TensorBoard scalars.
        step: a number, None, or 'all' or 'new', which with `patience` are those of `checkpoints.each_step`.
        dry_run: of several steps only the first is opened, and none waited for.
    """
    output = files.path(output_dir)
    if not isinstance(step, str):
        return score(step, output)
    if dry_run:
        return score(next(each_step(model_dir, step, patience=0.0)), output)
    out, writer = {}, None
    for number in each_step(model_dir, step, patience):
        out = score(number, output / str(number))
        if out:
            # One for all steps: its file is named after the second that it was made in.
            writer = writer or SummaryWriter(str(output))
            for name, values in out.items():
                for metric, value in values.items():
                    if isinstance(value, float):
                        writer.add_scalar(f'{name}/{metric}', value, number)
            writer.flush()
    if writer:
        writer.close()
    return out
