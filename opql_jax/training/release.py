"""Releases a trained encoder or reader as a folder for any text, or `transformers`."""

import logging

from tokenizers import Tokenizer

from opql_jax.core import files
from opql_jax.core.errors import InputError, check_choice
from opql_jax.corpus.json_lines import read_text
from opql_jax.data.kb_folder import KBFolder
from opql_jax.models import hugging_face, released
from opql_jax.models.encoder import RelationEncoder
from opql_jax.models.text_encoder import TextEncoder
from opql_jax.training import model_config
from opql_jax.training.fit_mention_kinds import fit_mention_kinds, read_typed

_log = logging.getLogger(__name__)


def release(
    *,
    kb: str,
    model: str,
    output: str,
    card: str,
    typed_documents: str | None = None,
    step: int | None = None,
    form: str = 'opql',
    dry_run: bool = False,
) -> None:
    """Writes a released encoder (`models.released`), or one for `transformers` (`hugging_face`).

    Args:
        kb: the knowledge base that it was trained in.
        model: the part that was trained, for the form 'opql' by `TextRelations` or by `Reading`.
        output: the folder; new or empty, or that of another release in the form 'opql'.
        card: a Markdown file, the model card.
        typed_documents: a file of DocRED's form, from whose types an encoder learns the kinds of
            mentions; None for no kinds.
        step: checkpoint to use; the newest if None.
        form: 'opql', or 'transformers' for a folder that is opened there as a BERT, an MPNet or a
            ModernBERT.
        dry_run: writes nothing.

    InputError: the form needs another kind of model, or the folder holds something else.
    """
    check_choice('form', form, ('opql', 'transformers'))
    if form == 'transformers' and typed_documents:
        raise InputError(
            "typed_documents teaches an encoder of the form 'opql' alone: leave it out"
        )
    folder = KBFolder(kb).part(model)
    encoder, params, config, meta = model_config.load(folder, step)
    objective = meta['lineage']['objective']
    if form == 'transformers':
        # Tells in the dry run what cannot be.
        hugging_face.as_checkpoint(encoder, params['encoder'])
    elif type(encoder) is not RelationEncoder:
        raise InputError(
            f'{folder} has an encoder of the class {type(encoder).__name__}, and only that of a '
            "BERT has the form 'opql'"
        )
    elif objective not in ('TextRelations', 'Reading'):
        raise InputError(
            f'{folder} was trained neither by TextRelations nor by Reading: its encoder reads no '
            'text but its own'
        )
    typed = read_typed(typed_documents) if typed_documents else []
    if dry_run:
        print(f'# {encoder}')
        return
    tokenizer = read_text(files.path(folder) / 'tokenizer.json')
    if form == 'transformers':
        hugging_face.write(
            output, encoder, params['encoder'], Tokenizer.from_str(tokenizer), read_text(card)
        )
    elif objective == 'Reading':
        whole = {**params['encoder'], 'reader': params['reader']}
        released.write(output, encoder, whole, tokenizer, read_text(card), released.READER_FORMAT)
    else:
        released.write(output, encoder, params['encoder'], tokenizer, read_text(card))
        if typed:
            released.add_kinds(output, fit_mention_kinds(TextEncoder.load(output), typed))
    size = sum(path.stat().st_size for path in files.require_local(output).iterdir())
    _log.info('%s: step %d, %.1f MB', output, meta['step'], size / 1e6)
