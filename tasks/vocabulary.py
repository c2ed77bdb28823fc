"""A prepared directory's WordPiece tokenizer as a SeqIO vocabulary."""

import os
from collections.abc import Iterable, Sequence

import numpy as np
import seqio
import tensorflow as tf

from opql_jax.data import tokenizer as tokenizer_lib
from opql_jax.data.prepared import Prepared


class WordPieceVocabulary(seqio.Vocabulary):
    """Wraps a Hugging Face tokenizer. SeqIO's own BERT vocabulary does not reproduce WordPiece.

    It holds no TensorFlow object, so Beam can send it to workers.
    """

    def __init__(self, path: str | os.PathLike):
        """Loads a tokenizer from a path, see `tokenizer.load_tokenizer`."""
        super().__init__(extra_ids=0)
        self._tokenizer = tokenizer_lib.load_tokenizer(path)
        self._special = tokenizer_lib.special_ids(self._tokenizer)

    @property
    def eos_id(self) -> int:
        return self._special.sep

    @property
    def unk_id(self) -> int:
        return self._special.unk

    @property
    def _base_vocab_size(self) -> int:
        return self._tokenizer.get_vocab_size()

    def _encode(self, s: str) -> Sequence[int]:
        return self._tokenizer.encode(s, add_special_tokens=False).ids

    def _decode(self, ids: Iterable[int]) -> str:
        # Markers stay visible: without them a marked passage cannot be read.
        return self._tokenizer.decode(
            [int(i) for i in ids if i != self._special.pad], skip_special_tokens=False
        )

    def _encode_tf(self, s: tf.Tensor) -> tf.Tensor:
        # A string comes as bytes inside a graph, as an array of one outside.
        encode = lambda x: np.array(
            self._encode(np.asarray(x, object).item().decode('utf-8')), np.int32
        )
        return tf.ensure_shape(
            tf.numpy_function(encode, [tf.convert_to_tensor(s)], tf.int32), [None]
        )

    def _decode_tf(self, ids: tf.Tensor) -> tf.Tensor:
        decode = lambda x: self._decode(x).encode('utf-8')
        return tf.ensure_shape(
            tf.numpy_function(decode, [tf.convert_to_tensor(ids)], tf.string), []
        )

    def __eq__(self, other) -> bool:
        return (
            isinstance(other, WordPieceVocabulary)
            and self._tokenizer.to_str() == other._tokenizer.to_str()
        )


class EntityVocabulary(seqio.PassThroughVocabulary):
    """Entities, whose ids pass through unchanged.

    Attributes:
        keys, names: of the entities, by id.
    """

    def __init__(self, prepared: Prepared):
        super().__init__(len(prepared.vocab))
        self.keys, self.names = prepared.vocab.keys, prepared.vocab.names
