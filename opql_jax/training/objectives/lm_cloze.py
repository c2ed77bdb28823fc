"""Pretrains the language model: L_mel + L_re + L_el, one hidden mention (paper §4)."""

import dataclasses
from typing import ClassVar

from opql_jax.data.sources.cloze import ClozeBatch
from opql_jax.training.objectives.language_model import LanguageModelObjective, clozes, without


@dataclasses.dataclass(frozen=True)
class Cloze(LanguageModelObjective):
    """Predicts hidden mentions of passages."""

    answers_questions: ClassVar[bool] = True

    def draw(self, prepared, memory, passages, seed):
        return clozes(
            prepared,
            memory,
            passages,
            rows=self.rows,
            topics=self.topics,
            buckets=self.buckets,
            seed=seed,
        )

    def loss(self, encoder, layout, params, batch: ClozeBatch, memory, rng):
        return self.text_loss(
            encoder, layout, params, without(batch.texts, 'exclude'), memory, 1, rng
        )
