"""A prepared folder as Python objects: vocabulary, tokenizer, passages, pairs and questions, read by everything that follows."""

import functools
import pathlib

import numpy as np
import pyarrow.compute as pc

from opql_jax.core.errors import InputError
from opql_jax.core.manifest import check_files, local_copy, manifest_hash, read_manifest
from opql_jax.corpus import tables
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.questions import Question, read_questions
from opql_jax.corpus.sentences import sentence_numbers
from opql_jax.data import passage_records
from opql_jax.data import tokenizer as tokenizer_lib

# Kinds of pairs, and why a folder may have none.
PAIR_KINDS = {
    'title': "no passage mentions an entity besides its title's",
    'sentence': 'no sentence mentions two entities',
    'all': 'no passage mentions two entities',
}


class Prepared:
    """The tables and records that `prepare` wrote. Each is opened on first use.

    Attributes:
        directory: pathlib.Path, of a copy on disk if the folder is in a bucket.
        manifest: the checked manifest.

    Raises:
        ManifestError: the folder is not a finished prepared folder, or one of its files is missing or damaged.
    """

    def __init__(self, directory):
        self.directory = local_copy(directory)
        self.manifest = read_manifest(self.directory, tables.PREPARED)
        check_files(self.directory, self.manifest, tables.PREPARED)

    def hash(self) -> str:
        """Hex SHA-256 that identifies the content of the folder, however it was made: of the digests of its files."""
        return manifest_hash(self.manifest['files'])

    @property
    def folders(self) -> list[dict]:
        """This folder and those that it continues, newest first: `prepared` (the hash), `entities`, `passages` (counts)."""
        own = {'prepared': self.hash(), 'entities': len(self.vocab), 'passages': len(self.passages)}
        return [own, *reversed(self.manifest.get('extends', []))]

    @functools.cached_property
    def vocab(self) -> EntityVocab:
        return EntityVocab.load(self.directory / 'entities.parquet')

    @property
    def tokenizer_path(self) -> pathlib.Path:
        return self.directory / 'tokenizer.json'

    @functools.cached_property
    def tokenizer(self):
        return tokenizer_lib.load_tokenizer(self.tokenizer_path)

    @functools.cached_property
    def special(self) -> tokenizer_lib.SpecialIds:
        return tokenizer_lib.special_ids(self.tokenizer)

    @functools.cached_property
    def records(self) -> passage_records.PassageRecords:
        """Tokenised passages; row = passage id."""
        return passage_records.PassageRecords(self.directory)

    @functools.cached_property
    def passages(self):
        """pyarrow.Table of `tables.PASSAGES`; row = passage id."""
        return tables.read_table(self.directory / 'passages.parquet', tables.PASSAGES)

    @functools.cached_property
    def pairs(self) -> dict[str, np.ndarray]:
        """Columns of pairs.parquet: topic, target, passage, topic_mention, target_mention [rows] int32, is_title [rows] bool."""
        table = tables.read_table(self.directory / 'pairs.parquet', tables.PAIRS)
        return {name: table[name].to_numpy() for name in table.column_names}

    def pair_rows(self, pairs: str = 'title') -> np.ndarray:
        """Rows of `pairs` [n] int64, rising, of one kind.

        Args:
            pairs: 'title' (page title and mention, both directions), 'sentence' (two mentions that begin in one sentence) or
                'all' (any two mentions of a passage).

        Raises:
            InputError: there is no such kind, or no such pair.
        """
        if pairs not in PAIR_KINDS:
            raise InputError(f'pairs={pairs!r}: {", ".join(map(repr, PAIR_KINDS))}')
        chosen = {'title': lambda: self.pairs['is_title'], 'sentence': self._in_one_sentence, 'all': lambda: True}[pairs]()
        rows = np.flatnonzero(np.broadcast_to(chosen, len(self.pairs['topic'])))
        if not len(rows):
            raise InputError(f'{self.directory} holds no {pairs} pairs: {PAIR_KINDS[pairs]}')
        return rows

    def pair_columns(self, pairs: str = 'title') -> dict[str, np.ndarray]:
        """The columns of the pairs of one kind, see `pair_rows`."""
        rows = self.pair_rows(pairs)
        return {name: column[rows] for name, column in self.pairs.items()}

    def _in_one_sentence(self):
        """[rows] bool: whether the two mentions of a row of `pairs` begin in one sentence."""
        mentions, sentences = (self.passages[name].combine_chunks() for name in ('mentions', 'sentence_starts'))
        mention_counts, sentence_counts = (pc.list_value_length(lists).to_numpy() for lists in (mentions, sentences))
        start, starts = mentions.flatten().field('start').to_numpy(), sentences.flatten().to_numpy()
        passage = self.pairs['passage']
        first = (np.cumsum(mention_counts) - mention_counts)[passage]
        topic, target = (
            sentence_numbers(starts, sentence_counts, passage, start[first + self.pairs[name]])
            for name in ('topic_mention', 'target_mention')
        )
        return topic == target

    @property
    def splits(self) -> list[str]:
        """The names of the question sets, such as '2-hop/dev', sorted."""
        folder = self.directory / 'questions'
        return sorted(path.relative_to(folder).with_suffix('').as_posix() for path in folder.rglob('*.jsonl'))

    def questions(self, split: str) -> list[Question]:
        """The questions of e.g. '2-hop/dev'; InputError names the splits there are."""
        if split not in self.splits:
            raise InputError(f'{self.directory} has no questions {split!r}, but {", ".join(self.splits) or "none at all"}')
        return read_questions(self.directory / 'questions' / f'{split}.jsonl', self.vocab)
