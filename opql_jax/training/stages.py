"""The stages of training. A stage is an objective `(params, batch, rng) -> (loss, metrics)`, a data source and a freeze mask.

    entities    E is trained RELIC-style: mask a mention, retrieve its entity.              trains encoder, entity_table
    relations   L_rel + L_el, without any label (paper §3).                                 trains encoder, entity_table
    align       the encoder learns from distantly aligned 1-hop questions (paper §4.1).     trains encoder
    follow      multi-hop questions over a fixed memory, loss at the last hop only.         trains encoder, W_q, W_t (W_k: a flag)

Parameters are one nested dict: `encoder`, `entity_table` ([n_entities, d_e], in training with the padding of its `Layout`) and,
from the follow stage on, `follower`.
"""

import dataclasses
import functools
from typing import ClassVar

import jax
import jax.numpy as jnp

from opql_jax.core import files
from opql_jax.core.errors import InputError
from opql_jax.data import batching, sources
from opql_jax.data.prepared import Prepared
from opql_jax.data.questions import is_file
from opql_jax.memory.format import Memory
from opql_jax.memory.sharding import shard_memory
from opql_jax.models import losses
from opql_jax.models.bulk_encoding import check_pair_encoding
from opql_jax.models.encoder import RelationEncoder
from opql_jax.models.follower import Follower, follow_loss
from opql_jax.parallel.entity_table import Layout
from opql_jax.parallel.mesh import replicate

# Folded into a step's key for the draws of a sampled softmax; dropout takes the low numbers.
_SAMPLING = 1 << 16


class Stage:
    """What the training loop asks of a stage; stages are frozen dataclasses whose fields gin sets."""

    trains: ClassVar[tuple[str, ...]] = ('encoder/', 'entity_table')
    # How memories encode pairs with a model that the stage trained (`models.bulk_encoding`); None for as before it.
    pair_encoding: ClassVar[str | None] = None

    def source(self, prepared: Prepared, num_steps: int, seed: int):
        """The batches: `source[step]` is a dict of arrays, a pure function of (seed, step)."""
        raise NotImplementedError

    def open(self, prepared: Prepared) -> None:
        """Opens what the stage needs besides the prepared data, before any parameter exists."""

    def constants(self, mesh):
        """Arrays on the mesh that the loss reads and nothing trains."""
        return ()

    def lineage(self) -> dict:
        """What the stage is and was trained over, as JSON values, wherever it lies; saved in every checkpoint."""
        return {'stage': type(self).__name__, **dataclasses.asdict(self)}

    @classmethod
    def of_lineage(cls, lineage: dict) -> 'Stage':
        """The stage that left a lineage; fields that are younger than it have their defaults, which is how it was trained."""
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(**{name: lineage[name] for name in names if lineage.get(name) is not None})

    def init(self, encoder: RelationEncoder, params):
        """The parameters training starts from, with what only this stage needs added."""
        return params

    def check_init(self, params, origin: dict | None = None) -> None:
        """Raises if the parameters training starts from, of the lineage `origin` if they are a run's, do not fit what it opened."""

    def trainable(self, name: str) -> bool:
        return name.startswith(self.trains)

    def static(self, batch: dict) -> tuple:
        """Takes out of the batch what must be static under jit."""
        return ()

    def loss(self, encoder: RelationEncoder, layout: Layout, params, batch, constants, static, rng):
        """(loss, {name: scalar}); `layout` says how the entity table lies on the devices."""
        raise NotImplementedError

    def predict(self, encoder: RelationEncoder, layout: Layout, params, batch, constants, static):
        """What the model says of a batch, without dropout: ([n, K], {name: [n, ...]}), a row for each row of the batch."""
        raise InputError(f'a {type(self).__name__} predicts nothing: give a stage that answers questions or encodes pairs')


def split_of(questions: str) -> str:
    """What a lineage says of questions: the name of a split, or what tells a file from another, wherever it lies."""
    return files.sha256(questions) if is_file(questions) else questions


def _encode_rows(encoder, params, batch, rng):
    """Encodes a packed batch, one bucket after the other.

    Returns:
        (relations [n, d_r], context mention vectors [n, c, d_e], and a function that concatenates a per-row feature).
    """
    lengths = batching.lengths_in(batch)
    relations, mentions = zip(
        *(
            encoder.apply(
                {'params': params['encoder']},
                *(batch[f'{name}_{length}'] for name in ('tokens', 'r1', 'r2', 'context_positions')),
                deterministic=False,
                rngs={'dropout': jax.random.fold_in(rng, i)},
                method=encoder.encode,
            )
            for i, length in enumerate(lengths)
        )
    )
    gather = lambda name: jnp.concatenate([batch[f'{name}_{length}'] for length in lengths])
    return jnp.concatenate(relations), jnp.concatenate(mentions), gather


def encode_questions(encoder, params, batch, rng):
    """[q, d_r] relation embeddings of the batch's questions."""
    return encoder.apply(
        {'params': params['encoder']},
        batch['question_tokens'],
        batch['question_r1'],
        batch['question_r2'],
        deterministic=False,
        rngs={'dropout': rng},
    )


@dataclasses.dataclass(frozen=True)
class EntityStage(Stage):
    """RELIC-style training of E: a mention is replaced by [ENT] and its entity retrieved from the text around it.

    Attributes:
        rows: mentions encoded per step.
        sampled_entities: entities a step's softmax is estimated from; 0 for all.
    """

    rows: int = 256
    sampled_entities: int = 0

    def source(self, prepared, num_steps, seed):
        return sources.EntitySource(prepared, num_steps=num_steps, seed=seed, rows=self.rows)

    def loss(self, encoder, layout, params, batch, constants, static, rng):
        vectors, entities = [], []
        for i, length in enumerate(batching.lengths_in(batch)):
            mentions = encoder.apply(
                {'params': params['encoder']},
                batch[f'tokens_{length}'],
                batch[f'position_{length}'][:, None],
                deterministic=False,
                rngs={'dropout': jax.random.fold_in(rng, i)},
                method=encoder.mentions,
            )
            vectors.append(mentions[:, 0])
            entities.append(batch[f'entity_{length}'])
        vectors, entities, table = jnp.concatenate(vectors), jnp.concatenate(entities), params['entity_table']
        rng = jax.random.fold_in(rng, _SAMPLING)
        loss, accuracy = losses.entity_loss(vectors, entities, table, layout, self.sampled_entities, rng)
        return loss, {'entity_accuracy': accuracy}


@dataclasses.dataclass(frozen=True)
class RelationStage(Stage):
    """Pretraining: L_rel over groups of mentions plus L_el over the context mentions.

    Attributes:
        sampler: 'groups' (the paper's anchor, 2 positives, 8 hard negatives), 'shared' (neighbouring pairs, every
            encoded mention serves as positive and hard negative of others) or 'random' (no hard negatives: pairs drawn
            one by one, the others of a batch are an anchor's negatives).
        rows: mentions encoded per step.
        neighbours: of sampler 'shared', pairs around each seed pair. The fewer, the more subjects a batch has: with many, what
            a passage is about tells no two rows of a batch apart and is not learnt.
        max_context: context mentions per row that L_el looks at; each costs a softmax over all entities.
        entity_weight: weight of L_el; 0 leaves it out, and its cost.
        sampled_entities: entities a step's L_el is estimated from; 0 for all.
        pair_encoding: how memories encode pairs: 'marked_pair', marked and masked as in training, or 'span_pair', much cheaper.
        frozen_layers: this many of the lower layers, and the embeddings below them, stay as they are; 0 trains all. No
            gradient is computed for them, so half of the layers frozen save a third of a step.
    """

    sampler: str = 'shared'
    rows: int = 256
    neighbours: int = 16
    max_context: int = 2
    entity_weight: float = 1.0
    sampled_entities: int = 0
    frozen_layers: int = 0
    pair_encoding: str = 'marked_pair'

    def open(self, prepared):
        check_pair_encoding(self.pair_encoding)

    def trainable(self, name):
        frozen = [f'encoder/layers_{i}/' for i in range(self.frozen_layers)]
        if frozen:
            frozen += ['encoder/token_embedding/', 'encoder/position_embedding/', 'encoder/embedding_norm/']
        return super().trainable(name) and not name.startswith(tuple(frozen))

    def source(self, prepared, num_steps, seed):
        source = sources.RelationSource(
            prepared,
            num_steps=num_steps,
            seed=seed,
            rows=self.rows,
            sampler=self.sampler,
            neighbours=self.neighbours,
            max_context=self.max_context,
        )
        if not source.has_positives and not self.entity_weight:
            raise InputError(
                'no pair of entities is mentioned together twice, so L_rel has no positives; with entity_weight=0 nothing is learnt'
            )
        return source

    def loss(self, encoder, layout, params, batch, constants, static, rng):
        relations, mentions, gather = _encode_rows(encoder, params, batch, rng)
        rel, rel_accuracy = losses.relation_loss(relations, gather('topic'), gather('target'), gather('anchor'))
        metrics = {'L_rel': rel, 'relation_accuracy': rel_accuracy}
        if not self.entity_weight:
            return rel, metrics
        entities, table, rng = gather('context_entities'), params['entity_table'], jax.random.fold_in(rng, _SAMPLING)
        el, el_accuracy = losses.entity_loss(mentions, entities, table, layout, self.sampled_entities, rng)
        return rel + self.entity_weight * el, {**metrics, 'L_el': el, 'entity_accuracy': el_accuracy}

    def predict(self, encoder, layout, params, batch, constants, static):
        """Relation embeddings [n, d_r], with the topic and the target of each row, -1 in unused rows."""
        relations, _, gather = _encode_rows(encoder.clone(dropout_rate=0.0), params, batch, jax.random.key(0))
        return relations, {name: gather(name) for name in ('topic', 'target')}


@dataclasses.dataclass(frozen=True)
class AlignStage(Stage):
    """Distantly aligned 1-hop questions train the encoder that a finetuned memory is built with (OPQL, not OPQL-pretrained).

    Attributes:
        split: the questions; or a file of open questions, see `data.questions.one_hop`.
        rows: mentions encoded per step.
        pairs: 'title', 'sentence' or 'all', what the memory will be built from.
        held_out: relations such as 'P57'; questions that need one are left out (see `Question.needs`).
        topics, rows_per_topic, questions_per_topic: of a batch, at most; see `AlignSource`.
    """

    trains: ClassVar[tuple[str, ...]] = ('encoder/',)
    pair_encoding: ClassVar[str] = 'marked_pair'
    split: str = '1-hop/train'
    rows: int = 256
    pairs: str = 'title'
    held_out: tuple[str, ...] = ()
    topics: int = 32
    rows_per_topic: int = 16
    questions_per_topic: int = 4

    def source(self, prepared, num_steps, seed):
        return sources.AlignSource(
            prepared,
            split=self.split,
            num_steps=num_steps,
            seed=seed,
            rows=self.rows,
            pairs=self.pairs,
            held_out=self.held_out,
            topics=self.topics,
            rows_per_topic=self.rows_per_topic,
            questions_per_topic=self.questions_per_topic,
        )

    def lineage(self):
        return {**super().lineage(), 'split': split_of(self.split)}

    def loss(self, encoder, layout, params, batch, constants, static, rng):
        questions = encode_questions(encoder, params, batch, jax.random.fold_in(rng, 1))
        relations, _, gather = _encode_rows(encoder, params, batch, jax.random.fold_in(rng, 2))
        loss, accuracy = losses.alignment_loss(
            questions, batch['question_topic'], batch['answers'], relations, gather('topic'), gather('target')
        )
        return loss, {'alignment_accuracy': accuracy}


@dataclasses.dataclass(frozen=True)
class FollowStage(Stage):
    """Multi-hop relation following over a fixed memory, supervised at the last hop (paper §4.1).

    Attributes:
        memory_dir: the memory; it must have been built by the encoder that training starts from.
        splits: question sets; the number of hops is given by the data set.
        held_out: relations such as 'P57'; questions that need one are left out (see `Question.needs`).
        questions: per step.
        k: entries kept per hop.
        train_key_projection: trains W_k as well.
        exclude_topic: a path never returns to its topic (see `Follower`).
        max_hops: the number of W_t.
        shared_hops: one W_t serves all hops.
        filter: a hop searches the rows of its topics only, not the whole memory (see `Follower`).
    """

    memory_dir: str = ''
    splits: tuple[str, ...] = ('1-hop/train', '2-hop/train', '3-hop/train')
    held_out: tuple[str, ...] = ()
    questions: int = 64
    k: int = 64
    train_key_projection: bool = False
    exclude_topic: bool = True
    max_hops: int = 3
    shared_hops: bool = False
    filter: bool = True

    def source(self, prepared, num_steps, seed):
        return sources.FollowSource(
            prepared, splits=self.splits, num_steps=num_steps, seed=seed, held_out=self.held_out, questions=self.questions
        )

    def open(self, prepared):
        memory = Memory.open(self.memory_dir, vocabulary_hash=prepared.vocab.hash())
        object.__setattr__(self, '_memory', memory)

    def constants(self, mesh):
        return self.search_arrays(self._memory, mesh)

    def search_arrays(self, memory, mesh):
        """A memory as the follower takes it: whole on each device, or without filter its rows over the devices of the mesh."""
        if self.filter:
            return replicate(memory.arrays(), mesh)
        return shard_memory(memory.topic, memory.target, memory.relations(), mesh)

    def lineage(self):
        built = {'memory_hash': self._memory.hash(), 'memory_encoder': self._memory.manifest['hashes']['encoder']}
        return {**super().lineage(), 'memory_dir': None, **built}

    def init(self, encoder, params):
        if 'follower' in params:
            return params
        follower = self.follower(encoder)
        relation, centroid = jnp.zeros((1, encoder.relation_dim)), jnp.zeros((1, encoder.entity_dim))
        init = jax.jit(functools.partial(follower.init, method=follower.query), static_argnums=3)
        return {**params, 'follower': init(jax.random.key(0), relation, centroid, 0)['params']}

    def follower(self, encoder) -> Follower:
        """The module whose parameters the stage trains."""
        dims = dict(relation_dim=encoder.relation_dim, entity_dim=encoder.entity_dim)
        return Follower(**dims, max_hops=self.max_hops, shared_hops=self.shared_hops)

    def check_init(self, params, origin=None):
        self._memory.check_encoder(params['encoder'])

    def trainable(self, name):
        if name.startswith('follower/w_k'):
            return self.train_key_projection
        return name.startswith(('encoder/', 'follower/'))

    def static(self, batch):
        return (int(batch.pop('hops')),)

    def loss(self, encoder, layout, params, batch, constants, static, rng):
        (hops,) = static
        found = self._followed(encoder, layout, params, batch, constants, hops, rng)
        loss, metrics = follow_loss(found.entities, found.weights, batch['answers'])
        return loss, {f'{name}_{hops}hop': value for name, value in {'loss': loss, **metrics}.items()}

    def predict(self, encoder, layout, params, batch, constants, static):
        """Entities [questions, k], best first, -1 in unused places, and their weights."""
        encoder, rng = encoder.clone(dropout_rate=0.0), jax.random.key(0)
        found = self._followed(encoder, layout, params, batch, constants, *static, rng)
        return found.entities, {'weights': found.weights}

    def _followed(self, encoder, layout, params, batch, constants, hops, rng):
        """What the last hop found."""
        questions = encode_questions(encoder, params, batch, rng)
        return self.follower(encoder).apply(
            {'params': params['follower']},
            questions,
            batch['question_topic'],
            hops=hops,
            memory=constants,
            entity_table=params['entity_table'],
            k=self.k,
            exclude_topic=self.exclude_topic,
        )[-1]
