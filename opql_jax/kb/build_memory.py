"""Builds a memory: selects pairs of a prepared folder and encodes them (paper §2.4)."""

import logging
import time
from collections.abc import Mapping

import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.core.hashing import params_hash
from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.pair_selection import select_pair_rows
from opql_jax.data.prepared import Prepared
from opql_jax.kb.new_entities import embed_new_entities
from opql_jax.memory import build as build_lib
from opql_jax.memory.manifest import Covers
from opql_jax.models.bulk_encoding import pair_encoder
from opql_jax.training import model_config

_log = logging.getLogger(__name__)


def entry_table(prepared: Prepared, rows: np.ndarray) -> build_lib.EntryTable:
    """Rows of the pair table as entries with their provenance, in that order."""
    pairs = {name: column[rows] for name, column in prepared.pairs.items()}
    return build_lib.EntryTable.from_pairs(pairs, prepared.passages)


def memory_options(
    prepared: Prepared, params: Mapping, selection: Mapping, **options
) -> build_lib.BuildOptions:
    """The options of a memory of a prepared folder, with hashes of what it depends on.

    The model's `params` have 'encoder' and 'entity_table', empty if there is none; `selection` says
    how the pairs were chosen, as `Covers` states it.
    """
    hashes = {name: params_hash(params[name]) for name in ('encoder', 'entity_table')}
    return build_lib.BuildOptions(
        num_entities=len(prepared.vocab),
        hashes=hashes | {'vocabulary': prepared.vocab.hash()},
        covers=Covers(prepared=prepared.hash(), passages=len(prepared.passages), **selection),
        **options,
    )


def build_memory(
    *,
    kb: str,
    text: str = 'text',
    model: str = 'align',
    memory: str = 'memory',
    pairs: str = 'title',
    only_new: bool = False,
    mentions: str = 'all',
    shard_rows: int = 16384,
    dtype: str = 'float32',
    seed: int = 0,
    min_count: int = 1,
    max_pairs: int | None = None,
    step: int | None = None,
    dry_run: bool = False,
):
    """Encodes every selected pair and writes the memory.

    A build that was killed resumes, and several processes build together.

    Args:
        kb: the knowledge base.
        text, model, memory: whose pairs are encoded, whose encoder is used, and what is written.
        pairs, min_count, max_pairs: see `select_pair_rows`.
        only_new: takes only the passages that the folder adds to the one that it continues: the
            memory of another corpus, for models trained over a memory of the same encoder. Entities
            that the model lacks get embeddings from their mentions, see `embed_new_entities`.
        mentions, shard_rows, dtype, seed: see `BuildOptions`.
        step: checkpoint to use; the newest if None.
        dry_run: prints shapes and builds nothing.
    """
    folder = KBFolder(kb)
    model_dir, memory_dir = folder.part(model), folder.part(memory, new=True)
    prepared = Prepared(folder.part(text))
    encoder, params, card, _ = model_config.load(model_dir, step)
    model_config.check_vocabulary(card, prepared, model_dir, grown=only_new)
    selection: dict = {'pairs': pairs, 'min_count': min_count, 'max_pairs': max_pairs}
    if only_new:
        if len(prepared.folders) < 2:
            raise InputError(f'only_new: {prepared.directory} continues no other folder')
        selection['first_passage'] = prepared.folders[1].passages
    rows = select_pair_rows(prepared, **selection)
    new = np.arange(card.num_entities, len(prepared.vocab))
    if dry_run:
        counts = f'{len(rows):,} {pairs} pair rows of {len(prepared.vocab):,} entities'
        print(f'# {counts}, d_r {encoder.relation_dim}, {dtype}')
        return
    encode = pair_encoder(card.pair_encoding, encoder, params['encoder'], prepared)
    options = {'mentions': mentions, 'seed': seed, 'dtype': dtype, 'shard_rows': shard_rows}
    options['relation_dim'] = encoder.relation_dim
    started = time.monotonic()
    built = build_lib.build(
        memory_dir,
        entry_table(prepared, rows),
        lambda entry_rows: encode(rows[entry_rows]),
        memory_options(prepared, params, selection, **options),
        embed=(lambda: embed_new_entities(encoder, params, prepared, new)) if len(new) else None,
    )
    _log.info(
        'memory of %d entries in %s, %.0f s', len(built), memory_dir, time.monotonic() - started
    )
