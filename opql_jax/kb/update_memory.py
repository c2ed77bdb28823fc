"""Changing a memory by what users know: new text, questions, names and documents. `memory.update` does it by ids."""

import contextlib
import logging
import time

import numpy as np

from opql_jax.core import files
from opql_jax.core.errors import InputError
from opql_jax.corpus.pairs import mutual_information
from opql_jax.corpus.questions import read_questions
from opql_jax.data.prepared import Prepared
from opql_jax.data.questions import is_file
from opql_jax.kb import pair_selection
from opql_jax.kb.build_memory import entries_of, log_progress, pair_rows
from opql_jax.kb.new_entities import embeddings
from opql_jax.memory import update as update_lib
from opql_jax.memory.coverage import covered
from opql_jax.memory.format import Memory, params_hash
from opql_jax.models.bulk_encoding import pair_encoder
from opql_jax.training import model_config

_log = logging.getLogger(__name__)


def inject(
    *,
    prepared_dir: str,
    model_dir: str,
    memory_dir: str,
    questions: tuple[str, ...] = (),
    pairs_per_entity: int = 100,
    step: int | None = None,
    dry_run: bool = False,
) -> None:
    """Adds entries to a memory, encoded by the frozen encoder that built it; one that was killed goes on where it was.

    Several processes encode together.

    Without `questions`, all pairs of the passages that the prepared folder has and the memory has not, of the kind that
    the memory was built from, also where `min_count` or `max_pairs` narrowed what it was built from.
    Entities that are new get an embedding from their mentions there, see `embeddings`.

    With `questions`, the paper's "+webqsp pairs": of each topic entity of these questions the pairs with the highest
    mutual information, in both directions, as far as the memory has none of that pair and direction; to do it again
    changes nothing. What was deleted before comes back if it is among them.

    Args:
        prepared_dir: folder written by `prepare`: the one the memory was built from, or one that continues it (`extends`).
        model_dir: workdir of the training run whose encoder built the memory.
        memory_dir: the memory.
        questions: splits of the prepared folder, such as ('1-hop/test',), or files of open questions (*.jsonl) that say what their
            mentions are.
        pairs_per_entity: see above.
        step: checkpoint to use; the newest if None.
        dry_run: print shapes and return.

    Raises:
        InputError: nothing to inject, a folder that does not continue the memory's, or another encoder.
    """
    if isinstance(questions, str):
        raise InputError(f"questions: write a tuple, ('{questions}',)")
    files.require_local(memory_dir)
    if pairs_per_entity < 1:
        raise InputError(f'pairs_per_entity={pairs_per_entity} must be at least 1')
    prepared = Prepared(prepared_dir)
    encoder, params, card, _ = model_config.load(model_dir, step)
    model_config.check_vocabulary(card, prepared, model_dir, grown=True)
    encoder_hash = params_hash(params['encoder'])
    with contextlib.closing(Memory.open(memory_dir, encoder_hash=encoder_hash)) as memory:
        covers, state = covered(memory, prepared), memory.hash()
        covered_passages, num_entities = covers['passages'], memory.manifest['num_entities']
        if questions:
            rows = _question_rows(memory, prepared, covers, questions, pairs_per_entity)
        else:
            rows = pair_rows(prepared, covers['pairs'])
            rows = rows[prepared.pairs['passage'][rows] >= covered_passages]
    new_passages, new_entities = len(prepared.passages) - covered_passages, len(prepared.vocab) - num_entities
    if dry_run:
        print(f'# {len(rows):,} pair rows to add, {new_passages:,} new passages, {new_entities:,} new entities')
        return
    if not (len(rows) or new_passages or new_entities):
        _log.info('%s has all of these pairs already', memory_dir)
        return
    if not len(rows):
        _log.warning('%s holds no %s pairs in its new passages: no entries to add', prepared_dir, covers['pairs'])
    encode = pair_encoder(card['pair_encoding'], encoder, params['encoder'], prepared)
    started = time.monotonic()
    changed = update_lib.inject(
        memory_dir,
        entries_of(prepared, rows),
        lambda entry_rows: encode(rows[entry_rows]),
        vocab=prepared.vocab,
        hashes={'encoder': encoder_hash},
        embed=lambda entities: embeddings(encoder, params, prepared, entities),
        covers=covers | {'prepared': prepared.hash(), 'passages': len(prepared.passages)},
        expected=state,
        progress=log_progress,
    )
    _log.info('%d entries in %s, %.0f s', len(changed), memory_dir, time.monotonic() - started)


def _question_rows(memory, prepared, covers, questions, pairs_per_entity):
    """Rows of the pair table: the best pairs of the topics of the questions that the memory has no entry of."""
    if covers['passages'] < len(prepared.passages):
        raise InputError(f'{memory.directory} lacks the new passages of {prepared.directory}: inject without questions first')
    topics = {entity for name in questions for entity in _topics_of(prepared, name)} - {-1}
    if not topics:
        raise InputError(f'{", ".join(questions)}: no question has a known topic')
    rows = pair_rows(prepared, covers['pairs'])
    topic, target = (prepared.pairs[side][rows] for side in ('topic', 'target'))
    n = len(prepared.vocab)
    keys = pair_selection.keys_of(topic, target, n)
    best = pair_selection.best_of_topics(mutual_information(prepared.passages), keys, n, list(topics), pairs_per_entity)
    has = np.isin(topic * np.int64(n) + target, memory.topic * np.int64(n) + memory.target)
    return rows[np.isin(keys, best) & ~has]


def _topics_of(prepared, name):
    if is_file(name):
        return [entity for question in read_questions(name, prepared.vocab) for entity in question.entities]
    return [question.topic_entity for question in prepared.questions(name)]


def delete(
    *,
    prepared_dir: str,
    memory_dir: str,
    entities: tuple[str, ...] = (),
    pairs: tuple[str, ...] = (),
    documents: tuple[str, ...] = (),
    passages: tuple[int, ...] = (),
    entries: tuple[int, ...] = (),
    dry_run: bool = False,
) -> None:
    """Deletes entries from a memory and prints how many; see `memory.update.delete`.

    Args:
        prepared_dir: the prepared folder the memory is opened with.
        memory_dir: the memory.
        entities: names or keys; all entries from or to them go.
        pairs: 'topic|target', names or keys; in that direction only.
        documents: ids of documents of the corpus; all that was read in them goes.
        passages: ids of passages, rows of passages.parquet.
        entries: ids of entries.
        dry_run: only print what would go.

    Raises:
        InputError: a name, document or id that there is not, or nothing to delete.
    """
    files.require_local(memory_dir)
    prepared = Prepared(prepared_dir)
    with contextlib.closing(Memory.open(memory_dir)) as memory:
        memory.check_vocabulary(prepared.vocab)
        if documents or passages:
            covered(memory, prepared)  # or the same ids are those of other text
    ids = {
        'entities': [prepared.vocab.id(name) for name in entities],
        'pairs': [_pair(prepared.vocab, pair) for pair in pairs],
        'passages': [*passages, *_passages_of(prepared, documents)],
        'entries': list(entries),
    }
    deleted = update_lib.delete(memory_dir, **ids, dry_run=dry_run)
    print(f'{"would delete" if dry_run else "deleted"} {len(deleted.entries):,} entries')
    if len(deleted.partly):
        shown = ', '.join(map(str, deleted.partly[:10])) + (', …' if len(deleted.partly) > 10 else '')
        print(f'{len(deleted.partly):,} of them are means that other passages had a part in, which is lost too: {shown}')


def _pair(vocab, pair):
    names = pair.split('|')
    if len(names) != 2:
        raise InputError(f"pair {pair!r}: write 'topic|target'")
    return tuple(vocab.id(name.strip()) for name in names)


def _passages_of(prepared, documents):
    if not documents:
        return []
    ids = np.array(prepared.passages['doc_id'].to_pylist(), object)
    if missing := sorted(set(documents) - set(ids)):
        raise InputError(f'{prepared.directory} has no document {missing[0]!r}')
    return np.flatnonzero(np.isin(ids, documents)).tolist()


def compact(*, memory_dir: str, dry_run: bool = False) -> None:
    """Merges the segments of a memory into one without the deleted entries; nothing that is asked of it changes.

    Args:
        memory_dir: the memory.
        dry_run: only print what it holds.
    """
    files.require_local(memory_dir)
    with contextlib.closing(Memory.open(memory_dir)) as memory:
        dead = (memory.manifest.get('tombstones') or {'num_entries': 0})['num_entries']
        print(f'# {len(memory):,} entries in {len(memory.manifest["segments"])} segments, {dead:,} deleted')
    if not dry_run:
        update_lib.compact(memory_dir).close()
