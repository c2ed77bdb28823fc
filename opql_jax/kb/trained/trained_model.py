"""Opens the followers and language models of a knowledge base."""

import dataclasses
from typing import Any

import numpy as np

from opql_jax.core.arrays import bad_row
from opql_jax.core.errors import InputError
from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.prepared import Prepared
from opql_jax.kb.trained.trained_kb import TrainedKB
from opql_jax.memory.coverage import covered
from opql_jax.memory.format import Memory
from opql_jax.training import model_config, objectives
from opql_jax.training.checkpoints import CheckpointError


def open_trained(
    folder: KBFolder,
    parts: dict[str, Any],
    memory: str | None,
    step: int | None,
    settings: dict[str, Any],
    index: str | None = None,
) -> TrainedKB:
    """Opens a knowledge base that a trained model answers; for errors see `open_kb`.

    Args:
        folder, parts: of the knowledge base, and its parts that answer, by name.
        memory: the one that the caller named, if any: a model that was trained without one takes
            none from the manifest.
        step, index: see `open_kb`.
        settings: of the objective, where they are to be others than in training.
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
