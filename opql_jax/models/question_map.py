"""What a knowledge base of plain text learns from questions: a small change of what words mean.

The relation r of a step becomes `r + r C`, scaled to unit length, and the score of a memory entry
`cosine * cosine_weight + added * added_weight`, for questions, sets and training alike. Encoder and
memory stay as they are. Untrained, C is zero and the weights are one. A map also changes how often
answers of a certain score are right, for which it has a correction of their log-odds.

    manifest.json                the digest of the other file, and the encoder that it is for
    map-<digest>.safetensors     C [d_r, d_r] and the weights, float32

The manifest is replaced once the other file is complete, so that a killed training keeps the map
that was there.
"""

import dataclasses
import hashlib
import os
import pathlib

import numpy as np
import safetensors.numpy

from opql_jax.core import files
from opql_jax.core.arrays import MAX_MAGNITUDE, bad_row, read_tensors
from opql_jax.core.errors import InputError
from opql_jax.core.manifest import (
    FolderFormat,
    Manifest,
    ManifestError,
    check_files,
    checked_file,
    is_folder_of,
    read_manifest,
    write_manifest,
)


class MapManifest(Manifest, forbid_unknown_fields=True, kw_only=True):
    """The manifest of a map."""

    encoder: str  # `params_hash` of the encoder whose relations it changes
    questions: int  # how many it learnt from


FORMAT = FolderFormat(
    'opql-question-map',
    1,
    'a map of questions',
    'opql train',
    MapManifest,
    repair='delete the folder and run `opql train` again',
)
# Scores are multiplied by this before the softmax, as in the training of the encoder.
SCALE = 20.0
# Bonus per extra hop: a phrase rarely stands for something by accident.
LONGER = 0.08
# Factor of a topic's log weight in answers, which should rest on the best topics.
COMMIT = 3.0
# Topics per hop, at most.
TOPICS = 8
# The weights, each with the largest that is accepted: training starts from 1, 1, 0 and 0 and stays
# close, so that no score overflows. `calibration.fit_added` gives log-odds of at most 50.
_WEIGHTS = {'cosine_weight': 8, 'added_weight': 8, 'longer': 2, 'log_odds': 50}


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
        return hashlib.sha256(safetensors.numpy.save(self._tensors())).hexdigest()

    def _tensors(self) -> dict[str, np.ndarray]:
        weights = {name: np.array(getattr(self, name), np.float32) for name in _WEIGHTS}
        return {'change': np.ascontiguousarray(self.change, np.float32), **weights}

    def write(self, folder: str | os.PathLike, encoder: str, questions: int) -> None:
        """Writes the map, in place of an older one; `encoder` and `questions` as of `MapManifest`.

        InputError: the folder holds something else, or a number is not finite.
        """
        folder = files.require_local(folder)
        if folder.exists() and not _is_ours(folder):
            raise InputError(
                f'{folder} holds other files, and no map of questions: move it elsewhere'
            )
        if any(bad_row(np.atleast_2d(value)) is not None for value in self._tensors().values()):
            raise InputError('the map has a number that is not finite: training diverged')
        folder.mkdir(exist_ok=True)
        name = f'map-{self.hash()[:16]}.safetensors'
        before = read_manifest(folder, FORMAT).files if is_folder_of(folder, FORMAT) else {}
        files.write_bytes(folder / name, safetensors.numpy.save(self._tensors()))
        fields = {'encoder': encoder, 'questions': questions}
        write_manifest(folder, FORMAT, fields, {name: files.digest(folder / name)})
        files.remove_below(folder, before.keys() - {name})

    @classmethod
    def read(cls, folder: str | os.PathLike, encoder: str | None = None) -> 'QuestionMap':
        """Opens the map for an encoder of this `params_hash` (any if None); or ManifestError."""
        folder = files.require_local(folder)
        stated = read_manifest(folder, FORMAT)
        try:
            return cls._read_stated(folder, stated, encoder)
        except (ManifestError, OSError):
            if read_manifest(folder, FORMAT) == stated:
                raise
            # It was trained again meanwhile, which removes the file before.
            return cls.read(folder, encoder)

    @classmethod
    def _read_stated(
        cls, folder: pathlib.Path, stated: MapManifest, encoder: str | None
    ) -> 'QuestionMap':
        check_files(folder, stated, FORMAT)
        if encoder not in (None, stated.encoder):
            raise ManifestError(f'{folder} was trained for another encoder: run `opql train` again')
        if len(stated.files) != 1:
            raise FORMAT.damaged(folder, f'lists {len(stated.files)} files, not one')
        path = checked_file(folder, next(iter(stated.files)), stated, FORMAT)
        try:
            tensors = read_tensors(path.read_bytes())
        except InputError as error:
            raise FORMAT.damaged(path, error) from error
        dim = np.shape(tensors.get('change', ()))[:1] or (0,)
        found = {name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()}
        shapes = {'change': dim * 2, **dict.fromkeys(_WEIGHTS, ())}
        if found != {name: (shape, np.dtype(np.float32)) for name, shape in shapes.items()}:
            raise FORMAT.damaged(path, 'not the tensors of a map')
        largest = {'change': MAX_MAGNITUDE, **_WEIGHTS}
        for name, tensor in tensors.items():
            if bad_row(np.atleast_1d(tensor), largest[name]) is not None:
                bad = f'{name} has a number that is not finite, or above {largest[name]:g}'
                raise FORMAT.damaged(path, bad)
        return cls(tensors['change'], *(float(tensors[name]) for name in _WEIGHTS))


def _is_ours(folder: pathlib.Path) -> bool:
    """Whether a folder has nothing but what `write` leaves, finished or not."""
    unfinished = all(
        path.name.startswith('map-') or path.name.startswith('.') for path in folder.iterdir()
    )
    return unfinished or is_folder_of(folder, FORMAT)
