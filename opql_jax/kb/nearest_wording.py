"""Asks a trained follower in the wordings that it was trained on, so that a question in other words is understood.

A follower trained on questions that were made from a few hundred wordings, as MetaQA's were, knows hardly any other. A released encoder, which has
read much English, says which of them is nearest.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.corpus.json_lines import shown
from opql_jax.corpus.questions import Question
from opql_jax.data.prepared import Prepared
from opql_jax.models.text_encoder import TextEncoder

# Stands for the topic in a wording.
_TOPIC = 'X'
# Questions that are read together.
_TOGETHER = 256


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
        self._about = np.zeros(len(prepared.vocab), bool)
        titles = prepared.passages['title_entity'].to_numpy()
        self._about[titles[titles >= 0]] = True
        found = {self._kind(q): None for split in splits for q in prepared.questions(split) if q.topics}
        if not found:
            raise InputError(f'{shown(", ".join(splits))}: no question has a topic')
        self._encoder = encoder
        self._kinds = list(found)
        self.wordings = [wording for *_, wording in self._kinds]
        vectors = self._vectors(self.wordings)
        # What all questions have in common says nothing.
        self._mean = vectors.mean(axis=0)
        self._rows = _unit(vectors - self._mean)
        self._known = {(hops, wording) for hops, _, wording in self._kinds}

    def __call__(self, questions: Sequence[Question]) -> list[Question]:
        """The questions, each in its nearest wording."""
        kinds = {i: self._kind(q) for i, q in enumerate(questions) if q.topics}
        other = {i: (hops, about, wording) for i, (hops, about, wording) in kinds.items() if (hops, wording) not in self._known}
        places, reworded = list(other), list(questions)
        for start in range(0, len(places), _TOGETHER):
            some = places[start : start + _TOGETHER]
            scores = _unit(self._vectors([other[i][-1] for i in some]) - self._mean) @ self._rows.T
            for i, row in zip(some, scores):
                fits = [kind[:-1] == other[i][:-1] for kind in self._kinds]
                if any(fits):
                    reworded[i] = _asked_as(questions[i], self.wordings[int(np.where(fits, row, -np.inf).argmax())])
        return reworded

    def _kind(self, question: Question) -> tuple[int, bool, tuple[str, str]]:
        """The number of hops of a question, whether a passage is about its topic, and its wording."""
        start, end = question.topic
        about = question.topic_entity >= 0 and bool(self._about[question.topic_entity])
        return question.hops, about, (question.text[:start], question.text[end:])

    def _vectors(self, wordings: Sequence[tuple[str, str]]) -> np.ndarray:
        return np.asarray(self._encoder.encode_texts([_TOPIC.join(wording) for wording in wordings]))


def _asked_as(question: Question, wording: tuple[str, str]) -> Question:
    """The question about its first topic in a wording."""
    start, end = question.topic
    (before, after), name = wording, question.text[start:end]
    return dataclasses.replace(
        question, text=before + name + after, topics=((len(before), len(before) + len(name)),), entities=question.entities[:1]
    )


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-9)
