"""Opens a knowledge base of plain text, whose parts have to be of one text and one encoder."""

from collections.abc import Mapping
from typing import Any

from opql_jax.core.errors import InputError
from opql_jax.core.hashing import params_hash
from opql_jax.core.manifest import ManifestError
from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.prepared import Prepared
from opql_jax.kb.text.text_kb import TextKB
from opql_jax.memory.coverage import covered
from opql_jax.memory.format import Memory
from opql_jax.models.question_map import QuestionMap
from opql_jax.models.text_encoder import TextEncoder
from opql_jax.retrieval.index import IndexFolder


def open_text(
    folder: KBFolder,
    parts: Mapping[str, Any],
    stated: Mapping[str, str | None],
    *,
    is_own_encoder: bool,
    reader: bool,
) -> TextKB:
    """Opens a knowledge base of plain text.

    Args:
        folder: of it.
        parts: its text, model and memory.
        stated: the parts that its manifest states, of which the index of passages and what was
            learnt from questions are opened.
        is_own_encoder: whether the manifest names the model, rather than the caller.
        reader: see `TextKB`.

    Raises:
        InputError: a part is missing, unfinished, damaged, or of other text.
    """
    prepared = Prepared(folder.part(parts['text']))
    try:
        encoder = TextEncoder.load(folder.part(parts['model']))
    except ManifestError as error:
        if not is_own_encoder:
            raise
        raise ManifestError(f'{error}, or run `opql index` again with the same sources, which writes it anew') from error
    encoder_hash = params_hash(encoder.params)
    memory = Memory.open(folder.part(parts['memory']), encoder_hash)
    memory.check_vocabulary(prepared.vocab)
    covered(memory, prepared)
    if not (retrieval := stated.get('retrieval')):
        raise InputError(f'{folder.manifest} names no index of passages: make the knowledge base with `opql index`')
    index = IndexFolder(folder.part(retrieval))
    of_text = len(prepared.passages), len(prepared.vocab)
    indexed = index.manifest.passages, index.manifest.entities, index.manifest.dim
    again = 'is of other text: delete it and run `opql index` again'
    if indexed != (*of_text, encoder.module.hidden_size):
        raise InputError(f'{folder.part(retrieval)} {again}')
    if (memory.manifest.num_entities, memory.manifest.relation_dim) != (of_text[1], encoder.dim):
        raise InputError(f'{memory.directory} {again}')
    question_map = None
    if part := stated.get('question_map'):
        question_map = QuestionMap.read(folder.part(part), encoder_hash)
        if len(question_map.change) != encoder.dim:
            raise InputError(f'{folder.part(part)} is of another encoder: delete it and run `opql train` again')
    return TextKB(folder, prepared, encoder, memory, index, question_map, reader)
