"""Open questions (topics marked, not linked), and text: finetunes the language model."""

import logging
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.corpus.questions import Question
from opql_jax.data import batching, lm_markup
from opql_jax.data import questions as questions_lib
from opql_jax.data.lm_markup import TextBucket, TextRow, TextSizes, pack_texts
from opql_jax.data.prepared import Prepared
from opql_jax.data.sources.base import Hops, Source
from opql_jax.data.sources.cloze import ClozeSource
from opql_jax.data.sources.names import NameSource

_log = logging.getLogger(__name__)

# Questions with more answers exclude none, as the search compares each entry with each of them.
MOST_EXCLUDED = 8


class OpenQuestionBatch(NamedTuple):
    """Questions of one number of hops, and texts trained on beside them, () if none."""

    questions: tuple[TextBucket, ...]
    hops: Hops
    text: tuple[TextBucket, ...] = ()
    names: tuple[TextBucket, ...] = ()


class OpenQuestionSource(Source):
    """Draws questions of one number of hops per step, in turn; a random answer is the label.

    Of one-hop questions about one topic the share `absent_rate`, drawn anew each time, must not
    retrieve their answers (unless they have more than MOST_EXCLUDED): the memory is as if it had no
    such entry, and null is right. Of several topics each would learn to find nothing, though for
    one of them the memory does have an entry, if not the right one.
    `hop_counts` are the numbers of hops, rising.
    """

    def __init__(
        self,
        prepared: Prepared,
        questions: Sequence[Question],
        *,
        rows: int = 64,
        absent_rate: float = 0.0,
        beside: tuple[ClozeSource | None, NameSource | None] = (None, None),
        seed: int = 0,
    ):
        """Marks questions; `beside` has sources of `text` and `names`. InputError: none fits."""
        super().__init__(seed)
        self._beside = beside
        usable = [q for q in questions if q.answers]
        if not usable:
            raise InputError('no question has an answer in the entity vocabulary')
        if left_out := len(questions) - len(usable):
            share = f'{left_out} of {len(questions)} questions have'
            _log.warning('%s no answer in the vocabulary and teach nothing', share)
        self._special, self._count, self._absent_rate = prepared.special, rows, absent_rate
        mark, tokenizer = lm_markup.mark_open_question, prepared.tokenizer
        self._inputs = [mark(tokenizer, q.text, q.topics, self._special) for q in usable]
        self._answers = [np.array(q.answers, np.int32) for q in usable]
        longest, question = max(zip(self._inputs, usable), key=lambda pair: len(pair[0].tokens))
        questions_lib.check_length(question.id, len(longest.tokens))
        self.capacities = {batching.round_up(len(longest.tokens), 8): rows}
        width = questions_lib.answer_width(self._answers)
        self._sizes = TextSizes(max(len(q.topics) for q in usable), width, MOST_EXCLUDED)
        self._schedule = questions_lib.HopSchedule(np.array([q.hops for q in usable]), seed)
        self.hop_counts = self._schedule.counts

    def shard(self, index, count):
        shard = super().shard(index, count)
        text, names = self._beside
        shard._beside = text and text.shard(index, count), names and names.shard(index, count)
        return shard

    def batch(self, step, rng) -> OpenQuestionBatch:
        deal = lambda order, turn: self._deal(order, turn, self._count)
        ids, hops = self._schedule.at(step, deal)
        answers = questions_lib.pad_answers(
            [self._answers[i] for i in ids], len(ids), self._sizes.answers, rng
        )
        few = np.array([len(self._answers[i]) <= MOST_EXCLUDED for i in ids])
        can_exclude = few & [len(self._inputs[i].r1) == 1 for i in ids]
        absent = can_exclude & (hops == 1) & (rng.random(len(ids)) < self._absent_rate)
        packer, rows = batching.Packer(self.capacities), []
        for i, row_answers, is_absent in zip(ids, answers, absent):
            packer.add(len(self._inputs[i].tokens))
            label, exclude = rng.choice(self._answers[i]), self._answers[i] if is_absent else ()
            rows.append(TextRow(self._inputs[i], label, row_answers, -1, is_absent, exclude))
        beside = (source[step].texts if source else () for source in self._beside)
        asked = pack_texts(rows, packer, self._sizes, self._special)
        return OpenQuestionBatch(asked, Hops(hops), *beside)
