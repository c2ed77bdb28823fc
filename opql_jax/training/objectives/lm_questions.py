"""Finetunes the language model on questions with marked topics: L_mel + L_re (paper §4)."""

import dataclasses

from opql_jax.core import files
from opql_jax.data.questions import read_file
from opql_jax.data.sources.base import Source
from opql_jax.data.sources.each_question import EachOpenQuestion
from opql_jax.data.sources.names import NameSource
from opql_jax.data.sources.open_questions import OpenQuestionBatch, OpenQuestionSource
from opql_jax.training.objectives.base import check_hops, fold_in, questions_of
from opql_jax.training.objectives.language_model import LanguageModelObjective, without


@dataclasses.dataclass(frozen=True)
class AnswerQuestions(LanguageModelObjective):
    """Answers open questions.

    Attributes:
        filter, exclude_topic: of hops after the first, see `LanguageModel`.
        questions: a question file, see `corpus.questions`.
        text_rows: passages per step, trained on as in pretraining, without which entities that no
            question names are forgotten.
        absent_rate: share of one-hop questions whose answers are hidden, so that null is learnt.
        name_rows: questions per step whose topic is replaced by the name of some entity, to be
            recognised (L_el): for entities that text and questions mention too rarely.
    """

    filter: bool = False
    exclude_topic: bool = False
    questions: str = ''
    text_rows: int = 64
    absent_rate: float = 0.25
    name_rows: int = 0

    @property
    def _absent_rate(self):
        # Without own predictions a question without its answers would teach something wrong.
        return self.absent_rate if self.own_prediction else 0.0

    def draw(self, prepared, memory, passages, seed):
        questions = read_file(self.questions, prepared.vocab)
        check_hops(self.questions, questions, self.max_hops)
        text = names = None
        if self.text_rows:  # of another seed than pretraining's, whose batches they would repeat
            text = self.clozes(prepared, memory, passages, self.text_rows, seed + 1)
        if self.name_rows:
            names = NameSource(prepared, questions, rows=self.name_rows, seed=seed)
        return OpenQuestionSource(
            prepared,
            questions,
            rows=self.rows,
            absent_rate=self._absent_rate,
            beside=(text, names),
            seed=seed,
        )

    def validation(self, prepared, questions=(), rows=64, seed=0) -> Source:
        if not questions:
            return super().validation(prepared, seed=seed)
        return EachOpenQuestion(prepared, questions_of(questions, prepared, self.max_hops), rows)

    def lineage(self, **changes):
        return super().lineage(questions=files.sha256(self.questions), **changes)

    def loss(self, encoder, layout, params, batch: OpenQuestionBatch, memory, rng):
        hops = batch.hops
        excludes = hops == 1 and self._absent_rate  # comparing each entry with them costs time
        questions = without(batch.questions, 'passage' if excludes else 'passage exclude')
        loss, metrics = self.text_loss(
            encoder, layout, params, questions, memory, hops, rng, linked=False
        )
        metrics = {f'{name}_{hops}hop': value for name, value in metrics.items()}
        if batch.text:
            text = without(batch.text, 'exclude')
            text_loss, parts = self.text_loss(
                encoder, layout, params, text, memory, 1, fold_in(rng, 1)
            )
            loss = loss + text_loss
            metrics = metrics | {f'text_{name}': value for name, value in parts.items()}
        if batch.names:
            linking, parts, _ = self.linking_loss(
                encoder, layout, params, batch.names, fold_in(rng, 2)
            )
            loss += self.entity_weight * linking
            metrics |= {f'names_{name}': value for name, value in parts.items()}
        return loss, metrics

    def predicted(self, batch):
        return batch.questions, batch.hops
