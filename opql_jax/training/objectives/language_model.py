"""What the language model's objectives share: settings, memory, and losses (paper §4)."""

import dataclasses
import functools
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.core.hashing import params_hash
from opql_jax.data.batching import Buckets
from opql_jax.data.lm_markup import TextBatch
from opql_jax.data.prepared import Prepared
from opql_jax.data.sources.base import Source
from opql_jax.data.sources.cloze import ClozeSource, EntryIndex
from opql_jax.memory.coverage import covered
from opql_jax.memory.format import Memory
from opql_jax.memory.search_keys import with_keys
from opql_jax.memory.sharding import shard_memory
from opql_jax.models import losses
from opql_jax.models.encoder import RelationEncoder
from opql_jax.models.language_model import LanguageModel, normalize_entity_table
from opql_jax.models.mixing import best_entities, prediction_loss
from opql_jax.parallel.entity_table import Layout
from opql_jax.training.checkpoints import CheckpointError, check_shapes
from opql_jax.training.objectives.base import Objective, Task, concatenate

# Settings of the model itself, which must not change from one objective to the next.
_MODEL_SETTINGS = ('entity_layer', 'max_hops', 'own_prediction', 'mixing', 'null_entity')


@dataclasses.dataclass(frozen=True)
class LanguageModelObjective(Objective):
    """Settings of the language model and of its losses.

    Attributes:
        memory_dir: the memory, for `trainer.train` a part of the knowledge base, built by the
            encoder that pretraining of the language model starts from. Its relations are fixed
            while E is trained. None for no memory, which makes the model EaE.
        rows: texts per step.
        buckets: of passages, as in `RelationSettings`. A passage with too many topics for the
            longest keeps the nearest; the metric `texts_cut` is the share of such passages.
        mode: of the search, 'exact' or 'approx', see `ShardedMemory`.
        k, max_hops, entity_layer, own_prediction, mixing, null_entity: see `LanguageModel`.
        entity_weight: of L_el, where the topics' entities are known.
        topics: maximum number of mentions of a passage that query the memory.
        score_gold: scores entries that state the hidden mention even if the search misses them.
        own_text: whether the memory is of the folder's text, so that a passage must not retrieve
            what was read in it. False for any other, such as a knowledge base (FaE).
    """

    memory_dir: str | None = None
    rows: int = 64
    buckets: Buckets = ()
    k: int = 32
    mode: str = 'exact'
    max_hops: int = 3
    entity_layer: int = 0
    own_prediction: bool = True
    mixing: Literal['distributions', 'embeddings'] = 'distributions'
    null_entity: bool = True
    entity_weight: float = 1.0
    topics: int = 2
    score_gold: bool = True
    own_text: bool = True

    def source(self, prepared, seed=0) -> Source:
        memory = self.open_memory(prepared)
        return self.draw(prepared, memory, self.own_passages(prepared, memory), seed)

    def build(self, prepared, encoder, mesh, seed=0) -> Task:
        memory = self.open_memory(prepared)
        if memory is None and not self.own_prediction:
            raise InputError(
                'own_prediction=False takes every answer from a memory: give memory_dir'
            )
        passages = self.own_passages(prepared, memory)
        layout = Layout(mesh, len(prepared.vocab))
        placed = None if memory is None else self.place_memory(memory, mesh, passages)
        return Task(
            source=self.draw(prepared, memory, passages, seed),
            loss=functools.partial(self.loss, encoder, layout),
            trainable=self.trainable,
            lineage=self.lineage(**identify_memory(memory)),
            memory=placed,
            refresh=None if placed is None or placed.factors is not None else _refresh,
            init=functools.partial(self.init, encoder),
            check_init=functools.partial(self.check_init, memory),
            predict=functools.partial(self.predict, encoder, layout),
        )

    def draw(
        self, prepared: Prepared, memory: Memory | None, passages: np.ndarray | None, seed: int
    ) -> Source:
        """The batches; `passages` [N, P] are those of this text that entries are from, if any."""
        raise NotImplementedError

    def clozes(self, prepared, memory, passages, rows: int, seed: int) -> ClozeSource:
        """Passages (as of `draw`) with a hidden mention, and the entries that state it."""
        entries = None
        if memory is not None:
            read_in = np.full((len(memory), 1), -1) if passages is None else passages
            entries = EntryIndex(memory.topic, memory.target, read_in)
        topics, buckets = self.topics, self.buckets
        return ClozeSource(
            prepared, entries=entries, rows=rows, topics=topics, buckets=buckets, seed=seed
        )

    def open_memory(self, prepared: Prepared) -> Memory | None:
        if self.memory_dir:
            return Memory.open(self.memory_dir, vocabulary_hash=prepared.vocab.hash())
        return None

    def own_passages(self, prepared: Prepared, memory: Memory | None) -> np.ndarray | None:
        """`passages_of` the memory; None if it is of other text."""
        if memory is None or not self.own_text:
            return None
        covered(memory, prepared)  # or passages would be compared with others of the same number
        return passages_of(memory)

    def place_memory(self, memory: Memory, mesh, passages=None):
        """A memory as the model searches it, its rows over the devices of the mesh."""
        return shard_memory(
            memory.topic, memory.target, memory.relations(), mesh, mode=self.mode, passages=passages
        )

    def model(self, encoder) -> LanguageModel:
        """The model that the objective trains."""
        if not isinstance(encoder, RelationEncoder):
            raise InputError(
                'a language model needs a transformer: one of the other files in gin/models'
            )
        names = {field.name for field in dataclasses.fields(LanguageModel)}
        ours = {name: value for name, value in vars(self).items() if name in names}
        return LanguageModel(encoder, **ours)

    def init(self, encoder, params):
        fresh = self.model(encoder).init(jax.random.key(0))
        found = {name: params[name] for name in fresh if name in params}
        check_shapes({name: fresh[name] for name in found}, found, 'what training starts from')
        return {**fresh, **params}

    def check_init(self, memory: Memory | None, params, lineage: dict):
        settings = [
            f'{name}={lineage[name]!r}, not {getattr(self, name)!r}'
            for name in _MODEL_SETTINGS
            if 'own_prediction' in lineage  # of a language model
            and lineage[name] not in (None, getattr(self, name))
        ]
        if settings:
            raise CheckpointError(
                'the language model that training starts from has '
                f'{"; ".join(settings)}: give the same'
            )
        if memory is None:
            return
        # Training a language model changes the encoder, but not what the memory was built with.
        known = {params_hash(params['encoder']), lineage.get('memory_encoder')}
        if memory.manifest.hashes['encoder'] not in known:
            raise CheckpointError(
                f'{self.memory_dir} was not built by the encoder that training '
                'starts from, nor by the one its language model began with: '
                'build it with that model, or start from another'
            )

    def trainable(self, name):
        if name.startswith(('lm/w_f', 'lm/w_b')):
            return self.entity_layer > 0
        unused = {
            'lm/w_v': self.mixing != 'embeddings',
            'lm/r_null': not self.own_prediction,  # null is masked
            'lm/e_null': not self.own_prediction or self.null_entity,
        }
        if unused.get(name):
            return False
        if name.startswith(('lm/', 'follower/', 'encoder/w_r/')):
            return bool(self.memory_dir)
        return name.startswith(('encoder/', 'entity_table'))

    def text_loss(self, encoder, layout, params, buckets, memory, hops, rng, linked=True):
        """(loss, metrics): L_mel, L_re with a memory, and L_el if the topics are `linked`."""
        params = normalize_entity_table(params)
        if not self.score_gold:
            buckets = without(buckets, 'gold')
        out = self.model(encoder)(params, layout, [b.texts for b in buckets], hops, memory, rng)
        used = jnp.concatenate([bucket.texts.used for bucket in buckets])
        label = concatenate(buckets, 'label')
        if not self.own_prediction:  # a text without topics has no prediction
            label = jnp.where(used.any(axis=1), label, -1)
        answers = concatenate(buckets, 'answers')
        loss, accuracy = prediction_loss(
            out.prediction, label, answers, params['entity_table'], layout
        )
        metrics = {'L_mel': loss, 'answer_accuracy': accuracy}
        if out.hops:
            # Without own predictions there is no null that could be right.
            absent, k = concatenate(buckets, 'absent') & self.own_prediction, self.k
            if (
                linked or self.mixing == 'embeddings'
            ):  # each topic is taught by itself, as in text, or as no distribution joins them
                log_probs, targets = out.hops[-1].log_probs, out.hops[-1].targets
            else:
                _, log_own, log_weights, targets = out.prediction
                log_probs = jnp.concatenate([log_own[:, None], log_weights], axis=1)
                k = k * used.shape[1]
                used, absent = used.any(axis=1, keepdims=True), absent.any(axis=1, keepdims=True)
            retrieval, parts = losses.retrieval_loss(log_probs, targets, answers, used, absent, k)
            loss = loss + retrieval
            metrics = {**metrics, 'L_re': retrieval, **parts}
        if linked:
            metrics['texts_cut'] = jnp.sum(concatenate(buckets, 'left_out') > 0) / jnp.maximum(
                jnp.sum(label >= 0), 1
            )
        if linked and self.entity_weight:
            linking, parts = _linking_loss(
                out.m_e1, out.entity_memory, concatenate(buckets, 'topic'), params, layout
            )
            loss, metrics = loss + self.entity_weight * linking, {**metrics, **parts}
        return loss, metrics

    def linking_loss(self, encoder, layout, params, buckets, rng):
        """L_el alone, over texts: (loss, metrics), and their Encoded."""
        params = normalize_entity_table(params)
        encoded = self.model(encoder).encode(params, layout, [b.texts for b in buckets], rng)
        loss, metrics = _linking_loss(
            encoded.m_e1, encoded.entity_memory, concatenate(buckets, 'topic'), params, layout
        )
        return loss, metrics, encoded

    def predict(self, encoder, layout, params, batch, memory):
        """Entities [n, NUM_ANSWERS], most probable first, and their probabilities."""
        buckets, hops = self.predicted(batch)
        params = normalize_entity_table(params)
        texts = [bucket.texts._replace(gold=None, passage=None, exclude=None) for bucket in buckets]
        out = self.model(encoder)(params, layout, texts, hops, memory)
        entities, probabilities = best_entities(out.prediction, params['entity_table'], layout)
        return entities, {'probabilities': probabilities}

    def predicted(self, batch):
        """The buckets of a batch that are to be predicted, and their number of hops."""
        return batch.texts, 1


def _refresh(memory, params):
    return with_keys(memory, normalize_entity_table(params)['entity_table'])


def _linking_loss(m_e1, entity_memory, entities, params, layout):
    """L_el of the topic mentions and of their entity memory queries, if any; and its parts."""
    loss, metrics = 0.0, {}
    for name, mentions in (('L_el', m_e1), ('L_el_inside', entity_memory)):
        if mentions is not None:
            metrics[name], metrics[f'{name}_accuracy'] = losses.entity_loss(
                mentions, entities, params['entity_table'], layout
            )
            loss += metrics[name]
    return loss, metrics


def without(buckets, names: str):
    """Buckets whose texts lack some of the optional arrays, such as 'passage exclude'."""
    lacking = dict.fromkeys(names.split())
    return tuple(bucket._replace(texts=bucket.texts._replace(**lacking)) for bucket in buckets)


def identify_memory(memory: Memory | None) -> dict:
    """A lineage's values for a memory, wherever it lies."""
    hashes = (None, None) if memory is None else (memory.hash(), memory.manifest.hashes['encoder'])
    return {'memory_dir': None, 'memory_hash': hashes[0], 'memory_encoder': hashes[1]}


def passages_of(memory: Memory) -> np.ndarray:
    """[N, P] int32: the passages each entry of a memory was read in, -1 in unused slots."""
    columns = memory.mentions(np.arange(len(memory)))
    row = memory.rows(columns['entry'])
    slot = np.arange(len(row)) - np.searchsorted(row, row)
    out = np.full((len(memory), int(slot.max(initial=0)) + 1), -1, np.int32)
    out[row, slot] = columns['passage']
    return out


@dataclasses.dataclass(frozen=True)
class Cloze(LanguageModelObjective):
    """Predicts hidden mentions of passages."""

    def draw(self, prepared, memory, passages, seed):
        return self.clozes(prepared, memory, passages, self.rows, seed)

    def loss(self, encoder, layout, params, batch: TextBatch, memory, rng):
        return self.text_loss(
            encoder, layout, params, without(batch.texts, 'exclude'), memory, 1, rng
        )
