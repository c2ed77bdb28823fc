"""Trains a knowledge base with questions and answers: minutes on one core for a few dozen."""

import collections
import dataclasses
import logging
import os
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from opql_jax.core import files, locks
from opql_jax.core.errors import InputError
from opql_jax.corpus.json_lines import check_count, check_object, check_string, short_repr
from opql_jax.corpus.name_resolution import fold
from opql_jax.corpus.questions import Question, read_plain
from opql_jax.data.kb_folder import KBFolder
from opql_jax.kb.calibration import fit_added, log_odds
from opql_jax.kb.open_kb import open_kb
from opql_jax.kb.text.text_answerer import KEPT, Path, TextAnswerer
from opql_jax.kb.virtual_kb import VirtualKB
from opql_jax.models.question_map import TOPICS, QuestionMap
from opql_jax.training import fit_question_map
from opql_jax.training.fit_question_map import Candidates, Score

_log = logging.getLogger(__name__)

# A question, and the entities that answer it, none if the text has none of them.
Answerable = tuple[Question, set[int]]

# The part of a knowledge base that is written.
QUESTION_MAP = 'question-map'
# Questions that are learnt from, if there are more; what plans find for them takes some tenths of a
# second each.
MOST = 2000
_LOG_EVERY = 200
# Questions that were left out, below which the probabilities of answers stay untrained: fewer would
# make them worse more often than better.
_ENOUGH = 30


@dataclasses.dataclass(frozen=True)
class Report:
    """What came of training."""

    read: int  # questions in the file
    used: int  # those that were learnt from
    no_topic: int  # those that mention no name of the text
    no_answer: int  # that have no answer that is one
    not_reached: int  # whose answer no plan reaches
    not_needed: int  # and those beyond the number wanted
    before: Score | None  # on left-out questions
    after: Score | None  # equal to that before if nothing better than the untrained was found
    left_out: int  # those that probabilities were fitted to; 0 if these stay untrained
    seconds: float  # that it took, without opening the knowledge base

    def __str__(self) -> str:
        reasons = (
            (self.no_topic, 'mention no name that the text has'),
            (self.no_answer, 'have no answer that is a name of the text'),
            (self.not_reached, 'have an answer that is not found near their topics'),
            (self.not_needed, 'are more than is learnt from'),
        )
        others = ', '.join(f'{count:,} {why}' for count, why in reasons if count)
        learnt = f'learnt from {self.used:,} of {self.read:,} questions'
        lines = [f'{learnt} ({others})' if others else learnt]
        if self.before is None or self.after is None:
            lines.append('nothing was learnt: the knowledge base answers as before')
        else:
            better = f' untrained, {self.after.hits:.3f} trained'
            same = '; nothing tried was better, so all stays as it was untrained'
            gained = same if self.before == self.after else better
            lines.append(f'left-out questions: Hits@1 {self.before.hits:.3f}{gained}')
        probabilities = 'the probabilities of answers'
        if self.left_out:
            lines.append(f'{probabilities} are fitted to {self.left_out:,} left-out questions')
        elif self.used:
            low = '' if self.before == self.after else ', and may be too low'
            needed = f'to fit them takes {_ENOUGH} left-out questions'
            lines.append(f'{probabilities} stay untrained{low}: {needed}')
        return '\n'.join([*lines, f'{self.seconds:.0f} s'])


class AnsweredQuestion(NamedTuple):
    """A question, the names of its answers, and how many relations it takes, if that is known."""

    text: str
    answers: tuple[str, ...]
    hops: int | None = None


def read_answered(path: str | os.PathLike) -> list[AnsweredQuestion]:
    """Questions of JSON Lines `{"id", "question", "answers": [names], "hops"?}`, or InputError."""
    return [question for _, question in read_plain(path, _answered)]


def _answered(record: dict) -> AnsweredQuestion:
    check_object(record, 'answers')
    answers, hops = record['answers'], record.get('hops')
    if not isinstance(answers, list) or not answers:
        expected = 'expected at least one name in a list'
        raise InputError(f'answers: {expected}, found {short_repr(answers)}')
    for place, answer in enumerate(answers):
        check_string(f'answers[{place}]', answer)
    hops = None if hops is None else check_count('hops', hops)
    return AnsweredQuestion(record['question'], tuple(answers), hops)


def train_questions(
    kb: str | os.PathLike, questions: str | os.PathLike, *, most: int = MOST, seed: int = 0
) -> Report:
    """Learns how a file's questions are answered, in place of what was learnt before.

    Of more questions than `most`, see `read_answered`, so many are drawn by the seed. InputError: a
    line of the file is bad, or the knowledge base is not one of plain text.
    """
    pairs = [(question.text, question.answers) for question in read_answered(questions)]
    folder = KBFolder(kb)
    stated = folder.read()
    part = files.require_local(folder.part(QUESTION_MAP, new=True))
    opened = open_kb(kb)
    with locks.writer(part):
        learnt, report = learn(opened, pairs, most, seed)
        if report.used:
            learnt.write(part, opened.text_answerer.encoder_hash, report.used)
            folder.change(stated, question_map=QUESTION_MAP)
    return report


def learn(
    kb: VirtualKB, pairs: Sequence[tuple[str, tuple[str, ...]]], most: int = MOST, seed: int = 0
) -> tuple[QuestionMap, Report]:
    """`train_questions` for an open knowledge base, untrained afterwards; writes nothing."""
    answerer = kb.text_answerer
    started = time.monotonic()
    learnt = untrained = answerer.map = QuestionMap.untrained(answerer.map.change.shape[0])
    order = np.random.default_rng(seed).permutation(len(pairs))
    linked, unlearnable, counts = _linked(kb, pairs, order, most)
    found, reached = candidates(answerer, linked)
    before, after, left_out = None, None, 0
    if found is not None:
        learnt, before, after, maps = fit_question_map.fit(found, seed)
        others = unlearnable + [linked[i] for i in sorted({*range(len(linked))} - {*reached})]
        odds, right = _left_out(answerer, maps, [linked[number] for number in reached], others)
        if len(odds) >= _ENOUGH:
            left_out = len(odds)
            learnt = dataclasses.replace(learnt, log_odds=fit_added(odds, right))
        answerer.map = untrained
    report = Report(
        len(pairs),
        len(reached),
        **counts,
        not_reached=len(linked) - len(reached),
        before=before,
        after=after,
        left_out=left_out,
        seconds=time.monotonic() - started,
    )
    return learnt, report


def _linked(
    kb: VirtualKB, pairs, order, most: int
) -> tuple[list[Answerable], list[Answerable], dict[str, int]]:
    """The first `most` questions, in `order`, to learn from, those passed over, and why: counts."""
    by_name = collections.defaultdict(set)
    for entity, (name, aliases) in enumerate(zip(kb.vocab.names, kb.vocab.aliases)):
        for spelling in (name, *aliases):
            by_name[fold(spelling)].add(entity)
    linked: list[Answerable] = []
    unlearnable: list[Answerable] = []
    counts = {'no_topic': 0, 'no_answer': 0, 'not_needed': 0}
    for place in order:
        text, answers = pairs[place]
        if len(linked) == most:
            counts['not_needed'] += 1
            continue
        try:
            question = kb.question(text)
        except InputError:  # it mentions none, but words that are written as one
            counts['no_topic'] += 1
            continue
        entities = set().union(*(by_name.get(fold(answer), set()) for answer in answers))
        if question.topics and entities:
            linked.append((question, entities))
        else:
            counts['no_answer' if question.topics else 'no_topic'] += 1
            unlearnable.append((question, entities))
    return linked, unlearnable, counts


def _left_out(
    answerer: TextAnswerer,
    maps: Sequence[tuple[QuestionMap, np.ndarray]],
    reached: Sequence[Answerable],
    others: Sequence[Answerable],
) -> tuple[np.ndarray, np.ndarray]:
    """Of the best answers to left-out questions, log-odds and whether they are right: [n] each.

    `maps` number the questions `reached` that each left out. Of the others, of which nothing was
    learnt, the same share is taken, as people ask such ones, too.
    """
    share = sum(len(numbers) for _, numbers in maps) / len(reached)
    asked = [(learnt, [reached[number] for number in numbers]) for learnt, numbers in maps]
    asked.append((maps[0][0], list(others[: round(share * len(others))])))
    odds, right = [], []
    for answerer.map, questions in asked:
        found = answerer.answer([question for question, _ in questions])
        for (_, answers), answer in zip(questions, found):
            if len(answer):
                assert answer.probabilities is not None  # what answers over plain text gives them
                odds.append(log_odds(answer.probabilities[:1]))
                right.append(int(answer.entities[0]) in answers)
    return np.concatenate([np.zeros(0), *odds]), np.array(right)


def candidates(
    answerer: TextAnswerer, linked: Sequence[Answerable]
) -> tuple[Candidates | None, list[int]]:
    """What the plans of questions reach whose answer is reached, if any, and which these are."""
    paths: list[Path] = []
    number, right = [], []
    numbers: list[int] = []
    for start in range(0, len(linked), _LOG_EVERY):
        chunk = linked[start : start + _LOG_EVERY]
        found = zip(chunk, answerer.paths([question for question, _ in chunk]))
        for place, ((_, answers), of_topics) in enumerate(found, start):
            reached = [path for of_topic in of_topics for path in of_topic]
            hits = [np.isin(path.entries[-1].ends, list(answers)) for path in reached]
            if any(hit.any() for hit in hits):
                paths += reached
                right += hits
                number += [len(numbers)] * len(reached)
                numbers.append(place)
        _log.info('%d of %d questions followed', start + len(chunk), len(linked))
    return _padded(answerer, paths, number, right) if numbers else None, numbers


def _padded(
    answerer: TextAnswerer, paths: list[Path], number: Iterable[int], right: list[np.ndarray]
) -> Candidates:
    steps = list(dict.fromkeys(step for path in paths for step in path.plan))
    place = {step: i for i, step in enumerate(steps)}
    rows = np.unique(np.concatenate([entries.rows for path in paths for entries in path.entries]))
    hops = max(len(path.plan) for path in paths)
    shape = len(paths), hops, KEPT
    step, entry = np.zeros(shape[:2], np.int32), np.full(shape, -1, np.int32)
    added, topic = np.zeros(shape, np.float32), np.zeros(shape, np.int32)
    following = np.full(shape, TOPICS, np.int32)
    target, is_right = np.full(shape[::2], -1, np.int32), np.zeros(shape[::2], bool)
    for i, path in enumerate(paths):
        for h, entries in enumerate(path.entries):
            n = len(entries.rows)
            step[i, h] = place[path.plan[h]]
            entry[i, h, :n] = np.searchsorted(rows, entries.rows)
            added[i, h, :n] = entries.added
            topic[i, h, :n] = entries.topic
            same = entries.ends[:, None] == path.hops[h].entities[:TOPICS]
            following[i, h, :n] = np.where(same.any(1), same.argmax(1), TOPICS)
        target[i, :n], is_right[i, :n] = path.entries[-1].ends, right[i]
    return Candidates(
        steps=answerer.relations(steps),
        entries=answerer.entry_relations(rows).astype(np.float16),
        question=np.array(number, np.int32),
        hops=np.array([len(path.plan) for path in paths], np.int32),
        step=step,
        entry=entry,
        added=added,
        topic=topic,
        next=following,
        target=target,
        right=is_right,
    )
