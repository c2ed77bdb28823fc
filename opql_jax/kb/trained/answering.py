"""What followers and language models share in answering: their memory, batches and checks."""

import jax
import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.corpus.json_lines import short_repr
from opql_jax.corpus.questions import Question
from opql_jax.data.questions import round_up
from opql_jax.memory import ann
from opql_jax.memory.follow import MemoryArrays
from opql_jax.memory.format import Memory
from opql_jax.memory.search_keys import with_keys
from opql_jax.memory.sharding import ShardedMemory

Index = ann.ScannIndex | ann.ExactIndex


def searched_memory(
    placed: MemoryArrays | ShardedMemory, memory: Memory, entity_table, folder: str | None
) -> tuple[MemoryArrays | ShardedMemory, Index | None]:
    """A placed memory with what its search needs, and an index, if any, that has to live as long.

    InputError: as of `ann.open_index`, or only the rows of known topics are read.
    """
    if not isinstance(placed, ShardedMemory):
        if folder:
            without = f'leave out the index {folder}, or give filter=False'
            raise InputError(f'filter=True reads the rows of known topics alone: {without}')
        return placed, None
    index = ann.open_index(folder, memory, np.asarray(entity_table)) if folder else None
    placed = ann.searched_by(placed, index) if index else placed
    return jax.jit(with_keys)(placed, entity_table), index


def index_settings(index: Index | None) -> str:
    """What answers depend on besides: an index that finds other entries than an exact search."""
    return repr(index.manifest) if isinstance(index, ann.ScannIndex) else ''


def padded_length(questions: list[Question], tokens: list[np.ndarray], max_length: int) -> int:
    """The padded length of a batch, of few different ones; InputError names a too long question."""
    length = round_up(max(map(len, tokens)), 16)
    if length > max_length:
        longest, question = max(zip(tokens, questions), key=lambda pair: len(pair[0]))
        too_long = f"{len(longest)} tokens, more than the encoder's {max_length}"
        raise InputError(f'question {question.id} has {too_long}: {short_repr(question.text)}')
    return length


def check_finite(weights: np.ndarray) -> None:
    """Raises InputError if the weights that a model gives have NaN or infinite numbers."""
    if not np.isfinite(weights).all():
        diverged = 'its training diverged; use an earlier checkpoint (step)'
        raise InputError(f'the model gives weights that are not finite: {diverged}')
