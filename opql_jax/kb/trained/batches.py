"""What followers and language models share of answering a batch: its length, and a check of what comes out."""

import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.corpus.json_lines import short_repr
from opql_jax.corpus.questions import Question
from opql_jax.data.questions import round_up


def padded_length(questions: list[Question], tokens: list[np.ndarray], max_length: int) -> int:
    """The length of a batch of tokenised questions, rounded up so that few shapes are compiled; InputError names a longer one."""
    length = round_up(max(map(len, tokens)), 16)
    if length > max_length:
        longest, question = max(zip(tokens, questions), key=lambda pair: len(pair[0]))
        raise InputError(
            f"question {question.id} has {len(longest)} tokens, more than the encoder's {max_length}: {short_repr(question.text)}"
        )
    return length


def check_finite(weights: np.ndarray) -> None:
    """Raises InputError if the weights that a model gives have NaN or infinite numbers."""
    if not np.isfinite(weights).all():
        raise InputError('the model gives weights that are not finite: its training diverged; use an earlier checkpoint (step)')
