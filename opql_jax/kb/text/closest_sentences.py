"""The facts of sentences most like a question, where following has no name to start from."""

import functools

import numpy as np

from opql_jax.corpus.splitting import title_length
from opql_jax.data.prepared import Prepared
from opql_jax.memory.format import Memory
from opql_jax.models.text_encoder import TextEncoder
from opql_jax.retrieval.index import IndexFolder

# Sentences whose facts are looked at.
SENTENCES = 32
# Vectors that are made float32 at a time.
_BLOCK = 1 << 14


class ClosestSentences:
    """Finds memory entries by the sentence that mentions their target."""

    def __init__(
        self, prepared: Prepared, encoder: TextEncoder, memory: Memory, index: IndexFolder
    ):
        """Takes the index of `prepared`'s passages, their memory, and the encoder of both."""
        self._prepared, self._encoder = prepared, encoder
        self._memory, self._index = memory, index

    def entries(self, question: str) -> tuple[np.ndarray, np.ndarray]:
        """Rows [n] of entries with targets in the sentences most like a question, and cosines [n].

        A target that only the title before a passage names does not count.
        """
        cosines = self._cosines(self._encoder.encode_texts([question])[0])
        first = self._first_sentence
        best = np.sort(np.argsort(-cosines, kind='stable')[:SENTENCES])
        passages = np.unique(np.searchsorted(first, best, side='right') - 1)
        rows = self._memory.rows(self._memory.read_from(passages))
        mentions = self._memory.mentions(rows)
        sentences, is_title = first[mentions['passage']], np.zeros(len(rows), bool)
        for passage in passages:
            here = mentions['passage'] == passage
            row = self._prepared.passage(passage)
            starts = mentions['target_start'][here]
            sentences[here] += np.searchsorted(row['sentence_starts'], starts, side='right') - 1
            is_title[here] = starts < title_length(row)
        kept = np.isin(sentences, best) & ~is_title
        return rows[kept], cosines[sentences[kept]]

    def _cosines(self, vector: np.ndarray) -> np.ndarray:
        """Those of all sentences and a vector [d] of unit length."""
        starts, vectors = range(0, len(self._vectors), _BLOCK), self._vectors
        blocks = (vectors[start : start + _BLOCK].astype(np.float32) @ vector for start in starts)
        return np.concatenate([np.zeros(0, np.float32), *blocks])

    @functools.cached_property
    def _vectors(self) -> np.ndarray:
        return self._index.array('sentence_vectors')

    @functools.cached_property
    def _first_sentence(self) -> np.ndarray:
        counts = self._index.array('sentence_counts')
        return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
