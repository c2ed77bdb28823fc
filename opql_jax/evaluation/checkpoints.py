"""Runs one evaluation over a single checkpoint of a training run, or over several of them."""

from collections.abc import Callable

from opql_jax.core import files
from opql_jax.training.checkpoints import each_step
from opql_jax.training.tensorboard import ScalarWriter


def evaluate_checkpoints(
    evaluate: Callable[..., dict],
    model_dir,
    output_dir,
    step: int | str | None,
    patience: float,
    dry_run: bool,
) -> dict[str, dict]:
    """Calls `evaluate(step, folder)` for each checkpoint of `step`; returns the last metrics.

    Args:
        evaluate: evaluates one checkpoint (None: the newest) into a folder and returns {set:
            {metric: value}}, or {} in processes other than the primary one.
        model_dir: the workdir of training.
        output_dir: the folder for a single checkpoint. Several write into one folder each, named
            after the step, and their metrics become TensorBoard scalars in `output_dir`.
        step, patience: a number, None, or as of `checkpoints.each_step`.
        dry_run: opens only the first of several checkpoints, and waits for none.
    """
    output = files.path(output_dir)
    if not isinstance(step, str):
        return evaluate(step, output)
    if dry_run:
        return evaluate(next(each_step(model_dir, step, patience=0.0)), output)
    metrics, writer = {}, None
    for number in each_step(model_dir, step, patience):
        metrics = evaluate(number, output / str(number))
        if metrics:
            # One for all steps: its file is named after the second it was made in.
            writer = writer or ScalarWriter(str(output))
            scalars = {
                f'{name}/{metric}': value
                for name, values in metrics.items()
                for metric, value in values.items()
                if isinstance(value, float)
            }
            writer.write(number, scalars)
    if writer:
        writer.close()
    return metrics
