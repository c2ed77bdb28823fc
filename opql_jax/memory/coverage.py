"""Which text a memory was built from, as its manifest states it."""

from opql_jax.core.errors import InputError
from opql_jax.data.prepared import Prepared
from opql_jax.memory.format import Memory
from opql_jax.memory.manifest import Covers


def covered(memory: Memory, prepared: Prepared) -> Covers:
    """What the manifest states of the text; InputError: `prepared` neither is nor continues it."""
    covers = memory.manifest.covers
    passages = {folder.prepared: folder.passages for folder in prepared.folders}
    if covers and covers.passages == passages.get(covers.prepared, -1) <= len(prepared.passages):
        return covers
    advice = 'prepare new text with `extends`, the folder that the memory was made of'
    if covers and covers.passages > len(prepared.passages):
        advice = (
            f'the memory has {covers.passages} passages, the folder {len(prepared.passages)}: give '
            'the one injected last'
        )
    raise InputError(
        f'{memory.directory} is a memory of other text than {prepared.directory} or a folder that '
        f'this continues: {advice}'
    )
