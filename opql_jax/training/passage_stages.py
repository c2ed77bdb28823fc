"""Stages that encode a passage once for all of its pairs, in place of marking each pair in it (see `data.passages`)."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from opql_jax.data import buckets, passages
from opql_jax.models import losses
from opql_jax.training.stages import Stage, encode_questions, relation_objective


def _encode(encoder, params, batch, rng, entry):
    """Encodes the passages of a batch, one bucket after the other.

    Returns:
        (relations [n, d_r], context mention vectors [p, C, d_e], and a function that joins a feature over the buckets, flat).
    """
    relations, mentions = [], []
    lengths = buckets.lengths_in(batch)
    variables = {'params': params['encoder']}
    for i, length in enumerate(lengths):
        take = lambda name: jnp.take_along_axis(spans, batch[f'{name}_{length}'][:, :, None, None], axis=1)
        spans = encoder.apply(
            variables,
            *(batch[f'{name}_{length}'] for name in ('tokens', 'first', 'last')),
            deterministic=False,
            rngs={'dropout': jax.random.fold_in(rng, i)},
            method=encoder.spans,
        )
        topic, target = take('topic_mention'), take('target_mention')
        related = encoder.apply(variables, topic, target, entry, method=encoder.relate)
        relations.append(related.reshape(-1, related.shape[-1]))
        mentions.append(encoder.apply(variables, take('context')[:, :, 0], method=encoder.mention))
    gather = lambda name: jnp.concatenate([batch[f'{name}_{length}'].reshape(-1) for length in lengths])
    return jnp.concatenate(relations), jnp.concatenate([m.reshape(-1, m.shape[-1]) for m in mentions]), gather


@dataclasses.dataclass(frozen=True)
class PassageRelationStage(Stage):
    """Pretraining by L_rel and L_el, as `RelationStage`, with all pairs of a passage from one encoding.

    Attributes:
        passages: encoded per step.
        pairs_per_passage: of which L_rel looks at this many; those that another passage of the batch has too come first.
        neighbours: pairs around each seed pair whose passages are taken.
        names: probability that a mention is not masked.
        max_context: masked mentions per passage that L_el looks at; each costs a softmax over all entities.
        entity_weight: weight of L_el; 0 leaves it out, and its cost.
        sampled_entities: entities a step's L_el is estimated from; 0 for all.
    """

    entry: ClassVar[str] = 'passage'
    passages: int = 128
    pairs_per_passage: int = 12
    neighbours: int = 4
    names: float = 0.3
    max_context: int = 4
    entity_weight: float = 1.0
    sampled_entities: int = 0

    def source(self, prepared, num_steps, seed):
        return passages.PassageRelationSource(
            prepared,
            num_steps=num_steps,
            seed=seed,
            passages=self.passages,
            pairs_per_passage=self.pairs_per_passage,
            neighbours=self.neighbours,
            names=self.names,
            max_context=self.max_context,
        )

    def loss(self, encoder, layout, params, batch, constants, static, rng):
        relations, mentions, gather = _encode(encoder, params, batch, rng, self.entry)
        return relation_objective(self, relations, mentions, gather, params['entity_table'], layout, rng)


@dataclasses.dataclass(frozen=True)
class PassageAlignStage(Stage):
    """Distantly aligned 1-hop questions, as `AlignStage`, beside all pairs of the passages that mention their topics.

    Attributes:
        split: the questions.
        entry: 'passage' for the relation of the places of topic and target; 'mention' for an index of mentions (DrKIT), whose
            entries know their topic by the passage only.
        passages: encoded per step.
        pairs: 'title', 'sentence' or 'all', what the memory will be built from.
        held_out: relations such as 'P57'; questions that need one are left out (see `Question.needs`).
        topics: of a batch, whose passages it holds; the questions are about these, or others that the passages mention.
        questions, passages_per_topic, pairs_per_passage, questions_per_topic: of a batch, at most; see `PassageAlignSource`.
    """

    trains: ClassVar[tuple[str, ...]] = ('encoder/',)
    split: str = '1-hop/train'
    entry: str = 'passage'
    passages: int = 128
    pairs: str = 'title'
    held_out: tuple[str, ...] = ()
    topics: int = 48
    questions: int = 320
    passages_per_topic: int = 8
    pairs_per_passage: int = 40
    questions_per_topic: int = 4

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

    def loss(self, encoder, layout, params, batch, constants, static, rng):
        questions = encode_questions(encoder, params, batch, jax.random.fold_in(rng, 1))
        relations, _, gather = _encode(encoder, params, batch, jax.random.fold_in(rng, 2), self.entry)
        loss, accuracy = losses.alignment_loss(
            questions, batch['question_topic'], batch['answers'], relations, gather('topic'), gather('target')
        )
        return loss, {'alignment_accuracy': accuracy}
