"""A prepared folder as Python objects: vocabulary, tokenizer, passages, pairs and questions."""

import functools
import pathlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from opql_jax.core import manifest as manifest_lib
from opql_jax.core.errors import InputError, NotFound, check_choice
from opql_jax.corpus import tables
from opql_jax.corpus.documents import stated_date
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.questions import Question, read_questions
from opql_jax.corpus.sentences import sentence_numbers
from opql_jax.corpus.splitting import title_length
from opql_jax.data import passage_records
from opql_jax.data import tokenizer as tokenizer_lib

# Kinds of pairs, and why a folder may have none.
PAIR_KINDS = {
    'title': "no passage mentions an entity besides its title's",
    'sentence': 'no sentence mentions two entities',
    'near': "no sentence mentions two entities, and no passage one besides its title's",
    'all': 'no passage mentions two entities',
}


class Prepared:
    """The tables and records that `prepare` wrote, each checked and opened on first use.

    `directory` is a copy on disk if the folder is in a bucket. ManifestError: the folder is not a
    finished prepared folder, or one of its files is missing or damaged.
    """

    def __init__(self, directory):
        self.directory = manifest_lib.local_copy(directory)
        self.manifest = manifest_lib.read_manifest(self.directory, tables.PREPARED)
        manifest_lib.check_files(self.directory, self.manifest, tables.PREPARED)

    def file(self, name: str) -> pathlib.Path:
        """A file of the folder, whose content is what the manifest says."""
        return manifest_lib.checked_file(self.directory, name, self.manifest, tables.PREPARED)

    def check(self) -> None:
        """Opens everything there is; raises InputError naming the first file that is damaged."""
        for part in (self.vocab, self.special, self.records, self.passages, self.pairs):
            del part
        for split in self.splits:
            self.questions(split)
        for name in self.manifest.files:
            self.file(name)

    def hash(self) -> str:
        """Hex SHA-256 of the folder's content, however it was made: of its files' digests."""
        return manifest_lib.manifest_hash(self.manifest.files)

    @property
    def folders(self) -> list[tables.Extended]:
        """This folder and those that it continues, newest first."""
        this = tables.Extended(self.hash(), len(self.vocab), len(self.passages))
        return [this, *reversed(self.manifest.extends)]

    @functools.cached_property
    def vocab(self) -> EntityVocab:
        return EntityVocab.load(self.file('entities.parquet'), self.manifest.counts.entities)

    @property
    def tokenizer_path(self) -> pathlib.Path:
        return self.file('tokenizer.json')

    @functools.cached_property
    def tokenizer(self):
        return tokenizer_lib.load_tokenizer(self.tokenizer_path)

    @functools.cached_property
    def special(self) -> tokenizer_lib.SpecialIds:
        return tokenizer_lib.special_ids(self.tokenizer)

    @functools.cached_property
    def records(self) -> passage_records.PassageRecords:
        """Tokenised passages; row = passage id."""
        records = passage_records.PassageRecords(self.file(passage_records.FILE_NAME))
        if len(records) != self.manifest.counts.passages:
            stated = f'the manifest says {self.manifest.counts.passages} passages'
            found = f'{len(records)} rows, {stated}'
            raise tables.PREPARED.damaged(records.path, found)
        return records

    @functools.cached_property
    def passages(self) -> pa.Table:
        """A table of `tables.PASSAGES`; row = passage id."""
        counts, file = self.manifest.counts, self.file('passages.parquet')
        table = tables.read_table(file, tables.PASSAGES, rows=counts.passages)
        lengths = tables.numbers(pc.utf8_length(table['text']))
        titles = tables.numbers(table['title_entity'])
        tables.check_ids(file, 'title_entity', titles, counts.entities, least=-1)
        mentions, starts = (table[n].combine_chunks() for n in ('mentions', 'sentence_starts'))
        flat = mentions.flatten()
        start, end, entity = (tables.numbers(flat.field(n)) for n in ('start', 'end', 'entity'))
        tables.check_ids(file, 'the entity of a mention', entity, counts.entities)
        of_mention, of_start = (
            np.repeat(np.arange(len(table)), tables.numbers(pc.list_value_length(lists)))
            for lists in (mentions, starts)
        )
        bad_mentions = of_mention[(start < 0) | (end <= start) | (end > lengths[of_mention])]
        starts = tables.numbers(starts.flatten())
        falls = (of_start[1:] == of_start[:-1]) & (starts[1:] <= starts[:-1])
        outside = of_start[(starts < 0) | (starts > lengths[of_start])]
        if len(bad := np.concatenate([bad_mentions, outside, of_start[1:][falls]])):
            told = f'row {bad[0]}: a mention or a sentence is not in its text'
            raise tables.PREPARED.damaged(file, told)
        return table

    def passage(self, number: int) -> dict[str, Any]:
        """A row of `passages`."""
        return self.passages.slice(number, 1).to_pylist()[0]

    def document_text(self, name: str) -> str:
        """A document's text by its id; NotFound if there is none, or documents are not kept."""
        if (text := (self._documents or {}).get(name)) is None:
            raise NotFound(f'no document has the id {name!r}')
        return text

    def document_date(self, name: str) -> str | None:
        """The day that a document states at its beginning, see `stated_date`; None if none."""
        return stated_date((self._documents or {}).get(name, ''))

    def document_offset(self, passage: int, place: int = 0) -> int | None:
        """The offset in its document of a character of a passage; None without documents."""
        if self._passage_starts is None:
            return None
        start, cut = self._passage_starts[passage].tolist()
        return start + max(place - cut, 0)

    @functools.cached_property
    def _documents(self) -> dict[str, str] | None:
        """The texts of documents by their ids; None if they are not kept."""
        if tables.DOCUMENTS_FILE not in self.manifest.files:
            return None
        texts = tables.read_table(
            self.file(tables.DOCUMENTS_FILE), tables.DOCUMENTS, nullable=('title_entity',)
        )
        return dict(zip(texts['id'].to_pylist(), texts['text'].to_pylist()))

    @functools.cached_property
    def _passage_starts(self) -> np.ndarray | None:
        """[passages, 2] int64: a passage's place in its document, and its title prefix's length.

        None without documents. Passages leave out only space, so each is found after the one
        before.
        """
        if self._documents is None:
            return None
        starts = np.zeros((len(self.passages), 2), np.int64)
        reached = dict.fromkeys(self._documents, 0)
        columns = (self.passages[name].to_pylist() for name in ('doc_id', 'title', 'text'))
        for row, (document, title, text) in enumerate(zip(*columns)):
            cut, whole = title_length({'title': title, 'text': text}), self._documents[document]
            start = whole.find(text[cut:], reached[document])
            if whole[max(start - cut, 0) : start] == text[:cut]:  # the document itself begins so
                start, cut = start - cut, 0
            starts[row], reached[document] = (start, cut), start + len(text) - cut
        return starts

    @functools.cached_property
    def pairs(self) -> dict[str, np.ndarray]:
        """The columns of pairs.parquet, [rows] int32; `is_title` is bool."""
        counts, file = self.manifest.counts, self.file('pairs.parquet')
        table = tables.read_table(file, tables.PAIRS, rows=counts.pair_rows)
        pairs = {name: table[name].to_numpy() for name in table.column_names}
        for name in ('topic', 'target'):
            tables.check_ids(file, name, pairs[name], counts.entities)
        tables.check_ids(file, 'passage', pairs['passage'], counts.passages)
        return pairs

    def pair_rows(self, pairs: str = 'title') -> np.ndarray:
        """Rows of `pairs` [n] int64, rising, of one kind; InputError if there is none.

        'title' (page title and mention), 'sentence' (begin in one sentence), 'near' (either) or
        'all'.
        """
        check_choice('pairs', pairs, PAIR_KINDS)
        chosen = np.full(len(self.pairs['topic']), pairs == 'all')
        if pairs in ('title', 'near'):
            chosen |= self.pairs['is_title']
        if pairs in ('sentence', 'near'):
            chosen |= self._in_one_sentence()
        rows = np.flatnonzero(chosen)
        if not len(rows):
            raise InputError(f'{self.directory} holds no {pairs} pairs: {PAIR_KINDS[pairs]}')
        return rows

    def pair_columns(self, pairs: str = 'title') -> dict[str, np.ndarray]:
        """The columns of the pairs of one kind, see `pair_rows`."""
        rows = self.pair_rows(pairs)
        return {name: column[rows] for name, column in self.pairs.items()}

    def _in_one_sentence(self):
        """[rows] bool: whether the two mentions of a row of `pairs` begin in one sentence."""
        mentions, sentences = (
            self.passages[name].combine_chunks() for name in ('mentions', 'sentence_starts')
        )
        counts = (pc.list_value_length(lists).to_numpy() for lists in (mentions, sentences))
        mention_counts, sentence_counts = counts
        start, starts = mentions.flatten().field('start').to_numpy(), sentences.flatten().to_numpy()
        passage, file = self.pairs['passage'], self.directory / 'pairs.parquet'
        for name in ('topic_mention', 'target_mention'):
            tables.check_ids(file, name, self.pairs[name], mention_counts[passage])
        first = (np.cumsum(mention_counts) - mention_counts)[passage]
        topic, target = (
            sentence_numbers(starts, sentence_counts, passage, start[first + self.pairs[name]])
            for name in ('topic_mention', 'target_mention')
        )
        return topic == target

    @property
    def splits(self) -> list[str]:
        """The names of the question sets, such as '2-hop/dev', sorted."""
        files = (name for name in self.manifest.files if name.startswith('questions/'))
        return sorted(n.removeprefix('questions/').removesuffix('.jsonl') for n in files)

    def questions(self, split: str) -> list[Question]:
        """The questions of e.g. '2-hop/dev'; InputError names the splits there are."""
        if split not in self.splits:
            known = ', '.join(self.splits) or 'none at all'
            raise InputError(f'{self.directory} has no questions {split!r}, but {known}')
        return read_questions(self.file(f'questions/{split}.jsonl'), self.vocab)
