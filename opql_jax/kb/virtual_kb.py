"""The virtual knowledge base as its user sees it: a memory opened with its encoder, asked by relation following."""

import dataclasses
import functools
import hashlib
from typing import NamedTuple

import jax
import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.corpus.questions import Question, parse_bracketed
from opql_jax.data import markup
from opql_jax.data.prepared import Prepared
from opql_jax.memory.coverage import covered
from opql_jax.memory.format import Memory, params_hash
from opql_jax.models.encoder import RelationEncoder
from opql_jax.models.follower import Follower
from opql_jax.parallel.mesh import make_mesh
from opql_jax.training import model_config
from opql_jax.training.checkpoints import CheckpointError
from opql_jax.training.stages import FollowStage


@dataclasses.dataclass(frozen=True)
class Hop:
    """One hop of one question, best first. Unused slots are left out.

    Attributes:
        entities, weights: the weighted set of targets.
        entries, beta: ids of the memory entries that were kept, which stay valid when the memory is updated, and their
            softmax weights.
    """

    entities: np.ndarray
    weights: np.ndarray
    entries: np.ndarray
    beta: np.ndarray


class _How(NamedTuple):
    """What a compiled search depends on, equal for all checkpoints of a run. (With the knowledge base itself in its place, JAX would
    keep every one that was ever opened.)"""

    encoder: RelationEncoder
    follower: Follower
    hops: int
    k: int
    exclude_topic: bool


@functools.partial(jax.jit, static_argnums=0)
def _run(how: _How, tokens, markers, topics, params, arrays):
    relation = how.encoder.apply({'params': params['encoder']}, tokens, markers[0], markers[1])
    return how.follower.apply(
        {'params': params['follower']},
        relation,
        topics,
        hops=how.hops,
        memory=arrays,
        entity_table=params['entity_table'],
        k=how.k,
        exclude_topic=how.exclude_topic,
    )


class VirtualKB:
    """Answers multi-hop questions over a memory; open one with `VirtualKB.open`.

    Attributes:
        prepared, vocab, memory: what it was opened from.
        entity_table: E [n_entities, d_e] float32, with the rows of entities that were injected.
        k: entries kept per hop.
        exclude_topic: a path never returns to its topic (see `Follower`).
        filter: a hop searches the rows of its topics only (see `Follower`).
    """

    def __init__(self, prepared: Prepared, encoder: RelationEncoder, params, memory: Memory, stage: FollowStage):
        self.prepared, self.vocab, self.memory = prepared, prepared.vocab, memory
        self.k, self.exclude_topic, self.filter = stage.k, stage.exclude_topic, stage.filter
        self._follower = stage.follower(encoder)
        self._encoder, self._params = encoder, params
        self._tokenizer, self._special = prepared.tokenizer, prepared.special
        self._arrays = stage.search_arrays(memory, make_mesh(1, local=True))
        self.entity_table = np.asarray(params['entity_table'])

    @classmethod
    def open(
        cls,
        prepared_dir,
        model_dir,
        memory_dir,
        *,
        step: int | None = None,
        k: int | None = None,
        exclude_topic: bool | None = None,
        filter: bool | None = None,
    ) -> 'VirtualKB':
        """Opens a memory with the model that was trained to follow it.

        Args:
            prepared_dir: folder written by `prepare`: the one that the memory was made of, or the newest one whose text was
                injected into it. It is the model's, or continues that.
            model_dir: workdir of the follow stage.
            memory_dir: the memory it was trained over, as it was then or updated since, or another one that was built with
                the same encoder.
            step: checkpoint to use; the newest if None.
            k, exclude_topic, filter: see the class; as in training if None.

        Raises:
            CheckpointError: the model was trained over another encoder's memory, or another vocabulary, or not for following.
            MemoryFormatError: the memory is unfinished or damaged, or of other text.
        """
        prepared = Prepared(prepared_dir)
        encoder, params, card, meta = model_config.load(model_dir, step)
        lineage = meta['lineage']
        if lineage['stage'] != 'FollowStage':
            raise CheckpointError(f'{model_dir} holds no follower: it is not the workdir of a follow stage')
        model_config.check_vocabulary(card, prepared, model_dir, grown=True)
        memory = Memory.open(memory_dir)
        memory.check_vocabulary(prepared.vocab)
        trained_over = memory.descends_from(wanted := lineage['memory_hash'])
        # Checkpoints of before they stated it fit only what descends from their memory.
        if not trained_over and lineage.get('memory_encoder') != memory.manifest['hashes']['encoder']:
            raise CheckpointError(
                f'{model_dir} was trained over the memory {wanted[:12]}, but {memory_dir} is {memory.hash()[:12]}, built with another encoder:'
                ' pass a memory of the encoder that training began with, or train the follow stage over this one'
            )
        covered(memory, prepared)
        params = params | {'entity_table': with_new_entities(params['entity_table'], memory, prepared)}
        given = {'k': k, 'exclude_topic': exclude_topic, 'filter': filter}
        given = {name: value for name, value in given.items() if value is not None}
        stage = dataclasses.replace(FollowStage.of_lineage(lineage), **given)
        return cls(prepared, encoder, params, memory, stage)

    @functools.cached_property
    def identity(self) -> str:
        """Hex sha256 of everything that answers depend on: parameters, memory, tokenizer, settings."""
        settings = self.k, self.exclude_topic, self.filter
        parts = params_hash(self._params), self.memory.hash(), self._tokenizer.to_str(), *map(str, settings)
        return hashlib.sha256('\0'.join(parts).encode()).hexdigest()

    def follow(self, questions: list[Question], hops: int) -> list[list[Hop]]:
        """Answers questions of one number of hops.

        Args:
            questions: with a topic entity each; a topic of -1 (unknown) gives empty hops.
            hops: how many; not more than the model was made for.

        Returns:
            Per question, its hops.
        """
        if not questions:
            return []
        marked = [markup.mark_question(self._tokenizer, q.text, *q.topic, self._special) for q in questions]
        # Lengths and counts are rounded up, so that few shapes are compiled.
        length = -(-max(len(m.tokens) for m in marked) // 16) * 16
        if length > self._encoder.max_length:
            worst = max(zip(marked, questions), key=lambda pair: len(pair[0].tokens))
            raise InputError(
                f"question {worst[1].id} has {len(worst[0].tokens)} tokens, more than the encoder's {self._encoder.max_length}: {worst[1].text!r}"
            )
        size = 1 << (len(questions) - 1).bit_length()
        tokens = np.full((size, length), self._special.pad, np.int32)
        markers, topics = np.zeros((2, size), np.int32), np.full(size, -1, np.int32)
        for i, (m, question) in enumerate(zip(marked, questions)):
            tokens[i, : len(m.tokens)], markers[:, i], topics[i] = m.tokens, (m.r1, m.r2), question.topic_entity
        how = _How(self._encoder, self._follower, hops, self.k, self.exclude_topic)
        steps = _run(how, tokens, markers, topics, self._params, self._arrays)
        steps = jax.device_get(list(steps))
        return [[self._hop(step, i) for step in steps] for i in range(len(questions))]

    def ask(self, text: str, hops: int) -> list[Hop]:
        """Answers `text`, whose topic stands in square brackets.

        Raises:
            CorpusError: no brackets, or an unknown entity; names the nearest ones.
        """
        text, topic = parse_bracketed(text)
        entity = self.vocab.id(text[slice(*topic)])
        return self.follow([Question('ask', text, (topic,), (entity,), hops=hops)], hops)[0]

    def evidence(self, entries) -> list[dict]:
        """Where each memory entry was read, see the function `evidence`."""
        return evidence(self.prepared, self.memory, entries)

    def _hop(self, step, i: int) -> Hop:
        kept, used = step.entities[i] >= 0, step.entry_ids[i] >= 0
        entries = self.memory.ids[step.entry_ids[i][used]]
        return Hop(step.entities[i][kept], step.weights[i][kept], entries, step.beta[i][used])


def evidence(prepared: Prepared, memory: Memory, entries) -> list[dict]:
    """Where each memory entry was read: `{topic, target, title, sentence}`.

    The sentence is the one that mentions the target, after the one that mentions the topic where that is another.
    """
    out, names = [], prepared.vocab.names
    for entry, at in zip(entries, memory.rows(entries)):
        row = memory.provenance([entry])[0]  # an averaged entry names its first mention
        passage = prepared.passages.slice(row['passage'], 1).to_pylist()[0]
        spans = sorted({row['topic_sentence'], row['target_sentence']})
        between = ' ' if len(spans) == 2 and spans[0][1] == spans[1][0] else ' … '
        out.append(
            {
                'topic': names[int(memory.topic[at])],
                'target': names[int(memory.target[at])],
                'title': passage['title'],
                'sentence': between.join(passage['text'][start:end].strip() for start, end in spans),
            }
        )
    return out


def with_new_entities(table, memory, prepared):
    """E [n_entities, d_e] with the embeddings of the entities that were injected into the memory."""
    table = np.concatenate([table, memory.entity_rows]) if len(memory.entity_rows) else table
    if len(table) != len(prepared.vocab):
        raise CheckpointError(
            f'the model has {len(table) - len(memory.entity_rows)} entities and {memory.directory} has embeddings of '
            f'{len(memory.entity_rows)} more, but {prepared.directory} has {len(prepared.vocab)}: inject its text'
        )
    return table
