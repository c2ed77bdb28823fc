"""A corpus for retrieval: passages' words, sentence vectors, and the entities they name.

`build` writes a folder and `RetrievalIndex.open` reads it. The folder holds

- `passages.parquet`: a row per passage: `id`, `title`, `text`, and `title_entity`, the entity that
  the title names or -1;
- `sentence_counts.npy` [passages] and `sentence_starts.npy` [sentences] int32: where sentences
  start, passage by passage;
- `passage_vectors.npy` [passages, d] and `sentence_vectors.npy` [sentences, d] int8: directions,
  whose vectors have unit length;
- `mentions.npy` [mentions, 2] int32: a sentence and an entity that it names, by itself or inside of
  another name, rising, each pair once; the first sentence also has the names inside of the title;
- `entities.parquet`: the kind of each entity; `mention_kinds.npy` [n, 4] float16: what tells it,
  for the next version of the text;
- `words.parquet`, `word_starts.npy`, `word_passages.npy`, `word_scores.npy`: for each word the
  passages that have it, with their BM25 scores (float32), as the columns of a sparse matrix;
- `word_sentence_starts.npy`, `word_sentences.npy`: for each word the sentences that have it, in the
  same form.

Where all numbers of an integer array fit, uint16 is stored.
"""

from __future__ import annotations

import collections
import functools
import io
import itertools
import os
import pathlib
from collections.abc import Sequence
from typing import Annotated

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from opql_jax.core import files
from opql_jax.core.arrays import (
    MAX_MAGNITUDE,
    SCALE_BYTES,
    ArraySchema,
    narrowed,
    packed,
    read_array,
)
from opql_jax.core.errors import InputError
from opql_jax.core.manifest import (
    MANIFEST,
    FolderFormat,
    Manifest,
    ManifestError,
    Plan,
    check_files,
    checked_file,
    is_folder_of,
    local_copy,
    plan_update,
    read_manifest,
    write_manifest,
)
from opql_jax.corpus import tables
from opql_jax.corpus.entities import LONGEST_KIND
from opql_jax.corpus.sentences import sentence_numbers
from opql_jax.retrieval.corpus import Corpus
from opql_jax.retrieval.inner_names import inner_names
from opql_jax.retrieval.words import words_of

Count = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]


class IndexManifest(Manifest, forbid_unknown_fields=True, kw_only=True):
    """An index's manifest: counts, the vectors' width, and the hash of what made the vectors."""

    passages: Count
    sentences: Count
    entities: Count
    dim: Count
    encoded_by: str


FORMAT = FolderFormat('opql-retrieval', 3, 'a retrieval index', '`opql index`', IndexManifest)
PLAN = FolderFormat(
    'opql-retrieval-plan',
    1,
    'an unfinished retrieval index',
    'opql index',
    Plan,
    'plan.json',
    'delete the folder',
)
_PASSAGES = pa.schema(
    [*((name, pa.string()) for name in ('id', 'title', 'text')), ('title_entity', pa.int32())]
)
_WORDS = pa.schema([('word', pa.string())])
_ENTITIES = pa.schema([('kind', pa.string())])
# What each array has to be. `words` is the number of rows of `words.parquet`; the last one of an
# array of offsets is how many there are in the next one, which is read after it.
_ARRAYS = {
    'sentence_counts': ArraySchema(
        'int32', ('passages',), ids=('sentences + 1',), total='sentences'
    ),
    'sentence_starts': ArraySchema('int32', ('sentences',)),
    'passage_vectors': ArraySchema('int8', ('passages', 'dim')),
    'sentence_vectors': ArraySchema('int8', ('sentences', 'dim')),
    'mentions': ArraySchema('int32', (None, 2), ids=('sentences', 'entities')),
    'mention_kinds': ArraySchema('float16', (None, 4), largest=MAX_MAGNITUDE),
    'word_starts': ArraySchema('int64', ('words + 1',), offsets=True),
    'word_passages': ArraySchema('int32', ('word_starts',), ids=('passages',)),
    'word_scores': ArraySchema('float32', ('word_starts',), largest=MAX_MAGNITUDE),
    'word_sentence_starts': ArraySchema('int64', ('words + 1',), offsets=True),
    'word_sentences': ArraySchema('int32', ('word_sentence_starts',), ids=('sentences',)),
}
# BM25 (Robertson and Zaragoza, 2009). A title counts twice, as if it stood twice before its text.
_K1, _B = 1.2, 0.75
_TITLE_TIMES = 2


def build(folder: str | os.PathLike, corpus: Corpus) -> RetrievalIndex:
    """Writes the index of a corpus, the manifest last, and opens it.

    Raises:
        InputError: a vector is not finite, or `folder` holds something else than an index that was
            not finished.
    """
    target = files.require_local(folder)
    is_new = not target.exists() or (target.is_dir() and not any(target.iterdir()))
    if not is_new and (os.path.lexists(target / MANIFEST) or not is_folder_of(target, PLAN)):
        raise InputError(f'{target}: exists; name a new folder for the index')
    counts = np.array([len(starts) for starts in corpus.sentence_starts], np.int32)
    starts = np.array([start for each in corpus.sentence_starts for start in each], np.int32)
    in_sentences = [
        [words_of(text[a:b]) for a, b in itertools.pairwise([*rising, len(text)])]
        for text, rising in zip(corpus.texts, corpus.sentence_starts)
    ]
    words, matrix = _bm25(
        corpus.titles, [[word for sentence in each for word in sentence] for each in in_sentences]
    )
    of_sentences = _words_of_sentences(words, list(itertools.chain(*in_sentences)))
    arrays = {
        'sentence_counts': counts,
        'sentence_starts': starts,
        'passage_vectors': _directions(corpus.passage_vectors),
        'sentence_vectors': _directions(corpus.sentence_vectors),
        'mentions': _mentions_of_sentences(_with_inner_names(corpus), counts, starts),
        'mention_kinds': corpus.mention_kinds,
        'word_starts': matrix.indptr.astype(np.int64),
        'word_passages': matrix.indices.astype(np.int32),
        'word_scores': matrix.data,
        'word_sentence_starts': of_sentences.indptr.astype(np.int64),
        'word_sentences': of_sentences.indices.astype(np.int32),
    }
    passages = [list(column) for column in (corpus.ids, corpus.titles, corpus.texts)]
    of_tables = {
        'passages': pa.table(
            [*passages, np.asarray(corpus.title_entities, np.int32)], schema=_PASSAGES
        ),
        'words': pa.table([words], schema=_WORDS),
        'entities': pa.table([list(corpus.kinds)], schema=_ENTITIES),
    }
    names = [*(f'{name}.npy' for name in arrays), *(f'{name}.parquet' for name in of_tables)]
    # So that whoever finds it unfinished knows what of it may go.
    plan_update(target, PLAN, (), names)
    for name, array in arrays.items():
        buffer = io.BytesIO()
        np.save(buffer, narrowed(array), allow_pickle=False)
        with files.atomic_path(target / f'{name}.npy') as partial:
            partial.write_bytes(buffer.getbuffer())
    for name, table in of_tables.items():
        tables.write_table(target / f'{name}.parquet', table.to_batches(), table.schema)
    stated: dict = dict(passages=len(counts), sentences=len(starts), entities=len(corpus.names))
    stated |= dict(dim=corpus.passage_vectors.shape[1], encoded_by=corpus.encoded_by)
    write_manifest(target, FORMAT, stated, {name: files.digest(target / name) for name in names})
    (target / PLAN.file).unlink()
    return RetrievalIndex.open(target)


class RetrievalIndex:
    """An index in memory, with the lookups that ranking needs.

    Attributes:
        ids, titles, texts: of the passages.
        title_entity: [passages] int32, or -1.
        first_sentence: [passages + 1] int64: the sentences of passage p are rows first_sentence[p]
            to first_sentence[p + 1].
        passage_of_sentence: [sentences] the passage of each.
        sentence_starts: [sentences] int32, in the text of their passage.
        vectors: [passages + sentences, d] float32, passages first.
        num_entities: how many there are.
        entities_of_sentence: [sentences, entities] sparse, 1 where a sentence names an entity.
        passages_of_entity: [passages, entities] sparse by columns, 1 where a passage names an
            entity in text or title.
        passages_titled: [passages, entities] sparse by columns, 1 where the title does.
        passages_naming: the former without the latter.
        naming_starts, naming_counts: for each entry of `passages_naming` where in
            `sentences_of_entity.indices` the sentences are that name the entity in that passage,
            and how many.
        word_ids: word -> column of `words`.
        words: [passages, words] sparse by columns, BM25 scores.
        words_of_sentence: [sentences, words] sparse by columns, 1 where a sentence has a word.
        sentences_of_entity: `entities_of_sentence` by columns.
    """

    def __init__(
        self,
        passages: pa.Table,
        words: Sequence[str],
        num_entities: int,
        arrays: dict[str, np.ndarray],
    ):
        self.ids, self.titles, self.texts = (
            passages[name].to_pylist() for name in ('id', 'title', 'text')
        )
        self.title_entity = tables.numbers(passages['title_entity'])
        self.num_entities = num_entities
        counts = arrays['sentence_counts']
        self.first_sentence = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        self.sentence_starts = arrays['sentence_starts']
        self.vectors = np.concatenate([arrays['passage_vectors'], arrays['sentence_vectors']])
        sentence, entity = arrays['mentions'].T
        shape = (len(self.ids), num_entities)
        self.entities_of_sentence = sp.csr_matrix(
            (np.ones(len(entity), np.float32), (sentence, entity)),
            (len(self.sentence_starts), num_entities),
        )
        self.sentences_of_entity = self.entities_of_sentence.tocsc()
        titled = np.flatnonzero(self.title_entity >= 0)
        self.passages_titled = _incidence(titled, self.title_entity[titled], shape)
        self.passage_of_sentence = np.repeat(np.arange(len(counts)), counts)
        passage = self.passage_of_sentence[sentence]
        self.passages_of_entity = _incidence(
            np.concatenate([passage, titled]),
            np.concatenate([entity, self.title_entity[titled]]),
            shape,
        )
        self._group_mentions()
        self.word_ids = {word: column for column, word in enumerate(words)}
        self.words = sp.csc_matrix(
            (arrays['word_scores'], arrays['word_passages'], arrays['word_starts']),
            (len(self.ids), len(self.word_ids)),
        )
        ones = np.ones(len(arrays['word_sentences']), np.float32)
        self.words_of_sentence = sp.csc_matrix(
            (ones, arrays['word_sentences'], arrays['word_sentence_starts']),
            (len(self.sentence_starts), len(self.word_ids)),
        )

    @classmethod
    def open(cls, folder: str | os.PathLike) -> RetrievalIndex:
        """Reads the index in a folder; ManifestError if there is none, or it is damaged."""
        return IndexFolder(folder).load()

    def _group_mentions(self) -> None:
        """Sets `passages_naming`, `naming_starts` and `naming_counts`."""
        by_entity = self.sentences_of_entity
        entity = np.repeat(np.arange(self.num_entities), np.diff(by_entity.indptr))
        passage = self.passage_of_sentence[by_entity.indices]
        changes = (np.diff(entity, prepend=-1) != 0) | (np.diff(passage, prepend=-1) != 0)
        starts = np.flatnonzero(changes)
        counts = np.diff(starts, append=len(entity))
        kept = self.title_entity[passage[starts]] != entity[starts]
        self.naming_starts, self.naming_counts = starts[kept], counts[kept]
        self.passages_naming = _incidence(
            passage[starts[kept]], entity[starts[kept]], self.passages_titled.shape
        )

    def sentence(self, row: int) -> tuple[int, int]:
        """Start and end of a sentence in the text of its passage."""
        passage = self.passage_of_sentence[row]
        last = row + 1 == self.first_sentence[passage + 1]
        end = len(self.texts[passage]) if last else self.sentence_starts[row + 1]
        return int(self.sentence_starts[row]), int(end)

    def columns_of(self, text: str) -> list[int]:
        """The columns of `words` that have a text's words, rising."""
        return sorted({self.word_ids[word] for word in words_of(text) if word in self.word_ids})


def _incidence(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> sp.csc_matrix:
    """A sparse matrix, by columns, that is 1 at some places, however often each is given."""
    matrix = sp.csc_matrix((np.ones(len(rows), np.float32), (rows, columns)), shape)
    matrix.sum_duplicates()
    matrix.data[:] = 1
    return matrix


def _with_inner_names(corpus: Corpus) -> np.ndarray:
    """The mentions of a corpus, [n, 4], with names in them and (as if at text starts) in titles."""
    inner = inner_names(corpus.names)
    inside = [(*span, name) for *span, entity in corpus.mentions.tolist() for name in inner[entity]]
    of_passages = enumerate(zip(corpus.title_entities, corpus.sentence_starts))
    titles = [
        (passage, start[0], start[0] + 1, name)
        for passage, (entity, start) in of_passages
        if entity >= 0 and len(start)
        for name in inner[entity]
    ]
    return np.concatenate(
        [corpus.mentions.reshape(-1, 4), np.array(inside + titles, np.int64).reshape(-1, 4)]
    )


def _mentions_of_sentences(
    mentions: np.ndarray, counts: np.ndarray, starts: np.ndarray
) -> np.ndarray:
    """[n, 2] the sentence in which each mention starts and its entity, rising, each pair once."""
    passage, start, _, entity = mentions.astype(np.int64).reshape(-1, 4).T
    # Before the first sentence of a passage there is only space.
    sentence = sentence_numbers(starts, counts, passage, start) - 1
    return np.unique(np.stack([sentence, entity], 1), axis=0).astype(np.int32).reshape(-1, 2)


def _directions(vectors: np.ndarray) -> np.ndarray:
    """Vectors [n, d] as int8; InputError if one is not finite."""
    if len(bad := np.flatnonzero(~np.isfinite(vectors).all(1))):
        raise InputError(f'vector {bad[0]} is not finite: the encoder is damaged')
    return packed(vectors)[:, :-SCALE_BYTES]


def _unit(directions: np.ndarray) -> np.ndarray:
    """The vectors [n, d] float32 of directions, of unit length; zeros stay."""
    vectors = directions.astype(np.float32)
    lengths = np.sqrt(np.einsum('nd,nd->n', vectors, vectors))
    vectors /= np.maximum(lengths, 1)[:, None]
    return vectors


def _words_of_sentences(words: list[str], sentences: list[list[str]]) -> sp.csc_matrix:
    """[sentences, words], by columns, 1 where a sentence has a word."""
    ids = {word: column for column, word in enumerate(words)}
    columns = np.array([ids[word] for sentence in sentences for word in sentence], np.int32)
    rows = np.repeat(np.arange(len(sentences), dtype=np.int32), list(map(len, sentences)))
    return _incidence(rows, columns, (len(sentences), len(words)))


def _bm25(titles: Sequence[str], texts: Sequence[list[str]]) -> tuple[list[str], sp.csc_matrix]:
    """A corpus's words, sorted, their BM25 scores [passages, words], and each text's words."""
    passages = [
        collections.Counter(words_of(title) * _TITLE_TIMES + text)
        for title, text in zip(titles, texts)
    ]
    words = sorted({word for counts in passages for word in counts})
    ids = {word: column for column, word in enumerate(words)}
    columns = np.array([ids[word] for counts in passages for word in counts], np.int32)
    rows = np.repeat(np.arange(len(passages), dtype=np.int32), list(map(len, passages)))
    times = np.array([number for counts in passages for number in counts.values()], np.float32)
    lengths = np.array([counts.total() for counts in passages], np.float32)
    having = np.bincount(columns, minlength=len(words))
    idf = np.log1p((len(passages) - having + 0.5) / (having + 0.5))
    saturation = _K1 * (1 - _B + _B * lengths / max(lengths.mean(), 1))
    scores = idf[columns] * times / (times + saturation[rows])
    return words, sp.csc_matrix(
        (scores.astype(np.float32), (rows, columns)), (len(passages), len(words))
    )


class IndexFolder:
    """An index in a folder, on disk or in a bucket, whose files are read when they are needed."""

    def __init__(self, folder: str | os.PathLike):
        """ManifestError if there is none, or it is unfinished."""
        self._directory = local_copy(folder)
        self.manifest = read_manifest(self._directory, FORMAT)
        check_files(self._directory, self.manifest, FORMAT)
        sizes = 'passages', 'sentences', 'entities', 'dim'
        self._sizes = {name: getattr(self.manifest, name) for name in sizes}

    @functools.cached_property
    def passages_with_word(self) -> dict[str, int]:
        """The number of passages that have each word."""
        words, counts = self._words, np.diff(self.array('word_starts'))
        if counts.max(initial=0) > self.manifest.passages:
            most = self.manifest.passages
            raise self._damaged('word_starts.npy', f'a word is in more than {most} passages')
        return dict(zip(words, counts.tolist()))

    @functools.cached_property
    def kinds(self) -> list[str]:
        """The kind of each entity. InputError if they are damaged."""
        kinds = self._table('entities', _ENTITIES, self.manifest.entities)['kind'].to_pylist()
        if max(map(len, kinds), default=0) > LONGEST_KIND:
            too_long = f'a kind has more than {LONGEST_KIND} characters'
            raise self._damaged('entities.parquet', too_long)
        return kinds

    def load(self) -> RetrievalIndex:
        """Reads all files; InputError if one of them is damaged."""
        words, passages = self._words, self._table('passages', _PASSAGES, self.manifest.passages)
        titles, entities = tables.numbers(passages['title_entity']), self.manifest.entities
        self._table('entities', _ENTITIES, entities)  # that many, before memory is taken for them
        path = self._directory / 'passages.parquet'
        tables.check_ids(path, 'title_entity', titles, entities, least=-1, advice=FORMAT.advice)
        # What tells kinds is for the next version of the text alone.
        arrays = {name: self.array(name) for name in _ARRAYS if name != 'mention_kinds'}
        self._check_starts(arrays['sentence_starts'], arrays['sentence_counts'], passages)
        return RetrievalIndex(passages, words, entities, arrays)

    def check(self) -> None:
        """Reads what `load` does not, too; InputError if it is damaged."""
        self.load()
        self.array('mention_kinds')

    def _check_starts(self, starts: np.ndarray, counts: np.ndarray, passages: pa.Table) -> None:
        """Raises ManifestError unless sentences start in their passage's text, in order."""
        passage = np.repeat(np.arange(len(counts)), counts)
        lengths = tables.numbers(pc.utf8_length(passages['text']))[passage]
        falls = (passage[1:] == passage[:-1]) & (starts[1:] <= starts[:-1])
        if ((starts < 0) | (starts > lengths)).any() or falls.any():
            not_rising = 'not places that rise in the text of each passage'
            raise self._damaged('sentence_starts.npy', not_rising)

    def _damaged(self, name: str, what: str) -> ManifestError:
        return ManifestError(f'{self._directory / name}: {what}; {FORMAT.advice}')

    def _file(self, name: str) -> pathlib.Path:
        return checked_file(self._directory, name, self.manifest, FORMAT)

    @functools.cached_property
    def _words(self) -> list[str]:
        """The words, each once."""
        words = self._table('words', _WORDS)['word'].to_pylist()
        if len(set(words)) != len(words):
            raise self._damaged('words.parquet', 'has a word twice')
        self._sizes['words'] = len(words)
        return words

    def array(self, name: str) -> np.ndarray:
        """One of `_ARRAYS`, vectors as float32; ManifestError if it is damaged."""
        array = read_array(self._file(f'{name}.npy'), _ARRAYS[name], self._sizes, FORMAT.advice)
        if _ARRAYS[name].offsets:
            self._sizes[name] = int(array[-1])
        return _unit(array) if array.dtype == np.int8 else array

    def _table(self, name: str, schema: pa.Schema, rows: int | None = None) -> pa.Table:
        return tables.read_table(self._file(f'{name}.parquet'), schema, FORMAT.advice, rows=rows)
