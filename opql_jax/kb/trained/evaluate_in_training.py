"""Evaluates a follower while it is trained: the hook of gin/runs/follow.gin."""

from collections.abc import Callable
from typing import Any

from opql_jax.data.kb_folder import KBFolder
from opql_jax.kb.trained.question_sets import as_tuple, evaluate


def evaluate_checkpoints(
    *, kb: str, text: str, model: str, memory: str, questions: str | tuple[str, ...] = ()
) -> Callable[[int], dict[str, float]] | None:
    """The `on_checkpoint` of `trainer.train` that scores splits such as '1-hop/dev', or files.

    Predictions and metrics of a checkpoint go to <model>/evaluation/<step>.

    Args:
        kb, text, model, memory: as of the training run.
        questions: what is scored; None comes back without.
    """
    if not (names := as_tuple(questions)):
        return None

    def evaluate_checkpoint(step: int) -> dict[str, float]:
        output_dir = str(KBFolder(kb).part(model) / 'evaluation' / str(step))
        parts: dict[str, Any] = {'kb': kb, 'text': text, 'model': model, 'memory': memory}
        results = evaluate(**parts, questions=names, output_dir=output_dir, step=step)
        return {
            f'{name}/{metric}': value
            for name, metrics in results.items()
            for metric, value in metrics.items()
            if isinstance(value, int | float)
        }

    return evaluate_checkpoint
