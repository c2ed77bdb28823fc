"""Batches of multi-hop questions (paper §3), one number of hops per step, in turn."""

import dataclasses
import logging
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from opql_jax.core import files
from opql_jax.core.errors import InputError
from opql_jax.corpus.json_lines import check_string, errors_at, read_lines, short_repr
from opql_jax.corpus.questions import Question
from opql_jax.data import questions as questions_lib
from opql_jax.data.prepared import Prepared
from opql_jax.data.questions import HopSchedule, QuestionArrays, QuestionBatch
from opql_jax.data.sources.base import Hops, Source

_log = logging.getLogger(__name__)

TOPIC = '[X]'
# The text before and after the topic.
Wording = tuple[str, str]


class FollowBatch(NamedTuple):
    """Questions of one number of hops."""

    questions: QuestionBatch
    hops: Hops


class FollowSource(Source):
    """Draws questions with a known topic and a known answer; `hop_counts` are theirs, rising."""

    def __init__(
        self,
        prepared: Prepared,
        splits: Sequence[str],
        *,
        held_out: Sequence[str] = (),
        wordings: str = '',
        questions: int = 64,
        seed: int = 0,
    ):
        """Reads the questions of `splits`, so many per step; the rest as of `objectives.Follow`.

        Each question whose type has other wordings is added a second time, in one of them.
        InputError: no question is left, none is asked in other words, or the file has a type that
        no question of the text has.
        """
        super().__init__(seed)
        found = [q for split in splits for q in prepared.questions(split)]
        kept = questions_lib.without_relations(found, held_out)
        usable = [q for q in kept if q.topic_entity >= 0 and q.answers]
        if not usable:
            raise InputError(f'{", ".join(splits)}: no question with a known topic and answer')
        other = self._reworded(prepared, usable, wordings, seed) if wordings else []
        self._count = questions
        self._questions = QuestionArrays([*usable, *other], prepared.tokenizer, prepared.special)
        self._width = questions_lib.answer_width(self._questions.answers)
        self._schedule = HopSchedule(self._questions.hops, seed)
        self.hop_counts = self._schedule.counts

    @staticmethod
    def _reworded(
        prepared: Prepared, questions: Sequence[Question], path: str, seed: int
    ) -> list[Question]:
        wordings, types = read_wordings(path), {question.type for question in questions}
        if wordings.keys() - types:  # those of sets that are not learnt from are known, too
            types |= {q.type for split in prepared.splits for q in prepared.questions(split)}
        if unknown := [type for type in wordings if type not in types]:
            known = ', '.join(map(short_repr, sorted(filter(None, types))[:5])) or 'none'
            missing = f'no question of {prepared.directory} has the type {short_repr(unknown[0])}'
            raise InputError(f'{path}: {missing}; its types include {known}')
        other = in_other_wordings(questions, wordings, seed)
        if not other:
            raise InputError(f'{path}: no question that is learnt from has one of its types')
        _log.info(f'{len(questions)} questions, {len(other)} of them also reworded from {path}')
        return other

    def batch(self, step, rng) -> FollowBatch:
        deal = lambda order, turn: self._deal(order, turn, self._count)
        ids, hops = self._schedule.at(step, deal)
        return FollowBatch(self._questions.batch(ids, self._count, self._width, rng), Hops(hops))


def read_wordings(path: str | os.PathLike) -> dict[str, list[Wording]]:
    """{type of questions: its wordings}, other ways to ask them than the templates of a data set.

    A line is a type (`Question.type`), a tab and a wording in which [X] stands for the topic:
    "actor_to_movie > movie_to_year<TAB>When did the films that [X] starred in come out?".
    InputError names the line.
    """
    path, wordings = files.path(path), {}
    for number, line in read_lines(path):
        if not line.strip():
            continue
        kind, tab, text = line.partition('\t')
        if not (tab and kind.strip() and text.count(TOPIC) == 1):
            expected = f'TYPE<TAB>WORDING with one {TOPIC}'
            raise InputError(f'{path}:{number}: expected {expected}: {short_repr(line)}')
        with errors_at(f'{path}:{number}'):
            check_string('the wording', text)
        before, after = text.strip().split(TOPIC)
        wordings.setdefault(kind.strip(), []).append((before, after))
    if not wordings:
        raise InputError(f'{path}: no wording in the file')
    return wordings


def in_other_wordings(
    questions: Sequence[Question], wordings: Mapping[str, Sequence[Wording]], seed: int = 0
) -> list[Question]:
    """Each question whose type has wordings, in one drawn at random; about its first topic only."""
    rng, found = np.random.default_rng(seed), []
    for question in questions:
        if of_type := wordings.get(question.type):
            before, after = of_type[int(rng.integers(len(of_type)))]
            name, start = question.text[slice(*question.topic)], len(before)
            other = dataclasses.replace(
                question,
                id=f'{question.id} in other words',
                text=before + name + after,
                topics=((start, start + len(name)),),
                entities=question.entities[:1],
            )
            found.append(other)
    return found
