"""What a retrieval index is built from: passages, sentences, vectors, and entities."""

import dataclasses
from collections.abc import Sequence

import numpy as np


@dataclasses.dataclass(frozen=True)
class Corpus:
    """What an index is built from.

    Attributes:
        ids, titles, texts: of the passages; ids are unique, a title may be empty.
        title_entities: [passages] the entity that each title names, or -1.
        mentions: [mentions, 4] passage, start and end (code points of its text) and entity, in any
            order; mentions may overlap.
        names, kinds: of the entities, which are known by their places here.
        mention_kinds: [n, 4] float16, what tells the kinds (`PassageEncoder.mention_kinds`).
        sentence_starts: for each passage where its sentences start, rising
            (`corpus.sentences.sentence_starts`).
        encoded_by: the hash of what made the kinds and vectors (`passage_encoder.digest`).
        passage_vectors, sentence_vectors: [passages, d] and, passage by passage, [sentences, d], of
            any length but finite.
    """

    ids: Sequence[str]
    titles: Sequence[str]
    texts: Sequence[str]
    title_entities: np.ndarray
    mentions: np.ndarray
    names: Sequence[str]
    kinds: Sequence[str]
    mention_kinds: np.ndarray
    sentence_starts: Sequence[Sequence[int]]
    passage_vectors: np.ndarray
    sentence_vectors: np.ndarray
    encoded_by: str
