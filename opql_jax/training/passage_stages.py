"""A stage that encodes a passage once for all of its pairs, in place of marking each pair in it (see `data.passages`)."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from opql_jax.core.errors import InputError
from opql_jax.data import batching, passages
from opql_jax.models import losses
from opql_jax.training.stages import Stage, encode_questions, split_of


@dataclasses.dataclass(frozen=True)
class PassageAlignStage(Stage):
    """Distantly aligned 1-hop questions, as `AlignStage`, beside all pairs of the passages that mention their topics.

    Attributes:
        split: the questions; or a file of open questions, see `data.questions.one_hop`.
        pair_encoding: 'span_pair' for the relation of the spans of topic and target; 'mention' for an index of mentions (DrKIT),
            whose entries know their topic by the passage only.
        passages: encoded per step.
        pairs: 'title', 'sentence' or 'all', what the memory will be built from.
        held_out: relations such as 'P57'; questions that need one are left out (see `Question.needs`).
        topics: of a batch, whose passages it holds; the questions are about these, or others that the passages mention.
        questions, passages_per_topic, pairs_per_passage, questions_per_topic: of a batch, at most; see `PassageAlignSource`.
        facts_weight: of the loss that asks of each pair by itself whether it is a fact, see `losses.alignment_loss`.
    """

    trains: ClassVar[tuple[str, ...]] = ('encoder/',)
    split: str = '1-hop/train'
    pair_encoding: str = 'span_pair'
    passages: int = 128
    pairs: str = 'title'
    held_out: tuple[str, ...] = ()
    topics: int = 48
    questions: int = 320
    passages_per_topic: int = 8
    pairs_per_passage: int = 40
    questions_per_topic: int = 4
    facts_weight: float = 1.0

    def open(self, prepared):
        if self.pair_encoding not in ('span_pair', 'mention'):
            raise InputError(f"pair_encoding={self.pair_encoding!r}: whole passages are encoded for 'span_pair' or 'mention'")

    def source(self, prepared, num_steps, seed):
        return passages.PassageAlignSource(
            prepared,
            split=self.split,
            num_steps=num_steps,
            seed=seed,
            passages=self.passages,
            pairs=self.pairs,
            held_out=self.held_out,
            topics=self.topics,
            questions=self.questions,
            passages_per_topic=self.passages_per_topic,
            pairs_per_passage=self.pairs_per_passage,
            questions_per_topic=self.questions_per_topic,
        )

    def lineage(self):
        return {**super().lineage(), 'split': split_of(self.split)}

    def loss(self, encoder, layout, params, batch, constants, static, rng):
        questions = encode_questions(encoder, params, batch, jax.random.fold_in(rng, 1))
        relations, gather = _encode_passages(encoder, params, batch, jax.random.fold_in(rng, 2), self.pair_encoding)
        loss, accuracy = losses.alignment_loss(
            questions,
            batch['question_topic'],
            batch['answers'],
            relations,
            gather('topic'),
            gather('target'),
            self.facts_weight,
        )
        return loss, {'alignment_accuracy': accuracy}


def _encode_passages(encoder, params, batch, rng, pair_encoding):
    """Encodes the passages of a batch, one bucket after the other.

    Returns:
        (relations [n, d_r] of their pairs, and a function that concatenates a feature of the pairs).
    """
    lengths, relations, variables = batching.lengths_in(batch), [], {'params': params['encoder']}
    for i, length in enumerate(lengths):
        spans = encoder.apply(
            variables,
            *(batch[f'{name}_{length}'] for name in ('tokens', 'first', 'last')),
            deterministic=False,
            rngs={'dropout': jax.random.fold_in(rng, i)},
            method=encoder.spans,
        )
        places = [batch[f'{side}_mention_{length}'] for side in ('topic', 'target')]
        topic, target = (jnp.take_along_axis(spans, place[:, :, None, None], axis=1) for place in places)
        backward = places[0] > places[1]
        relations.append(encoder.apply(variables, topic, target, backward, pair_encoding, method=encoder.relate_spans))
    flat = lambda arrays: jnp.concatenate([array.reshape(-1, *array.shape[2:]) for array in arrays])
    return flat(relations), lambda name: flat([batch[f'{name}_{length}'] for length in lengths])
