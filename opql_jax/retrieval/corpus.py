"""What a retrieval index is built from: passages, their sentences and vectors, and the entities that they mention."""

import collections
import dataclasses
from collections.abc import Sequence

import numpy as np

from opql_jax.core.errors import InputError


@dataclasses.dataclass(frozen=True)
class Corpus:
    """What an index is built from.

    Attributes:
        ids, titles, texts: of the passages; ids are unique, a title may be empty.
        title_entities: [passages] the entity that each title names, or -1.
        mentions: [mentions, 4] passage, start and end (code points of its text) and entity, in any order; mentions may overlap.
        names, kinds: of the entities, which are known by their places here.
        sentence_starts: for each passage where its sentences start, rising (`corpus.sentences.sentence_starts`).
        passage_vectors: [passages, d], of any length but finite; zero for an empty passage.
        sentence_vectors: [sentences, d], passage by passage.
    """

    ids: Sequence[str]
    titles: Sequence[str]
    texts: Sequence[str]
    title_entities: np.ndarray
    mentions: np.ndarray
    names: Sequence[str]
    kinds: Sequence[str]
    sentence_starts: Sequence[Sequence[int]]
    passage_vectors: np.ndarray
    sentence_vectors: np.ndarray

    def validate(self) -> None:
        """Raises InputError, naming the field, unless the fields fit each other."""
        count = len(self.ids)
        if not count:
            raise InputError('ids: there is no passage; give at least one')
        if twice := [name for name, times in collections.Counter(self.ids).items() if times > 1]:
            raise InputError(f'ids: {twice[0]!r} is the id of two passages; give each its own')
        for field in ('titles', 'texts', 'title_entities', 'sentence_starts', 'passage_vectors'):
            if len(getattr(self, field)) != count:
                raise InputError(f'{field}: {len(getattr(self, field))} of them, but {count} ids')
        sentences = sum(map(len, self.sentence_starts))
        if len(self.sentence_vectors) != sentences:
            raise InputError(f'sentence_vectors: {len(self.sentence_vectors)} of them, but {sentences} sentence_starts')
        for passage, starts in enumerate(self.sentence_starts):
            if list(starts) != sorted({start for start in starts if 0 <= start < len(self.texts[passage])}):
                raise InputError(
                    f'sentence_starts[{passage}]: must rise, within the {len(self.texts[passage])} characters of the text'
                )
        for field in ('passage_vectors', 'sentence_vectors'):
            vectors = getattr(self, field)
            if vectors.ndim != 2 or vectors.shape[1] != self.passage_vectors.shape[-1]:
                raise InputError(f'{field}: shape {vectors.shape}, expected rows of one width')
            if not np.isfinite(vectors).all():
                raise InputError(f'{field}: row {np.flatnonzero(~np.isfinite(vectors).all(1))[0]} is not finite')
        if self.mentions.ndim != 2 or self.mentions.shape[1] != 4:
            raise InputError(f'mentions: shape {self.mentions.shape}, expected [mentions, 4]')
        if len(self.kinds) != len(self.names):
            raise InputError(f'kinds: {len(self.kinds)} of them, but {len(self.names)} names')
        passage, start, end, entity = self.mentions.T
        lengths = np.array([len(text) for text in self.texts])
        wrong = (passage < 0) | (passage >= count) | (entity < 0) | (entity >= len(self.names)) | (start < 0) | (end <= start)
        wrong |= end > lengths[np.where(wrong, 0, passage)]
        if wrong.any():
            row = np.flatnonzero(wrong)[0]
            raise InputError(f'mentions[{row}]: {self.mentions[row].tolist()} is no span of a passage with an entity')
        titles = np.asarray(self.title_entities)
        if ((titles < -1) | (titles >= len(self.names))).any():
            raise InputError(f'title_entities: must be -1 or the place of one of {len(self.names)} names')
