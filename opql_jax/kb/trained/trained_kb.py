"""A knowledge base that a follower or a language model answers, which was trained on its text."""

import dataclasses
from typing import Any, NoReturn

import numpy as np

from opql_jax.core.arrays import bad_row
from opql_jax.core.errors import InputError
from opql_jax.corpus.questions import Question, parse_bracketed
from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.prepared import Prepared
from opql_jax.kb.answers import Answer
from opql_jax.kb.fact_store import FactStore
from opql_jax.kb.trained.answerers import FollowerAnswerer, LanguageModelAnswerer
from opql_jax.kb.virtual_kb import VirtualKB
from opql_jax.memory.coverage import covered
from opql_jax.memory.format import Memory
from opql_jax.training import model_config, objectives
from opql_jax.training.checkpoints import CheckpointError
from opql_jax.training.objectives import Follow
from opql_jax.training.objectives.language_model import LanguageModelObjective

# Questions answered together.
_BATCH = 64


class TrainedKB(VirtualKB):
    """Text, a model trained on it, its memory, if any, and E `entity_table` as it is searched."""

    _answerer: FollowerAnswerer | LanguageModelAnswerer

    def __init__(
        self,
        folder: KBFolder,
        prepared: Prepared,
        encoder,
        params,
        memory: Memory | None,
        objective: Follow | LanguageModelObjective,
        index: str | None = None,
    ):
        """Puts together what `open_trained` has opened and checked."""
        kind: Any = FollowerAnswerer if isinstance(objective, Follow) else LanguageModelAnswerer
        answerer = kind(prepared, encoder, params, memory, objective, index)
        store = FactStore(prepared, prepared.vocab, memory, objective.own_text)
        super().__init__(folder, store, params, answerer)
        self.entity_table = np.asarray(answerer.entity_table)

    def answer(self, questions: list[Question]) -> list[Answer]:
        """Answers questions, which may be of different numbers of hops, see `VirtualKB.answer`.

        A follower starts from the entity of the first topic, and answers nothing if that is
        unknown; a language model reads all topics and links them itself.
        """
        answers: dict[int, Answer] = {}
        for hops in sorted({question.hops for question in questions}):
            members = [i for i, question in enumerate(questions) if question.hops == hops]
            for start in range(0, len(members), _BATCH):
                batch = members[start : start + _BATCH]
                answers |= zip(batch, self._answerer.answer([questions[i] for i in batch], hops))
        return [self._of(answers[i], question) for i, question in enumerate(questions)]

    def _question(self, text: str, hops: int) -> Question:
        text, topic = parse_bracketed(text)
        entity = self.vocab.get(name := text[slice(*topic)])
        if entity is None:
            # A language model links the topic itself; else this raises, naming the nearest.
            entity = -1 if self._answerer.links_topics else self.vocab.id(name)
        return Question('ask', text, (topic,), (entity,), hops=hops)

    @property
    def sets(self) -> NoReturn:
        make = 'make a knowledge base of plain text with `opql index`'
        raise InputError(f'a trained model answers here, no released encoder: {make}')

    @property
    def retriever(self) -> NoReturn:
        make = 'make one of its text with `opql index`'
        raise InputError(f'this knowledge base has no index of its passages: {make}')


def open_trained(
    folder: KBFolder,
    parts: dict[str, Any],
    memory: str | None,
    step: int | None,
    settings: dict[str, Any],
    index: str | None = None,
) -> TrainedKB:
    """Opens a knowledge base that a trained model answers; for errors see `open_kb`.

    `parts` of the folder answer, by name; `memory` is the one that the caller named, if any, as a
    model that was trained without one takes none from the manifest; `settings` are of the
    objective, where they are to be others than in training.
    """
    prepared, model_dir = Prepared(folder.part(parts['text'])), folder.part(parts['model'])
    encoder, params, card, meta = model_config.load(model_dir, step)
    lineage = meta['lineage']
    if lineage['objective'] not in objectives.ANSWERING:
        names = ' or '.join(objectives.ANSWERING)
        no_model = f'{model_dir} holds no model that answers questions'
        raise CheckpointError(f'{no_model}: it was not trained by {names}')
    # That of the manifest is another model's.
    chosen = parts['memory'] if lineage['memory_hash'] else memory
    memory_dir = folder.part(chosen) if chosen else None
    model_config.check_vocabulary(card, prepared, model_dir, grown=memory_dir is not None)
    opened = _open_memory(memory_dir, model_dir, lineage, prepared)
    if opened is not None:
        table = with_new_entities(params['entity_table'], opened, prepared)
        params = params | {'entity_table': table}
    if index and opened is None:
        raise CheckpointError(f'{model_dir} was trained without a memory: give no index')
    answering = objectives.ANSWERING[lineage['objective']]
    known = {field.name for field in dataclasses.fields(answering)}
    if missing := known - lineage.keys():
        earlier = f'{model_dir} was trained by an earlier version'
        raise CheckpointError(f'{earlier}, which knew no {min(missing)}: train it again')
    objective: Any = answering.from_lineage(lineage)
    # Which reads the rows of its topics alone, and needs no index for that.
    if index and answering is objectives.Follow:
        settings = {'filter': False} | settings
    if 'k' in settings and opened is not None:
        settings = settings | {'k': min(settings['k'], max(len(opened), 1))}  # there are no more
    if unknown := settings.keys() - known:
        by = f'{model_dir} was trained by {lineage["objective"]}'
        raise InputError(f'{min(unknown)}: {by}, which has no such setting')
    objective = dataclasses.replace(objective, **settings)
    return TrainedKB(folder, prepared, encoder, params, opened, objective, index)


def _open_memory(memory_dir, model_dir, lineage: dict, prepared: Prepared) -> Memory | None:
    """The memory of a model of that lineage over `prepared`; None if trained without one."""
    needs = bool(lineage['memory_hash'])
    if (memory_dir is None) == needs:
        how = 'with a memory: name one (MEMORY)' if needs else 'without a memory: name none'
        raise CheckpointError(f'{model_dir} was trained {how}')
    if memory_dir is None:
        return None
    memory = Memory.open(memory_dir)
    memory.check_vocabulary(prepared.vocab)
    if lineage['memory_encoder'] != memory.manifest.hashes['encoder']:
        raise CheckpointError(
            f'{model_dir} was trained over the memory {lineage["memory_hash"][:12]}, but '
            f'{memory_dir} is {memory.hash()[:12]}, built with another encoder: pass a memory of '
            'the encoder that training began with, or train over this one'
        )
    if lineage.get('own_text', True):  # a follower's memory is always
        covered(memory, prepared)  # or its passages are not those of the folder
    if lineage['entities_of_names'] and len(memory.entity_rows):
        raise CheckpointError(
            f'{memory_dir} has {len(memory.entity_rows)} injected entities, whose embeddings come '
            f'from the text about them; {model_dir} knows entities by their names (lm_names): ask '
            'a model that was trained without'
        )
    return memory


def with_new_entities(table, memory: Memory, prepared: Prepared) -> np.ndarray:
    """E [n_entities, d_e] with the rows of the entities that were injected into the memory."""
    if (row := bad_row(np.asarray(table))) is not None:
        bad = 'a number that is not finite, or is huge: use an earlier step'
        raise CheckpointError(f'row {row} of the entity table of the model has {bad}')
    table = np.concatenate([table, memory.entity_rows]) if len(memory.entity_rows) else table
    if len(table) != len(prepared.vocab):
        raise CheckpointError(
            f'the model has {len(table) - len(memory.entity_rows)} entities and {memory.directory} '
            f'has embeddings of {len(memory.entity_rows)} more, but {prepared.directory} has '
            f'{len(prepared.vocab)}: inject its text'
        )
    return table
