"""Stages of the language model: names, second-stage pretraining on text, and finetuning on open questions (paper sections 3.3, 4.2)."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from opql_jax.core import files
from opql_jax.core.errors import InputError
from opql_jax.core.hashing import params_hash
from opql_jax.corpus.questions import read_questions
from opql_jax.data import batching, lm_sources
from opql_jax.data.entity_names import table_of_names
from opql_jax.memory.coverage import covered
from opql_jax.memory.format import Memory
from opql_jax.memory.sharding import shard_memory
from opql_jax.models import losses
from opql_jax.models.encoder import RelationEncoder
from opql_jax.models.language_model import LanguageModel, best_entities, with_directions
from opql_jax.training.checkpoints import CheckpointError, check_shapes
from opql_jax.training.stages import Stage

# What a language model is, which its stages must agree on.
_STAY = ('entity_layer', 'max_hops', 'own_prediction', 'null_entity')
# How a memory is asked, and what is learnt of that, which says nothing of a run that asks none.
_ASKING = ('k', 'mode', 'own_prediction', 'null_entity', 'retrieval_weight', 'entity_weight', 'own_text')
# How language models read E now, of which checkpoints tell: those of before it was so are other functions of their parameters.
READS = 'directions'
_FEATURES = ('tokens', 'start', 'r1', 'r2', 'used', 'gold')


@dataclasses.dataclass(frozen=True)
class LanguageModelStage(Stage):
    """What these stages share; see `LanguageModel` for the fields that are its own.

    Attributes:
        memory_dir: the memory, built by the encoder that pretraining of the language model starts from; its relations stay as they
            are while E is trained. '' for none, which makes the model EaE.
        rows: texts per step.
        retrieval_weight: of L_re.
        entity_weight: of L_el, where the topics' entities are given.
        own_text: the memory is of the folder's text, and a step must not find what was read in the passage it is about. False for a
            memory of anything else, such as a knowledge base (FaE), from which nothing is barred.
    """

    memory_dir: str = ''
    rows: int = 64
    k: int = 32
    mode: str = 'exact'
    max_hops: int = 3
    entity_layer: int = 0
    own_prediction: bool = True
    null_entity: bool = True
    retrieval_weight: float = 1.0
    entity_weight: float = 1.0
    own_text: bool = True

    def _open_memory(self, prepared) -> Memory | None:
        memory = Memory.open(self.memory_dir, vocabulary_hash=prepared.vocab.hash()) if self.memory_dir else None
        object.__setattr__(self, '_memory', memory)
        return memory

    def open(self, prepared):
        memory = self._open_memory(prepared)
        if memory is not None and self.own_text:
            covered(memory, prepared)  # or passages would be compared with others of the same number
        if memory is None and not self.own_prediction:
            raise InputError('own_prediction=False takes every answer from a memory: give memory_dir')
        # Where the entries were read, as a step must not find those of its own text.
        bars = memory is not None and self.own_text
        object.__setattr__(self, '_passages', passages_of(memory) if bars else None)

    def constants(self, mesh):
        if self._memory is None:
            return None
        return self.search_arrays(self._memory, mesh, self._passages)

    def lineage(self):
        found = {'memory_hash': None, 'memory_encoder': None}
        if self._memory is not None:
            found = {'memory_hash': self._memory.hash(), 'memory_encoder': self._memory.manifest['hashes']['encoder']}
        return {**super().lineage(), 'memory_dir': None, **found, 'entities': READS}

    def model(self, encoder) -> LanguageModel:
        """The model that the stage trains."""
        if not isinstance(encoder, RelationEncoder):
            raise InputError('a language model needs a transformer: one of the other files in gin/models')
        names = {field.name for field in dataclasses.fields(LanguageModel)} & {field.name for field in dataclasses.fields(self)}
        return LanguageModel(encoder, **{name: getattr(self, name) for name in names})

    def search_arrays(self, memory: Memory, mesh, passages=None):
        """A memory as the model searches it, its rows over the devices of the mesh."""
        return shard_memory(memory.topic, memory.target, memory.relations(), mesh, mode=self.mode, passages=passages)

    def init(self, encoder, params):
        fresh = self.model(encoder).init(jax.random.key(0))
        found = {name: params[name] for name in fresh if name in params}
        check_shapes({name: fresh[name] for name in found}, found, 'what training starts from')
        return {**fresh, **params}

    def check_init(self, params, origin=None):
        origin = origin or {}
        if origin.get('stage') in (NameStage.__name__, *LANGUAGE_MODELS):
            check_reading(origin, 'the language model that training starts from')
            changed = [name for name in _STAY if origin.get(name) is not None and origin[name] != getattr(self, name)]
            if changed:
                said = '; '.join(f'{name}={origin[name]!r}, not {getattr(self, name)!r}' for name in changed)
                raise CheckpointError(f'the language model that training starts from has {said}: give the same')
        if self._memory is None:
            return
        # Training a language model changes the encoder, but not what the memory was built with.
        known = {params_hash(params['encoder']), origin.get('memory_encoder')}
        if self._memory.manifest['hashes']['encoder'] not in known:
            raise CheckpointError(
                f'{self.memory_dir} was not built by the encoder that training starts from, nor by the one its language model began with:'
                ' build it with that model, or start from another'
            )

    def trainable(self, name):
        if name.startswith(('lm/w_f', 'lm/w_b')):
            return self.entity_layer > 0
        if name.startswith(('lm/', 'follower/')):
            return bool(self.memory_dir)
        return name.startswith(('encoder/', 'entity_table'))

    def loss_over(self, encoder, layout, params, batch, memory, hops, rng, linked=True, barred=('passage',)):
        """The losses over a batch in the form of `data.lm_sources`: L_mel, L_re, and L_el if its topics are linked.

        `barred` names the features that bar entries: the search compares each entry with all that these say.
        """
        params = with_directions(params)
        out = self.model(encoder)(params, layout, texts_of(batch, (*_FEATURES, *barred)), hops, memory, rng)
        table = params['entity_table']
        label = gathered(batch, 'label')
        if not self.own_prediction:  # a text that asks nothing has no prediction
            label = jnp.where(gathered(batch, 'used').any(axis=1), label, -1)
        loss, accuracy = losses.entity_loss(out.prediction, label, table, layout)
        metrics = {'L_mel': loss, 'answer_accuracy': accuracy}
        if out.hops:
            # Without own predictions there is no null that could be right.
            used, absent, k = gathered(batch, 'used'), gathered(batch, 'absent') & self.own_prediction, self.k
            if linked:  # in pretraining each topic is taught by itself
                found = out.hops[-1].log_probs, out.hops[-1].targets
            else:
                found, k = out.agreed, k * used.shape[1]
                used, absent = used.any(axis=1, keepdims=True), absent.any(axis=1, keepdims=True)
            retrieval, found = losses.retrieval_loss(*found, gathered(batch, 'answers'), used, absent, k)
            loss, metrics = loss + self.retrieval_weight * retrieval, {**metrics, 'L_re': retrieval, **found}
        if linked and self.entity_weight:
            linking, found = self._linking(layout, params, gathered(batch, 'topic'), out.topics, out.asked)
            loss, metrics = loss + self.entity_weight * linking, {**metrics, **found}
        return loss, metrics

    def linking_loss(self, encoder, layout, params, batch, rng):
        """L_el alone, over a batch in the form of `data.lm_sources`."""
        params = with_directions(params)
        _, topics, _, asked = self.model(encoder).read_texts(params, layout, texts_of(batch, _FEATURES), rng)
        return self._linking(layout, params, gathered(batch, 'topic'), topics, asked)

    def _linking(self, layout, params, topic, topics, asked):
        """L_el of what topics are read as, and of what they ask the entity memory, if there is one; and its parts."""
        loss, metrics = 0.0, {}
        for name, mentions in (('L_el', topics), ('L_el_inside', asked)):
            if mentions is not None:
                metrics[name], metrics[f'{name}_accuracy'] = losses.entity_loss(mentions, topic, params['entity_table'], layout)
                loss += metrics[name]
        return loss, metrics

    def predict(self, encoder, layout, params, batch, constants, static):
        """Entities [n, ANSWERS], most probable first, and their probabilities."""
        params = with_directions(params)
        (hops,) = static or (1,)
        texts = texts_of(batch, [name for name in _FEATURES if name != 'gold'])
        out = self.model(encoder)(params, layout, texts, hops, constants)
        entities, probabilities = best_entities(out.prediction, params['entity_table'][: layout.num_entities])
        return entities, {'probabilities': probabilities}

    def clozes(self, prepared, num_steps, seed, rows, topics) -> lm_sources.ClozeSource:
        """Passages with a hidden mention, and what the memory has on it."""
        entries, memory = None, self._memory
        if memory is not None:
            read_in = np.full((len(memory), 1), -1) if self._passages is None else self._passages
            entries = lm_sources.Entries(memory.topic, memory.target, read_in)
        return lm_sources.ClozeSource(prepared, num_steps=num_steps, seed=seed, entries=entries, rows=rows, topics=topics)


@dataclasses.dataclass(frozen=True)
class NameStage(LanguageModelStage):
    """Linking alone, before pretraining: L_el over questions in which names of entities stand in the places of the topics.

    Whom a mention means comes first: until it is known, a query asks about the wrong entity, and beside the other losses it is learnt
    many times more slowly. The memory, if there is one, is not asked, and how it will be is for the stages that ask it to say; W_r and
    the follower stay as they were, the transformer below them does not.

    Attributes:
        questions: a file of open questions; of those with one mention its place is used, and nothing else.
        rows_of_names: E begins with rows that the names make (`table_of_names`) in the place of those that training starts from, which
            the text taught: most entities are mentioned too rarely for that. Keys of the memory follow E, but a memory with entities
            that were injected later cannot be asked, as their rows are fitted to the E it was built with.
        topic_scale: what of W_q meets E begins anew, as so many times the identity; None for as it was. In a search over the whole memory
            entries of the topic must win against those whose relation alone fits best: rows of E have length 1, while products of
            relations reach 12, as following, which knows its topics, never had to weigh the two.
    """

    rows: int = 256
    questions: str = ''
    rows_of_names: bool = True
    topic_scale: float | None = None

    def open(self, prepared):
        self._open_memory(prepared)
        object.__setattr__(self, '_questions', read_questions(self.questions, prepared.vocab))
        object.__setattr__(self, '_prepared', prepared)

    def init(self, encoder, params):
        params = super().init(encoder, params)
        if self.topic_scale is not None:
            of_e = jnp.arange(len(params['follower']['w_q'])) < encoder.entity_dim
            begun = {
                name: jnp.where(of_e[:, None] | of_e, jnp.diag(jnp.where(of_e, scale, 0.0)), params['follower'][name])
                for name, scale in (('w_q', self.topic_scale), ('w_k', 1.0))  # as a query meets W_k folded in
            }
            params = {**params, 'follower': {**params['follower'], **begun}}
        if not self.rows_of_names:
            return params
        names, tokenizer = self._prepared.vocab.names, self._prepared.tokenizer
        return {**params, 'entity_table': table_of_names(tokenizer, names, encoder.entity_dim)}

    def constants(self, mesh):
        return None

    def source(self, prepared, num_steps, seed):
        return lm_sources.NameSource(prepared, self._questions, num_steps=num_steps, seed=seed, rows=self.rows)

    def lineage(self):
        return {**super().lineage(), **dict.fromkeys(_ASKING), 'questions': files.sha256(self.questions)}

    def trainable(self, name):
        return super().trainable(name) and not name.startswith(('encoder/w_r', 'follower/', 'lm/r_null', 'lm/w_v'))

    def loss(self, encoder, layout, params, batch, constants, static, rng):
        return self.linking_loss(encoder, layout, params, batch, rng)


@dataclasses.dataclass(frozen=True)
class ClozeStage(LanguageModelStage):
    """Second-stage pretraining: L_mel + L_re + L_el over passages with one mention hidden.

    Attributes:
        topics: mentions of a passage that ask the memory, at most.
    """

    topics: int = 2

    def source(self, prepared, num_steps, seed):
        return self.clozes(prepared, num_steps, seed, self.rows, self.topics)

    def loss(self, encoder, layout, params, batch, constants, static, rng):
        return self.loss_over(encoder, layout, params, batch, constants, 1, rng)


@dataclasses.dataclass(frozen=True)
class OpenQuestionStage(LanguageModelStage):
    """Finetuning on questions whose topics are marked but not linked: L_mel + L_re of the last hop.

    Attributes:
        questions: a question file, see `corpus.questions`.
        text_rows: passages per step beside the questions, trained on as in pretraining: without them entities that no question of
            the file names are forgotten (see WORKSPACE.md).
        text_topics: their topics, at most.
        absent_rate: share of the one-hop questions that must do without their answers, so that null is learnt.
        name_rows: questions per step whose topic is replaced by a name of some entity, which is to be recognised (L_el): for a vocabulary
            that text and questions mention too rarely to make known.
    """

    filter: bool = False
    exclude_topic: bool = False
    questions: str = ''
    text_rows: int = 64
    text_topics: int = 2
    absent_rate: float = 0.25
    name_rows: int = 0

    def open(self, prepared):
        super().open(prepared)
        asked = read_questions(self.questions, prepared.vocab)
        if deep := [question for question in asked if question.hops > self.max_hops]:
            raise InputError(f'{self.questions}: question {deep[0].id} has {deep[0].hops} hops, max_hops is {self.max_hops}')
        object.__setattr__(self, '_questions', asked)

    @property
    def _absent_rate(self):
        # Without own predictions a question whose answers the memory lacks could only be learnt wrongly.
        return self.absent_rate if self.own_prediction else 0.0

    def source(self, prepared, num_steps, seed):
        asked = lm_sources.OpenQuestionSource(
            prepared, self._questions, num_steps=num_steps, seed=seed, rows=self.rows, absent_rate=self._absent_rate
        )
        beside = {}
        if self.text_rows:  # of another seed than pretraining's, whose batches they would repeat
            beside['text'] = self.clozes(prepared, num_steps, seed + 1, self.text_rows, self.text_topics)
        if self.name_rows:
            beside['names'] = lm_sources.NameSource(
                prepared, self._questions, num_steps=num_steps, seed=seed, rows=self.name_rows
            )
        return lm_sources.Beside(asked, **beside)

    def lineage(self):
        return {**super().lineage(), 'questions': files.sha256(self.questions)}

    def static(self, batch):
        return (int(batch.pop('hops')),)

    def loss(self, encoder, layout, params, batch, constants, static, rng):
        (hops,) = static
        batch, beside = lm_sources.Beside.apart(batch)
        barred = ('exclude',) if hops == 1 and self._absent_rate else ()
        loss, metrics = self.loss_over(encoder, layout, params, batch, constants, hops, rng, linked=False, barred=barred)
        metrics = {f'{name}_{hops}hop': value for name, value in metrics.items()}
        if text := beside.get('text'):
            text_loss, of_text = self.loss_over(encoder, layout, params, text, constants, 1, jax.random.fold_in(rng, 1))
            loss, metrics = loss + text_loss, metrics | {f'text_{name}': value for name, value in of_text.items()}
        if names := beside.get('names'):
            linking, of_names = self.linking_loss(encoder, layout, params, names, jax.random.fold_in(rng, 2))
            loss, metrics = loss + self.entity_weight * linking, metrics | {f'names_{name}': x for name, x in of_names.items()}
        return loss, metrics


LANGUAGE_MODELS = {stage.__name__: stage for stage in (ClozeStage, OpenQuestionStage)}


def texts_of(batch: dict, names) -> list[dict]:
    """These features of the texts of a batch, a dictionary for each length."""
    return [{name: batch[f'{name}_{length}'] for name in names} for length in batching.lengths_in(batch)]


def gathered(batch: dict, name: str) -> jax.Array:
    """A feature of all texts of a batch, in the order of `texts_of`."""
    return jnp.concatenate([batch[f'{name}_{length}'] for length in batching.lengths_in(batch)])


def passages_of(memory: Memory) -> np.ndarray:
    """[N, P] int32: the passages each entry of a memory was read in, -1 in unused places."""
    columns = memory.mentions(np.arange(len(memory)))
    row = memory.rows(columns['entry'])
    place = np.arange(len(row)) - np.searchsorted(row, row)
    out = np.full((len(memory), int(place.max(initial=0)) + 1), -1, np.int32)
    out[row, place] = columns['passage']
    return out


def check_reading(lineage: dict, what: str) -> None:
    """Raises CheckpointError of a language model that read E otherwise than they do now."""
    if lineage.get('entities') != READS:
        raise CheckpointError(f'{what} is of an earlier version, which read the entity table otherwise: train it anew')
