"""The kind of a mention by its vector, not by its spelling: person, organisation, place, thing."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import safetensors.numpy

from opql_jax.core.arrays import bad_row, read_tensors
from opql_jax.core.errors import InputError
from opql_jax.corpus.concepts import CONCEPT
from opql_jax.corpus.entities import TITLE_KIND, UNKNOWN_KIND
from opql_jax.corpus.name_kinds import kind_of_words
from opql_jax.corpus.spans import VALUES

THING = 'thing'
KINDS = ('person', 'organisation', 'place', THING)
# Kinds that stay as recognised: by rules, or by spaCy if the training types lack them.
_CERTAIN = frozenset({*VALUES, CONCEPT, TITLE_KIND, 'group', 'language'})
# Bonus of the recognised kind, in log-odds.
_RECOGNISED = 1.0


@dataclasses.dataclass(frozen=True)
class MentionKinds:
    """A logistic regression from vectors of mentions to KINDS."""

    kernel: np.ndarray  # [hidden_size, 4] float32
    bias: np.ndarray  # [4] float32

    def log_probabilities(self, vectors: np.ndarray) -> np.ndarray:
        """Those of KINDS for vectors of mentions [n, hidden_size]: [n, 4] float32."""
        logits = vectors.astype(np.float32) @ self.kernel + self.bias
        logits -= logits.max(axis=1, keepdims=True)
        return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))

    def to_bytes(self) -> bytes:
        """The parameters as safetensors."""
        return safetensors.numpy.save({'kernel': self.kernel, 'bias': self.bias})

    @classmethod
    def from_bytes(cls, content: bytes, hidden_size: int) -> MentionKinds:
        """What `to_bytes` made for an encoder of that size; InputError if it is not that."""
        stored = read_tensors(content)
        shapes = {name: (array.shape, array.dtype) for name, array in stored.items()}
        expected = {'kernel': (hidden_size, len(KINDS)), 'bias': (len(KINDS),)}
        if shapes != {name: (shape, np.dtype(np.float32)) for name, shape in expected.items()}:
            raise InputError(f'expected float32 {expected}, found {shapes}')
        if any(bad_row(array) is not None for array in stored.values()):
            raise InputError('a number is not finite, or is huge')
        return cls(**stored)


def kinds_of_entities(
    log_probabilities: np.ndarray,
    entities: np.ndarray,
    recognised: Sequence[str],
    names: Sequence[str],
) -> list[str]:
    """The kinds of entities, by all of their mentions and the kinds that were recognised.

    `log_probabilities` [n, 4] are of KINDS for the mentions of a text, `entities` [n] whom each
    mentions. Values, concepts, groups, languages, titles and what the words of a name tell are
    certain.
    """
    totals = np.zeros((len(recognised), len(KINDS)), np.float32)
    np.add.at(totals, entities, log_probabilities)
    # Mentions of one entity are much alike, and no independent evidence.
    totals /= np.sqrt(np.maximum(np.bincount(entities, minlength=len(recognised)), 1))[:, None]
    kinds = []
    for kind, total, name in zip(recognised, totals, names):
        if kind in _CERTAIN or not total.any() or kind == kind_of_words(name):
            kinds.append(kind)
            continue
        if kind != UNKNOWN_KIND:
            total[KINDS.index(kind if kind in KINDS else THING)] += _RECOGNISED
        found = KINDS[total.argmax()]
        # A work is a thing, too.
        kinds.append(kind if found == THING and kind not in (*KINDS, UNKNOWN_KIND) else found)
    return kinds
