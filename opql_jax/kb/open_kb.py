"""Opens the knowledge base in a folder, with whatever model answers there."""

import contextlib
import os
from typing import Any

from opql_jax.core.errors import InputError
from opql_jax.core.manifest import is_folder_of
from opql_jax.data.kb_folder import KBFolder
from opql_jax.kb.text.text_kb import open_text
from opql_jax.kb.virtual_kb import VirtualKB
from opql_jax.models import released


def open_kb(
    kb: str | os.PathLike,
    *,
    text: str | None = None,
    model: str | None = None,
    memory: str | None = None,
    step: int | None = None,
    k: int | None = None,
    exclude_topic: bool | None = None,
    filter: bool | None = None,
    reader: bool | None = None,
    index: str | os.PathLike | None = None,
) -> VirtualKB:
    """Opens the knowledge base in a folder.

    Args:
        kb: the folder, see `KBFolder`. The parts that its manifest names answer, or these:
        text: prepared text, of which the memory was made, or the newest that was injected into it.
        model: a follower, a language model or a released encoder.
        memory: the memory that the model was trained over, as it was then or updated since, or
            another one that the same encoder built; None for a model that was trained without one.
        step: checkpoint to use; the newest if None.
        k, exclude_topic, filter: memory entries per hop, whether a path never returns to its topic,
            and whether a hop searches the rows of its topics only; as in training if None.
        reader: whether answers over plain text are also read in the passages that are found, which
            takes several times as long; None: where nothing was learnt from questions about it.
        index: the folder of an index of the memory (`memory.ann`), by which a trained model finds
            the entries of each hop; a follower then searches the whole memory, without `filter`.

    Raises:
        CheckpointError: the model answers no questions, or was trained with another vocabulary or
            another encoder's memory.
        InputError: no manifest says what answers, or the memory is unfinished, damaged, or of other
            text.
    """
    if k is not None and k < 1:
        raise InputError(f'k={k}: give a number of entries of at least 1')
    settings = {'k': k, 'exclude_topic': exclude_topic, 'filter': filter}
    settings = {name: value for name, value in settings.items() if value is not None}
    folder = KBFolder(kb)
    with contextlib.ExitStack() as locks:
        # The parts that the manifest states stay on disk while it is open.
        is_stated = model is None and folder.manifest.exists()
        stated = locks.enter_context(folder.hold()) if is_stated else None
        is_own_encoder = bool(stated and stated.get('retrieval'))
        parts: dict[str, Any]
        if stated and is_own_encoder:
            parts = {**stated, 'text': text or stated['text'], 'memory': memory or stated['memory']}
        else:
            parts = folder.choose(text=text, memory=memory, model=model)
        model_dir = folder.part(parts['model'])
        if is_own_encoder or is_folder_of(model_dir, released.FORMAT):
            if settings or step is not None or index is not None:
                no_choice = 'which has no step, k, exclude_topic, filter or index to choose'
                raise InputError(f'{model_dir} is a released encoder, {no_choice}')
            stated = stated or folder.read()
            opened: VirtualKB = open_text(folder, parts, stated, is_own_encoder, reader)
        else:
            # Here, as training takes a second to import, and plain text needs none of it.
            from opql_jax.kb.trained.trained_kb import open_trained

            folder_of_index = str(index) if index else None
            opened = open_trained(folder, parts, memory, step, settings, folder_of_index)
        opened.store.hold(locks.pop_all())
        return opened
