"""What followers and language models share in answering.

The memory as their programs search it, the length of a batch, a check of what comes out.
"""

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
    """A placed memory with what its search needs, and perhaps an index in a folder.

    The index stands in for it and has to live as long.

    InputError: as of `ann.open_index`, or only the rows of known topics are read.
    """
    if not isinstance(placed, ShardedMemory):
        if folder:
            raise InputError(
                f'filter=True reads the rows of known topics alone: leave out the index {folder}, '
                'or give filter=False'
            )
        return placed, None
    index = ann.open_index(folder, memory, np.asarray(entity_table)) if folder else None
    placed = ann.searched_by(placed, index) if index else placed
    return jax.jit(with_keys)(placed, entity_table), index


def index_settings(index: Index | None) -> str:
    """What answers depend on besides: an index that finds other entries than an exact search."""
    return repr(index.manifest) if isinstance(index, ann.ScannIndex) else ''


def padded_length(questions: list[Question], tokens: list[np.ndarray], max_length: int) -> int:
    """The padded length of a batch of questions; InputError names a question that is too long.

    It is rounded up so that few shapes are compiled.
    """
    length = round_up(max(map(len, tokens)), 16)
    if length > max_length:
        longest, question = max(zip(tokens, questions), key=lambda pair: len(pair[0]))
        raise InputError(
            f"question {question.id} has {len(longest)} tokens, more than the encoder's "
            f'{max_length}: {short_repr(question.text)}'
        )
    return length


def check_finite(weights: np.ndarray) -> None:
    """Raises InputError if the weights that a model gives have NaN or infinite numbers."""
    if not np.isfinite(weights).all():
        raise InputError(
            'the model gives weights that are not finite: its training diverged; use an earlier '
            'checkpoint (step)'
        )
