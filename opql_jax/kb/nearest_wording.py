"""Asks a trained follower in the wordings that it was trained on, so that a question in other words is understood.

A follower trained on questions that were made from a few hundred wordings, as MetaQA's were, knows hardly any other. A released encoder, which has
read much English, says which of them is nearest.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.corpus.json_lines import shown
from opql_jax.corpus.questions import Question
from opql_jax.corpus.wordings import reworded
from opql_jax.data.prepared import Prepared
from opql_jax.models.text_encoder import TextEncoder, unit

# Stands for the topic in a wording.
_TOPIC = 'X'


class NearestWording:
    """Puts questions into the nearest wording of training: texts are compared without their topics, by the encoder's vectors of texts.

    A wording fits a question if both take as many hops, and it was asked in training about a topic of the same sort: what a passage
    is about, or something else. A question in a wording of training stays as it is, whatever its topic, and so does one that none fits.

    Attributes:
        wordings: those of training, each as the text before and after its topic.
    """

    def __init__(self, prepared: Prepared, splits: Sequence[str], encoder: TextEncoder):
        """Reads the wordings of some training questions.

        Args:
            prepared: the text that the follower was trained on, with its questions.
            splits: question sets, such as '1-hop/train'; of each question the first topic counts.
            encoder: such as `opql_jax.load_encoder()`.

        Raises:
            InputError: a set is not there, or none of the questions has a topic.
        """
        self._titles = frozenset(prepared.passages['title_entity'].to_pylist()) - {-1}
        kinds = list(dict.fromkeys(self._kind(q) for split in splits for q in prepared.questions(split) if q.topics))
        if not kinds:
            raise InputError(f'{shown(", ".join(splits))}: no question has a topic')
        self._encoder = encoder
        self.wordings = [wording for *_, wording in kinds]
        self._known = {(hops, wording) for hops, _, wording in kinds}
        vectors = self._vectors(self.wordings)
        # What all questions have in common says nothing.
        self._mean = vectors.mean(axis=0)
        self._rows = np.asarray(unit(vectors - self._mean))
        self._fitting: dict[tuple[int, bool], list[int]] = {}
        for row, (hops, about, _) in enumerate(kinds):
            self._fitting.setdefault((hops, about), []).append(row)

    def __call__(self, questions: Sequence[Question]) -> list[Question]:
        """The questions, each in its nearest wording."""
        kinds = {i: self._kind(q) for i, q in enumerate(questions) if q.topics}
        other = {
            i: (fitting, wording)
            for i, (hops, about, wording) in kinds.items()
            if (hops, wording) not in self._known and (fitting := self._fitting.get((hops, about)))
        }
        nearest = list(questions)
        if other:
            vectors = self._vectors([wording for _, wording in other.values()]) - self._mean
            for (i, (fitting, _)), vector in zip(other.items(), vectors):
                best = fitting[int((self._rows[fitting] @ vector).argmax())]
                nearest[i] = reworded(questions[i], self.wordings[best])
        return nearest

    def _kind(self, question: Question) -> tuple[int, bool, tuple[str, str]]:
        """The number of hops of a question, whether a passage is about its topic, and its wording."""
        start, end = question.topic
        return question.hops, question.topic_entity in self._titles, (question.text[:start], question.text[end:])

    def _vectors(self, wordings: Sequence[tuple[str, str]]) -> np.ndarray:
        return self._encoder.encode_texts([_TOPIC.join(wording) for wording in wordings])
