"""The optimizer: AdamW with warm-up and cosine decay, or any of optax that needs gradients only."""

from collections.abc import Callable

import jax
import optax

from opql_jax.core.errors import check_choice
from opql_jax.core.hashing import leaf_name
from opql_jax.training.progress import TrainingError


def adamw(
    learning_rate: optax.ScalarOrSchedule, weight_decay: float = 0.01, moment_dtype: str = 'float32'
) -> optax.GradientTransformation:
    """AdamW with b2 = 0.98.

    Args:
        learning_rate: a number, or a function of the step.
        weight_decay: of matrices only: biases, layer norms and entity vectors have no reason to
            shrink.
        moment_dtype: of the first moment, 'float32' or 'bfloat16', which halves its memory; the
            second, a sum of squares, needs float32.

    InputError: another `moment_dtype`.
    """
    check_choice('moment_dtype', moment_dtype, ('float32', 'bfloat16'))
    matrices = ('kernel', 'embedding', 'w_q', 'w_k', 'w_t')
    decay = lambda path, _: leaf_name(path).endswith(matrices)
    decays = lambda params: jax.tree.map_with_path(decay, params)
    return optax.adamw(
        learning_rate, b2=0.98, weight_decay=weight_decay, mask=decays, mu_dtype=moment_dtype
    )


def make_optimizer(
    num_steps: int,
    learning_rate: float = 1e-3,
    warmup_steps: int = 100,
    clip_norm: float = 1.0,
    optimizer: Callable[..., optax.GradientTransformation] = adamw,
    schedule: optax.Schedule | None = None,
) -> optax.GradientTransformation:
    """The optimizer of a run; gradients are clipped by their global norm before it sees them.

    Args:
        num_steps: updates in all.
        learning_rate: its peak, after a linear rise and before a cosine decay to 2 % of it; unused
            with a `schedule`.
        warmup_steps: updates in which it rises; at most half of `num_steps`.
        clip_norm: the largest global norm of the gradients.
        optimizer: makes the optimizer from a `learning_rate`, such as `optax.lion`.
        schedule: the learning rate as a function of the step, such as `optax.cosine_decay_schedule`
            returns; None for warm-up and cosine decay.

    TrainingError: `optimizer` or `schedule` is no such function.
    """
    rate = make_schedule(num_steps, learning_rate, warmup_steps, schedule)
    try:
        made = optimizer(learning_rate=rate)
    except TypeError as error:
        raise TrainingError(
            f'optimizer={_name(optimizer)} cannot be made of a learning_rate '
            f'({_first_line(error)}): give a function of one, without '
            'parentheses, such as @optax.lion'
        ) from error
    if not isinstance(made, optax.GradientTransformation):
        raise TrainingError(
            f'optimizer={_name(optimizer)} makes no optimizer of optax but {type(made).__name__}:'
            ' give a function such as @optax.lion'
        )
    return optax.chain(optax.clip_by_global_norm(clip_norm), made)


def check_update(
    factory: Callable, optimizer: optax.GradientTransformation, trained, opt_state
) -> None:
    """Raises TrainingError if an optimizer needs more than gradients; it gets shapes alone."""
    try:
        jax.eval_shape(optimizer.update, trained, opt_state, trained)
    except (TypeError, ValueError) as error:
        raise TrainingError(
            f'optimizer={_name(factory)} makes no step of gradients alone '
            f'({_first_line(error)}): give one that needs neither the value of '
            'the loss nor a search along a line, such as @optax.lion'
        ) from error


def make_schedule(
    num_steps: int,
    learning_rate: float = 1e-3,
    warmup_steps: int = 100,
    schedule: optax.Schedule | None = None,
) -> optax.Schedule:
    """The learning rate of `make_optimizer`, of the same arguments, as a function of the step."""
    if schedule is None:
        warmup = min(warmup_steps, max(num_steps // 2, 1))
        peak, end = learning_rate, max(num_steps, warmup + 1)
        return optax.warmup_cosine_decay_schedule(0.0, peak, warmup, end, peak * 0.02)
    try:
        float(schedule(0))
    except TypeError as error:
        raise TrainingError(
            f'schedule={_name(schedule)} gives no learning rate for a step ({_first_line(error)}):'
            ' give what a schedule of optax returns, such as @optax.cosine_decay_schedule()'
        ) from error
    return schedule


def _name(function) -> str:
    return getattr(function, '__name__', repr(function))


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
