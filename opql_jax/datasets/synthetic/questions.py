"""Questions about the synthetic world, in the wordings of questions.toml.

A question follows a chain of relations from its topic: `directed_by^-1>starring` leads from a
director to the actors of their films, `^-1` being a relation from object to subject.
"""

import dataclasses
import random
import string
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.corpus.questions import Question
from opql_jax.datasets.synthetic.world import RELATIONS, SPLITS, UNSEEN_WORDINGS, WORDINGS, World

# All question sets: number of hops and split.
QUESTION_SETS = [(hops, split) for hops in (1, 2, 3) for split in SPLITS] + [(1, 'unseen_wording')]
# A question with more answers says little about a system and would be hard to read.
MAX_ANSWERS = 20


def questions(world: World, split: str, hops: int) -> Iterator[Question]:
    """All questions of a split, types in turn; take as many as needed from the front.

    Each type passes over its topics again and again, with another wording for a topic each time.
    Topics of a split are in no other one, whatever the number of hops. `split` is of SPLITS, or
    `unseen_wording`: 1-hop questions about test topics in wordings that no other split uses. Ids
    are `{hops}-hop/{split}/{number}`, from 1. InputError if there are no such questions.
    """
    if (hops, split) not in QUESTION_SETS:
        raise InputError(f'no {hops}-hop questions of split {split!r}, but {QUESTION_SETS}')
    wordings = UNSEEN_WORDINGS if split == 'unseen_wording' else WORDINGS
    chains = [chain for chain in wordings if len(chain.split('>')) == hops]
    types = round_robin([_of_type(world, split, chain, wordings[chain]) for chain in chains])
    for number, question in enumerate(types, 1):
        yield dataclasses.replace(question, id=f'{hops}-hop/{split}/{number}')


def _of_type(world: World, split: str, key: str, wordings: Sequence[str]) -> Iterator[Question]:
    chain, rng = tuple(key.split('>')), random.Random(f'{world.seed} questions {split} {key}')
    index = SPLITS.index('test' if split == 'unseen_wording' else split)
    ids = world.ranges[ends(chain[0]).start_kind]
    topics = (np.flatnonzero(world.split[ids.start : ids.stop] == index) + ids.start).tolist()
    rng.shuffle(topics)
    rows = (((topic,), world.answers(topic, chain)) for topic in topics)
    rows = (row for row in rows if 0 < len(row[1]) <= MAX_ANSWERS)
    for question in worded(world, rows, wordings, rng):
        topic, starts = question.topic_entity, (chain[:hop] for hop in range(1, len(chain)))
        via = tuple(tuple(world.answers(topic, start)) for start in starts)
        yield dataclasses.replace(question, hops=len(chain), type=question_type(chain), via=via)


def worded(
    world: World,
    rows: Iterable[tuple[Sequence[int], Sequence[int]]],
    wordings: Sequence[str],
    rng: random.Random,
) -> Iterator[Question]:
    """Questions without id, type and hops: all rows in one wording each, then in another.

    Rows are topics, in the order of {x} and {y}, and answers; `rng` draws each first wording.
    """
    drawn = []
    for row in rows:
        drawn.append((row, rng.randrange(len(wordings))))
        yield _fill(world, wordings[drawn[-1][1]], *row)
    for turn in range(1, len(wordings)):
        for row, first in drawn:
            yield _fill(world, wordings[(first + turn) % len(wordings)], *row)


def _fill(world: World, wording: str, topics: Sequence[int], answers: Sequence[int]) -> Question:
    entity, pieces = dict(zip('xy', topics)), []
    for literal, slot, _, _ in string.Formatter().parse(wording):
        pieces += [literal, entity[slot]] if slot else [literal]
    text, spans = world.spell(pieces)
    places = tuple((start, end) for start, end, _ in spans)
    return Question('', text, places, tuple(topic for _, _, topic in spans), tuple(answers))


def round_robin(streams: Sequence[Iterator]) -> Iterator:
    """One item of each stream, then another of each, until all are used up."""
    while streams:
        drawn = [(stream, next(stream, None)) for stream in streams]
        yield from (item for _, item in drawn if item)
        streams = [stream for stream, item in drawn if item]


class Ends(NamedTuple):
    """Kinds of entity that a step leads from and to, and what question types call the two."""

    start_kind: str
    end_kind: str
    start_label: str
    end_label: str


def ends(step: str) -> Ends:
    """The ends of a step, e.g. `directed_by^-1`."""
    relation = RELATIONS[step.removesuffix('^-1')]
    if step.endswith('^-1'):
        return Ends(relation.object, relation.subject, relation.target, relation.source)
    return Ends(relation.subject, relation.object, relation.source, relation.target)


def question_type(chain: Sequence[str]) -> str:
    """The label of a chain, e.g. `director_to_film_to_actor` for directed_by^-1, starring."""
    return '_to_'.join([ends(chain[0]).start_label, *(ends(step).end_label for step in chain)])
