"""Multi-hop relation following over a fixed memory, supervised at the last hop (paper §3)."""

import dataclasses
import functools
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from opql_jax.core import files
from opql_jax.data.questions import QuestionBatch
from opql_jax.data.sources.base import Source
from opql_jax.data.sources.each_question import EachFollowedQuestion
from opql_jax.data.sources.follow import FollowBatch, FollowSource
from opql_jax.memory.follow import Followed
from opql_jax.memory.format import Memory
from opql_jax.memory.search_keys import with_keys
from opql_jax.memory.sharding import ShardedMemory, shard_memory
from opql_jax.models.follower import Follower, follow_loss
from opql_jax.parallel.mesh import replicate
from opql_jax.training.objectives.base import Objective, Task, encode_questions, questions_of


@dataclasses.dataclass(frozen=True)
class Follow(Objective):
    """Trains the follower (W_q, W_t) and, unless it is frozen, the encoder that reads questions.

    Attributes:
        memory_dir: the memory, for `trainer.train` a part of the knowledge base; it must have been
            built by the encoder that training starts from.
        splits: question sets; each has one number of hops.
        held_out: relations such as 'P57'; questions that need one are left out (see
            `Question.needs`).
        wordings: a file of other wordings (`read_wordings`) of its types of questions, to learn
            from too; none if empty.
        questions: per step.
        k: entries kept per hop.
        frozen_encoder: trains W_q and W_t alone, without dropout, so that the encoder does not
            forget relations that no training question asks for.
        exclude_topic: a path never returns to its topic (see `Follower`).
        max_hops: the number of W_t.
        weigh_topics: see `Follower`.
        filter: a hop searches the rows of its topics only, not the whole memory (see `Follower`).
    """

    unreached: ClassVar[tuple[str, ...]] = ('encoder/w_e/',)
    memory_dir: str = ''
    splits: tuple[str, ...] = ('1-hop/train', '2-hop/train', '3-hop/train')
    held_out: tuple[str, ...] = ()
    wordings: str = ''
    questions: int = 64
    k: int = 64
    frozen_encoder: bool = False
    exclude_topic: bool = True
    max_hops: int = 3
    weigh_topics: bool = True
    filter: bool = True

    def source(self, prepared, seed=0) -> FollowSource:
        return FollowSource(
            prepared,
            self.splits,
            held_out=self.held_out,
            wordings=self.wordings,
            questions=self.questions,
            seed=seed,
        )

    def validation(self, prepared, questions=(), rows=64, seed=0) -> Source:
        if not questions:
            return super().validation(prepared, seed=seed)
        return EachFollowedQuestion(
            prepared, questions_of(questions, prepared, self.max_hops), rows
        )

    def build(self, prepared, encoder, mesh, seed=0) -> Task:
        memory = Memory.open(self.memory_dir, vocabulary_hash=prepared.vocab.hash())
        placed = self.place_memory(memory, mesh)
        has_keys = isinstance(placed, ShardedMemory) and placed.factors is None
        return dataclasses.replace(
            super().build(prepared, encoder, mesh, seed),
            lineage=self.lineage(
                memory_dir=None,
                memory_hash=memory.hash(),
                memory_encoder=memory.manifest.hashes['encoder'],
                wordings=None,
                wordings_hash=files.sha256(self.wordings) if self.wordings else None,
            ),
            memory=placed,
            refresh=_refresh if has_keys else None,
            init=functools.partial(self.init, encoder),
            check_init=lambda params, lineage: memory.check_encoder(params['encoder']),
            predict=functools.partial(self.predict, encoder),
        )

    def place_memory(self, memory: Memory, mesh):
        """A memory for the follower: whole on each device, or, without filter, split by rows."""
        if self.filter:
            return replicate(memory.arrays(), mesh)
        return shard_memory(memory.topic, memory.target, memory.relations(), mesh)

    def follower(self, encoder) -> Follower:
        """The module whose parameters the objective trains."""
        dims = encoder.relation_dim, encoder.entity_dim
        return Follower(*dims, self.max_hops, weigh_topics=self.weigh_topics)

    def init(self, encoder, params):
        if 'follower' in params:
            return params
        follower = self.follower(encoder)
        relation = jnp.zeros((1, encoder.relation_dim))
        centroid = jnp.zeros((1, encoder.entity_dim))
        init = jax.jit(functools.partial(follower.init, method=follower.query), static_argnums=3)
        return {**params, 'follower': init(jax.random.key(0), relation, centroid, 0)['params']}

    def trainable(self, name):
        # Not W_k: the scores depend on W_q W_k^T alone, all of which W_q can learn.
        follower = ('follower/w_q', 'follower/w_t')
        trains = follower if self.frozen_encoder else ('encoder/', *follower)
        return name.startswith(trains) and not name.startswith(self.unreached)

    def loss(self, encoder, layout, params, batch: FollowBatch, memory, rng):
        answer = self.followed(encoder, params, *batch, memory, rng)[-1]
        loss, metrics = follow_loss(answer.entities, answer.weights, batch.questions.answers)
        told = {'loss': loss, **metrics}
        return loss, {f'{name}_{batch.hops}hop': value for name, value in told.items()}

    def predict(self, encoder, params, batch: FollowBatch, memory):
        """Entities [questions, k], best first, -1 in unused slots, and their weights."""
        answer = self.followed(encoder, params, *batch, memory)[-1]
        return answer.entities, {'weights': answer.weights}

    def followed(
        self, encoder, params, questions: QuestionBatch, hops: int, memory, rng=None
    ) -> list[Followed]:
        """What each hop of the questions finds."""
        apply: Any = self.follower(encoder).apply
        return apply(
            {'params': params['follower']},
            encode_questions(encoder, params, questions, None if self.frozen_encoder else rng),
            questions.topic,
            hops=hops,
            memory=memory,
            entity_table=params['entity_table'],
            k=self.k,
            exclude_topic=self.exclude_topic,
        )


def _refresh(memory, params):
    return with_keys(memory, params['entity_table'])
