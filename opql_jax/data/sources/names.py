"""Questions under names of some entity in place of their topic: whom one means needs no label."""

from collections.abc import Sequence

import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.corpus.questions import Question
from opql_jax.data import batching, lm_markup
from opql_jax.data.lm_markup import TextBatch, TextRow, TextSizes, pack_texts
from opql_jax.data.prepared import Prepared
from opql_jax.data.questions import EpochOrder
from opql_jax.data.sources.base import Source

# Questions drawn to estimate how long they are.
_SAMPLE = 1000


class NameSource(Source):
    """Takes all entities in turn, in a random question, under their name or one of their aliases.

    Nothing is to be predicted: `label` is -1, and no entry of the memory is gold or absent.
    A row has `length` tokens, as many as nearly all need; longer ones are left out of batches.
    """

    def __init__(
        self, prepared: Prepared, questions: Sequence[Question], *, rows: int = 64, seed: int = 0
    ):
        """Takes the questions with one topic; InputError if there is none."""
        super().__init__(seed)
        self._questions = [(q.text, *q.topics[0]) for q in questions if len(q.topics) == 1]
        if not self._questions:
            raise InputError('no question has just one topic, which names could stand for')
        vocab = prepared.vocab
        self._names = [[name, *aliases] for name, aliases in zip(vocab.names, vocab.aliases)]
        self.num_entities, self.special = len(vocab), prepared.special
        self._tokenizer, self._rows = prepared.tokenizer, rows
        self._order = EpochOrder(len(vocab), seed)
        rng = np.random.default_rng(seed)
        sample = rng.integers(len(vocab), size=_SAMPLE).tolist()
        lengths = [len(self._input(entity, rng).tokens) for entity in sample]
        nearly_all = batching.round_up(int(np.quantile(lengths, 0.99)), 8)
        self.length = min(nearly_all, max(batching.BUCKET_LENGTHS))
        self.capacities = {self.length: rows}

    def readings(self, times: int) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
        """Every entity `times` times: tokens, positions of the names [n], entities [n].

        Instead of a text longer than `length` the shortest question is used, and cut.
        """
        rng = np.random.default_rng(times)
        entity = np.tile(np.arange(self.num_entities), times)
        length = lambda question: len(question[0]) - question[2] + question[1]
        shortest = min(self._questions, key=length)
        tokens, start = [], np.zeros(len(entity), np.int32)
        for i, e in enumerate(entity.tolist()):
            marked = self._input(e, rng)
            if len(marked.tokens) > self.length:
                marked = self._input(e, rng, shortest)
            tokens.append(marked.tokens[: self.length])
            start[i] = min(int(marked.starts[0]), self.length - 1)
        return tokens, start, entity

    def _input(self, entity, rng, question=None):
        text, start, end = question or self._questions[rng.integers(len(self._questions))]
        name = self._names[entity][rng.integers(len(self._names[entity]))]
        text = text[:start] + name + text[end:]
        topics = [(start, start + len(name))]
        return lm_markup.mark_open_question(self._tokenizer, text, topics, self.special)

    def batch(self, step, rng) -> TextBatch:
        packer, rows = batching.Packer(self.capacities), []
        for entity in self._deal(self._order, step, self._rows).tolist():
            marked = self._input(entity, rng)
            if len(marked.tokens) <= self.length and packer.add(len(marked.tokens)):
                rows.append(TextRow(marked, topic=entity))
        return TextBatch(pack_texts(rows, packer, TextSizes(), self.special))
