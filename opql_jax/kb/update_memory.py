"""Changes a memory by new text, questions, names and documents; `memory.update` works on ids.

`inject` adds entries, `delete` removes some, `compact` frees the space of removed ones;
`update_memory` is the binary's choice of them.
"""

import contextlib
import dataclasses
import logging
import time

import msgspec
import numpy as np

from opql_jax.core import distributed, files
from opql_jax.core.errors import InputError
from opql_jax.core.hashing import params_hash
from opql_jax.corpus.pairs import mutual_information
from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.pair_selection import best_pairs_of_topics, pair_keys, select_pair_rows
from opql_jax.data.prepared import Prepared
from opql_jax.kb.build_memory import entry_table
from opql_jax.kb.new_entities import embed_new_entities
from opql_jax.kb.trained.question_sets import as_tuple, load_questions
from opql_jax.memory import update as update_lib
from opql_jax.memory.coverage import covered
from opql_jax.memory.format import Memory
from opql_jax.models.bulk_encoding import pair_encoder
from opql_jax.training import model_config

_log = logging.getLogger(__name__)

ACTIONS = ('inject', 'delete', 'compact')


@dataclasses.dataclass(frozen=True)
class Selection:
    """The entries to delete: all that any of these name.

    Attributes:
        entities: names or keys; all entries from or to them.
        pairs: 'topic|target', names or keys; in that direction only.
        documents: ids of documents of the corpus; all that was read in them.
        passages: ids of passages, rows of passages.parquet.
        entries: ids of entries.
    """

    entities: tuple[str, ...] = ()
    pairs: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    passages: tuple[int, ...] = ()
    entries: tuple[int, ...] = ()


def update_memory(
    *,
    action: str,
    kb: str,
    text: str | None = None,
    model: str = 'align',
    memory: str | None = None,
    questions: str | tuple[str, ...] = (),
    pairs_per_entity: int = 100,
    selection: Selection = Selection(),
    step: int | None = None,
    dry_run: bool = False,
) -> None:
    """Adds entries to a memory, deletes some, or frees the space of deleted ones.

    Text that is injected into the memory of the knowledge base's manifest becomes the text of the
    manifest.

    Args:
        action: 'inject', 'delete' or 'compact', which are the functions of these names.
        kb, text, memory: the knowledge base, and its parts that the action reads and changes; those
            of the manifest if None.
        model: the part that is the `model_dir` of `inject`.
        questions, pairs_per_entity, step, selection, dry_run: see these functions.

    Raises:
        InputError: another action, a selection that the action ignores, or no manifest that says
            what is to be changed.
    """
    if action not in ACTIONS:
        raise InputError(f'action={action!r}: it is one of {", ".join(ACTIONS)}')
    if action != 'inject' and distributed.process_count() > 1:
        raise InputError(f'{action} works in one process: start it on one host')
    if action != 'delete' and selection != Selection():
        raise InputError(f'{action} takes no entries to delete: --gin.ACTION=delete does')
    folder = KBFolder(kb)
    if (memory := folder.choose(memory=memory)['memory']) is None:
        named = '--gin.MEMORY=... names the one that is to be changed'
        raise InputError(f'{kb} answers without a memory: {named}')
    memory_dir = str(folder.part(memory))
    if action == 'compact':
        return compact(memory_dir, dry_run=dry_run)
    text = folder.choose(text=text)['text']
    prepared_dir = str(folder.part(text))
    if action == 'delete':
        return delete(prepared_dir, memory_dir, selection, dry_run=dry_run)
    folders = prepared_dir, str(folder.part(model)), memory_dir
    inject(*folders, questions, pairs_per_entity, step=step, dry_run=dry_run)
    if not dry_run and distributed.is_primary():
        folder.move_text(memory, text)


def inject(
    prepared_dir: str,
    model_dir: str,
    memory_dir: str,
    questions: str | tuple[str, ...] = (),
    pairs_per_entity: int = 100,
    *,
    step: int | None = None,
    dry_run: bool = False,
) -> None:
    """Adds entries to a memory, encoded by the frozen encoder that built it.

    A killed injection resumes where it was, and several processes encode together.

    Without `questions`: all pairs of the passages that the prepared folder has and the memory has
    not, of the kind that the memory was built from, whatever `min_count` and `max_pairs` were. New
    entities get an embedding from their mentions there, see `embed_new_entities`.

    With `questions` (the paper's "+webqsp pairs", §4.2): for each topic entity of the questions the
    pairs with the highest mutual information, in both directions, as far as the memory has no entry
    of that pair and direction. Entries that were deleted come back if they are among them.

    Args:
        prepared_dir: the folder of `prepare` that the memory was built from, or that continues it.
        model_dir: workdir of the training run whose encoder built the memory.
        memory_dir: the memory.
        questions: one question set or several, see `load_questions`; in files the `entities` say
            what the topics are.
        pairs_per_entity: pairs of each topic entity.
        step: checkpoint to use; the newest if None.
        dry_run: prints shapes and adds nothing.

    Raises:
        InputError: a folder that does not continue the memory's, or another encoder.
    """
    files.require_local(memory_dir)
    if pairs_per_entity < 1:
        raise InputError(f'pairs_per_entity={pairs_per_entity} must be at least 1')
    prepared = Prepared(prepared_dir)
    encoder, params, card, _ = model_config.load(model_dir, step)
    model_config.check_vocabulary(card, prepared, model_dir, grown=True)
    encoder_hash = params_hash(params['encoder'])
    with contextlib.closing(Memory.open(memory_dir, encoder_hash=encoder_hash)) as memory:
        covers, state = covered(memory, prepared), memory.hash()
        covered_passages, num_entities = covers.passages, memory.manifest.num_entities
        if questions:
            of = as_tuple(questions), pairs_per_entity
            rows = _missing_pairs_of_topics(memory, prepared, covers, *of)
        else:
            rows = select_pair_rows(prepared, covers.pairs)
            rows = rows[prepared.pairs['passage'][rows] >= covered_passages]
    new_passages = len(prepared.passages) - covered_passages
    new_entities = len(prepared.vocab) - num_entities
    if dry_run:
        new = f'{new_passages:,} new passages, {new_entities:,} new entities'
        print(f'# {len(rows):,} pair rows to add, {new}')
        return
    if not (len(rows) or new_passages or new_entities):
        _log.info('%s has all of these pairs already', memory_dir)
        return
    if not len(rows):
        none = '%s holds no %s pairs in its new passages: no entries to add'
        _log.warning(none, prepared_dir, covers.pairs)
    encode = pair_encoder(card.pair_encoding, encoder, params['encoder'], prepared)
    started = time.monotonic()
    changed = update_lib.inject(
        memory_dir,
        entry_table(prepared, rows),
        lambda entry_rows: encode(rows[entry_rows]),
        update_lib.Injection(
            vocab=prepared.vocab,
            encoder_hash=encoder_hash,
            embed=lambda entities: embed_new_entities(encoder, params, prepared, entities),
            covers=msgspec.structs.replace(
                covers, prepared=prepared.hash(), passages=len(prepared.passages)
            ),
            expected_state=state,
        ),
    )
    _log.info('%d entries in %s, %.0f s', len(changed), memory_dir, time.monotonic() - started)


def _missing_pairs_of_topics(memory, prepared, covers, questions, pairs_per_entity):
    """Rows of the pair table: the best pairs of the questions' topics that the memory lacks."""
    if covers.passages < len(prepared.passages):
        lacks = f'{memory.directory} lacks the new passages of {prepared.directory}'
        raise InputError(f'{lacks}: inject without questions first')
    asked = [q for name in questions for q in load_questions(name, prepared)]
    topics = {entity for q in asked for entity in q.entities} - {-1}
    if not topics:
        raise InputError(f'{", ".join(questions)}: no question has a known topic')
    rows = select_pair_rows(prepared, covers.pairs)
    topic, target = (prepared.pairs[side][rows] for side in ('topic', 'target'))
    n = len(prepared.vocab)
    keys, information = pair_keys(topic, target, n), mutual_information(prepared.passages)
    best = best_pairs_of_topics(information, keys, n, list(topics), pairs_per_entity)
    has = np.isin(topic * np.int64(n) + target, memory.topic * np.int64(n) + memory.target)
    return rows[np.isin(keys, best) & ~has]


def delete(
    prepared_dir: str, memory_dir: str, selection: Selection, *, dry_run: bool = False
) -> None:
    """Deletes entries from a memory of prepared text, and prints how many that are, or would be.

    InputError: an unknown name, document or id, or nothing to delete.
    """
    files.require_local(memory_dir)
    prepared = Prepared(prepared_dir)
    with contextlib.closing(Memory.open(memory_dir)) as memory:
        memory.check_vocabulary(prepared.vocab)
        if selection.documents or selection.passages:
            covered(memory, prepared)  # or the same ids are those of other text
    ids = np.array(prepared.passages['doc_id'].to_pylist() if selection.documents else [], object)
    if missing := sorted(set(selection.documents) - set(ids)):
        raise InputError(f'{prepared.directory} has no document {missing[0]!r}')
    passages = np.flatnonzero(np.isin(ids, selection.documents)).tolist()
    deleted = update_lib.delete(
        memory_dir,
        entities=[prepared.vocab.id(name) for name in selection.entities],
        pairs=[_pair(prepared.vocab, pair) for pair in selection.pairs],
        passages=[*selection.passages, *passages],
        entries=list(selection.entries),
        dry_run=dry_run,
    )
    print(f'{"would delete" if dry_run else "deleted"} {len(deleted.entries):,} entries')
    if len(deleted.partly):
        shown = ', '.join(map(str, deleted.partly[:10])) + ', …' * (len(deleted.partly) > 10)
        are_means = 'are means that mentions in other passages are part of, lost with them'
        print(f'{len(deleted.partly):,} of them {are_means}: {shown}')


def _pair(vocab, pair):
    names = pair.split('|')
    if len(names) != 2:
        raise InputError(f"pair {pair!r}: write 'topic|target'")
    return tuple(vocab.id(name.strip()) for name in names)


def compact(memory_dir: str, *, dry_run: bool = False) -> None:
    """Merges a memory's segments, without the deleted entries, or only prints what it holds."""
    files.require_local(memory_dir)
    with contextlib.closing(Memory.open(memory_dir)) as memory:
        dead = memory.manifest.tombstones.num_entries if memory.manifest.tombstones else 0
        segments = len(memory.manifest.segments)
        print(f'# {len(memory):,} entries in {segments} segments, {dead:,} deleted')
    if not dry_run:
        update_lib.compact(memory_dir).close()
