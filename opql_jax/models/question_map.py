"""What a knowledge base of plain text learns from questions: a small change of what words mean.

The relation r of a step becomes `r + r C`, scaled to unit length, and the score of a memory entry
`cosine * cosine_weight + added * added_weight`, for questions, sets and training alike. Untrained,
C is zero and the weights are one. A map also corrects the log-odds of answers. It is stored in a
`manifest.json`, which is replaced as a whole.
"""

import dataclasses
import math
import os
from typing import Annotated

import msgspec
import numpy as np

from opql_jax.core import files, manifest
from opql_jax.core.arrays import MAX_MAGNITUDE, bad_row
from opql_jax.core.errors import InputError
from opql_jax.core.hashing import params_hash


class MapManifest(manifest.Header, forbid_unknown_fields=True, kw_only=True):
    """A map as it is stored, see `QuestionMap`; with larger weights a score could overflow."""

    encoder: str  # `params_hash` of the encoder whose relations it changes
    questions: int  # how many it learnt from
    change: bytes  # C [d_r, d_r] float32
    cosine_weight: Annotated[float, msgspec.Meta(ge=-8, le=8)]
    added_weight: Annotated[float, msgspec.Meta(ge=-8, le=8)]
    longer: Annotated[float, msgspec.Meta(ge=-2, le=2)]
    # `calibration.fit_added` gives at most 50.
    log_odds: Annotated[float, msgspec.Meta(ge=-50, le=50)]


_REPAIR = 'delete the folder and run `opql train` again'
FORMAT = manifest.FolderFormat(
    'opql-question-map', 2, 'a map of questions', 'opql train', MapManifest, repair=_REPAIR
)
# Scores are multiplied by this before the softmax, as in the training of the encoder.
SCALE = 20.0
# Bonus per extra hop: a phrase rarely stands for something by accident.
LONGER = 0.08
# Factor of a topic's log weight in answers, which should rest on the best topics.
COMMIT = 3.0
# Topics per hop, at most.
TOPICS = 8


@dataclasses.dataclass(frozen=True)
class QuestionMap:
    """The change, applied to arrays of NumPy or, in training, of JAX."""

    change: np.ndarray  # C [d_r, d_r] float32
    cosine_weight: float = 1.0  # what the cosine counts in a score
    added_weight: float = 1.0  # and what is added to it
    longer: float = 0.0  # bonus of a plan per extra hop
    log_odds: float = 0.0  # added to those of an answer, see `kb.calibration`

    @classmethod
    def untrained(cls, dim: int) -> 'QuestionMap':
        """The identity."""
        return cls(np.zeros((dim, dim), np.float32))

    def __call__(self, relations: np.ndarray) -> np.ndarray:
        """Relations of steps [n, d_r] as they are followed."""
        return self.changed(relations) if self.change.any() else relations

    def changed(self, relations):
        """Relations of steps [..., d_r] as they are followed, also by a map that is traced."""
        xp = relations.__array_namespace__()
        changed = relations + relations @ self.change
        return changed / xp.maximum(xp.linalg.norm(changed, axis=-1, keepdims=True), 1e-12)

    def score(self, cosines, added):
        """The scores of entries."""
        return cosines * self.cosine_weight + added * self.added_weight

    def logits(self, cosines, added, log_alpha):
        """The logits of a hop's entries, of topics with log weights `log_alpha`."""
        return SCALE * self.score(cosines, added) + log_alpha

    def worth(self, best, hops):
        """The score of a path, from the sum of its hops' best scores and their number."""
        return best / hops + (LONGER + self.longer) * (hops - 1)

    def hash(self) -> str:
        """Hex sha256 of all of it."""
        return params_hash(self._arrays())

    def _arrays(self) -> dict[str, np.ndarray]:
        return {name: np.array(v, np.float32) for name, v in dataclasses.asdict(self).items()}

    def write(self, folder: str | os.PathLike, encoder: str, questions: int) -> None:
        """Writes the map over an older one; InputError: other files, or a number not finite."""
        folder = files.require_local(folder)
        others = folder.exists() and any(path.name[0] != '.' for path in folder.iterdir())
        if others and not manifest.is_folder_of(folder, FORMAT):
            raise InputError(
                f'{folder} holds other files, and no map of questions: move it elsewhere'
            )
        values = self._arrays()
        if any(bad_row(np.atleast_2d(value)) is not None for value in values.values()):
            raise InputError('the map has a number that is not finite: training diverged')
        change = values.pop('change').tobytes()
        fields = {'encoder': encoder, 'questions': questions, 'change': change}
        manifest.write_manifest(folder, FORMAT, fields | {n: float(v) for n, v in values.items()})

    @classmethod
    def read(cls, folder: str | os.PathLike, encoder: str | None = None) -> 'QuestionMap':
        """Opens the map for an encoder of this `params_hash` (any if None); or ManifestError."""
        folder = files.require_local(folder)
        stated = manifest.read_manifest(folder, FORMAT)
        if encoder not in (None, stated.encoder):
            raise manifest.ManifestError(
                f'{folder} was trained for another encoder: run `opql train` again'
            )
        dim = math.isqrt(len(stated.change) // 4)
        if len(stated.change) != 4 * dim**2 or not dim:
            raise FORMAT.damaged(folder / manifest.MANIFEST, 'change is no square matrix')
        change = np.frombuffer(stated.change, np.float32).reshape(dim, dim)
        if bad_row(change) is not None:
            bad = f'change has a number that is not finite, or above {MAX_MAGNITUDE:g}'
            raise FORMAT.damaged(folder / manifest.MANIFEST, bad)
        weights = stated.cosine_weight, stated.added_weight, stated.longer, stated.log_odds
        return cls(change, *weights)
