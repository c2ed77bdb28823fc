"""A synthetic world for language models that withholds facts from the training text.

No page of the training text states a held-out fact, nor says anything about its two entities
together. Short pages, which are for the memory alone, state these facts instead, or other facts in
their place. Questions ask about known, held-out and changed facts, along two hops, and about two
topics at once. The same arguments give the same bytes in every process.
"""

import collections
import dataclasses
import itertools
import os
import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.corpus.documents import Document
from opql_jax.corpus.json_lines import write_json_lines
from opql_jax.corpus.questions import Question, to_record, write_questions
from opql_jax.datasets.synthetic import pages
from opql_jax.datasets.synthetic import questions as questions_lib
from opql_jax.datasets.synthetic.world import (
    CONJUNCTIONS,
    EVALUATION_SHARE,
    RELATIONS,
    SPLITS,
    WORDINGS,
    Facts,
    World,
    generate,
)

# Relations that give a subject one object, which may change.
FUNCTIONAL = tuple(name for name in RELATIONS if name not in ('starring', 'married_to'))
# An entity that the world's pages mention this often is mentioned as often by the training text.
MIN_MENTIONS = 3
MAX_CONJUNCTION_ANSWERS = 5
QUESTION_FILES = ('train', 'dev_known', 'held_out', 'changed', 'two_hop', 'conjunction')


def hold_out_facts(world: World, fraction: float, seed: int = 0) -> dict[str, Facts]:
    """The facts of some subjects of each relation, which the training text does not state, by name.

    All facts of a subject in a relation are held out together, so that a question from subject to
    object is wholly known or held out. A group is passed over if without it a page has no statement
    or an entity fewer than MIN_MENTIONS mentions (or than the world's pages have), if another fact
    holds between the same two entities, or if they are a couple that one sentence may name for
    another reason. InputError: the fraction is not between 0 and 1.
    """
    if not 0 < fraction < 1:
        raise InputError(f'fraction of facts to hold out: must be between 0 and 1, got {fraction}')
    remaining, held_out = _Pages(world), {}
    for name, facts in world.facts.items():
        subjects = np.unique(facts.subjects).tolist()
        random.Random(f'{seed} held-out {name}').shuffle(subjects)
        hidden = (subject for subject in subjects if remaining.hide(name, subject))
        chosen = list(itertools.islice(hidden, round(fraction * len(subjects))))
        held_out[name] = facts.select(np.isin(facts.subjects, chosen))
    return held_out


class _Pages:
    """The pages of a world while facts are taken from them one group at a time."""

    def __init__(self, world: World):
        self.world = world
        self.stated = {entity: _stated(world, entity) for entity in world.page_order}
        self.hidden: dict[int, frozenset] = dict.fromkeys(world.page_order, frozenset())
        self.mentions = {entity: self._count(entity, frozenset()) for entity in world.page_order}
        self.total = sum(self.mentions.values(), collections.Counter())
        self.required = {key: min(MIN_MENTIONS, count) for key, count in self.total.items()}

    def _count(self, entity: int, hidden: frozenset) -> collections.Counter:
        mentions = pages.page(self.world, '', entity, hidden).mentions or ()
        return collections.Counter(mention.entity for mention in mentions)

    def hide(self, name: str, subject: int) -> bool:
        """Takes a fact group from all pages unless `hold_out_facts` skips it; returns if so."""
        added, related = collections.defaultdict(set), _related(self.world, subject)
        for object in self.world.facts[name].objects_of(subject):
            if related[object] > 1:
                return False
            if RELATIONS[name].symmetric and related.keys() & _related(self.world, object).keys():
                return False
            added[subject].add((name, 's', object))
            added[object].add((name, 'o', subject))
        hidden = {e: self.hidden[e] | added[e] & self.stated[e] for e in added if e in self.hidden}
        if any(hidden[entity] == self.stated[entity] for entity in hidden):
            return False
        mentions = {entity: self._count(entity, hidden[entity]) for entity in hidden}
        total = self.total.copy()
        for entity in mentions:
            total.subtract(self.mentions[entity])
            total.update(mentions[entity])
        touched = {key for entity in mentions for key in self.mentions[entity]}
        if any(total[key] < self.required[key] for key in touched):
            return False
        self.hidden |= hidden
        self.mentions |= mentions
        self.total = total
        return True


def _stated(world: World, entity: int) -> frozenset[tuple[str, str, int]]:
    """What the page of an entity states: relation, its side, other entity."""
    groups = world.facts_about(entity, on_page=True)
    return frozenset((name, side, other) for name, side, others in groups for other in others)


def _related(world: World, entity: int) -> collections.Counter:
    """In how many facts an entity is, by the other entity."""
    groups = world.facts_about(entity, on_page=False)
    return collections.Counter(other for _, _, others in groups for other in others)


def known_facts(world: World, held_out: dict[str, Facts]) -> dict[str, Facts]:
    """The facts of the world that are not held out."""
    is_known = lambda name, facts: ~np.isin(facts.subjects, held_out[name].subjects)
    return {name: facts.select(is_known(name, facts)) for name, facts in world.facts.items()}


def changed_facts(world: World, held_out: dict[str, Facts], seed: int = 0) -> dict[str, Facts]:
    """Held-out FUNCTIONAL facts with another object, unrelated to the subject, if there is one."""
    changed = {}
    for name in FUNCTIONAL:
        facts, rng = held_out[name], random.Random(f'{seed} changed {name}')
        pool, rows = np.unique(world.facts[name].objects).tolist(), []
        for subject, side in zip(facts.subjects.tolist(), facts.sides.tolist()):
            related = _related(world, subject)
            if others := [other for other in pool if other not in related and other != subject]:
                rows.append((subject, rng.choice(others), side))
        changed[name] = Facts(*np.array(rows, np.int32).reshape(-1, 3).T)
    return changed


def documents(world: World, facts: dict[str, Facts]) -> Iterator[Document]:
    """The pages of the world, stating only some of its facts, at least one on each page."""
    some = dataclasses.replace(world, facts=facts)
    for number, entity in enumerate(world.page_order):
        hidden = _stated(world, entity) - _stated(some, entity)
        yield pages.page(world, f'page-{number}', entity, hidden)


def short_documents(world: World, facts: dict[str, Facts], prefix: str) -> Iterator[Document]:
    """Pages that state some facts, true or not; with the prefix `news`, `news-7` is of `page-7`."""
    empty = Facts(*np.zeros((3, 0), np.int32))
    some = dataclasses.replace(world, facts={name: facts.get(name, empty) for name in world.facts})
    for number, entity in enumerate(world.page_order):
        if _stated(some, entity):
            yield pages.short_page(some, f'{prefix}-{number}', entity)


def questions(
    world: World,
    held_out: dict[str, Facts],
    changed: dict[str, Facts],
    *,
    num_train: int,
    num_eval: int,
) -> dict[str, list[Question]]:
    """Questions for training and evaluation, those of each of QUESTION_FILES, types in turn.

    Topics of `dev_known` are in no question of `train`, those of `two_hop` in no 2-hop question of
    it, and the pairs of `conjunction` in none. Questions whose answers held-out facts would change
    are in neither `train` nor `dev_known`. Questions of `changed` are those of `held_out` with the
    same number. At most `num_train` are of each of 1 hop, 2 hops and two topics, and `num_eval` in
    each other file. InputError: the world is too small for one of the files.
    """
    known = dataclasses.replace(world, facts=known_facts(world, held_out))
    train = (
        _about_one('train', world, known, 1, ('train', 'test')),
        _about_one('train', world, known, 2, ('train',)),
        _about_two('train', world, known),
    )
    evaluation = {
        'dev_known': _about_one('dev_known', world, known, 1, ('dev',)),
        'held_out': _about_held_out(world, held_out),
        'two_hop': _about_one('two_hop', world, world, 2, ('test',)),
        'conjunction': _about_two('conjunction', world, world),
    }
    first = lambda streams, count: list(itertools.islice(questions_lib.round_robin(streams), count))
    files = {'train': [question for streams in train for question in first(streams, num_train)]}
    files |= {name: first(streams, num_eval) for name, streams in evaluation.items()}
    for name, asked in files.items():
        files[name] = [dataclasses.replace(q, id=f'{name}-{i}') for i, q in enumerate(asked)]
    objects = {
        (questions_lib.question_type((name,)), subject): object
        for name, facts in changed.items()
        for subject, object in zip(facts.subjects.tolist(), facts.objects.tolist())
    }
    files['changed'] = [
        dataclasses.replace(q, id=f'changed-{i}', answers=(objects[q.type, q.topic_entity],))
        for i, q in enumerate(files['held_out'])
        if (q.type, q.topic_entity) in objects
    ]
    for name in QUESTION_FILES:
        if not files[name]:
            raise InputError(f'num_documents: {len(world.page_order)} are too few for {name}')
    return files


class _QuestionType(NamedTuple):
    """A label, the chain of relations from each topic, and the wordings."""

    label: str
    chains: tuple[tuple[str, ...], ...]
    wordings: Sequence[str]

    def answers(self, world: World, topics: Sequence[int]) -> list[int]:
        """The entities that the chains of all topics lead to, ascending."""
        reached = [set(world.answers(topic, chain)) for topic, chain in zip(topics, self.chains)]
        return sorted(reached[0].intersection(*reached[1:]))


def _about_one(
    file: str, world: World, known: World, hops: int, splits: tuple[str, ...]
) -> list[Iterator[Question]]:
    """Questions of each chain of some hops about the topics of some splits of the world."""
    allowed = np.isin(world.split, [SPLITS.index(split) for split in splits])
    streams = []
    for key, wordings in WORDINGS.items():
        chain = tuple(key.split('>'))
        if len(chain) == hops:
            topics = [
                (t,) for t in world.ranges[questions_lib.ends(chain[0]).start_kind] if allowed[t]
            ]
            kind = _QuestionType(questions_lib.question_type(chain), (chain,), wordings)
            streams.append(_of_type(file, world, known, kind, topics))
    return streams


def _about_held_out(world: World, held_out: dict[str, Facts]) -> list[Iterator[Question]]:
    """Questions from subject to object, of a symmetric relation from both, about held-out facts."""
    streams = []
    for name, facts in held_out.items():
        sides = (facts.subjects, facts.objects) if RELATIONS[name].symmetric else (facts.subjects,)
        topics = [(topic,) for topic in np.unique(np.concatenate(sides)).tolist()]
        kind = _QuestionType(questions_lib.question_type((name,)), ((name,),), WORDINGS[name])
        streams.append(_of_type('held_out', world, world, kind, topics))
    return streams


def _about_two(file: str, world: World, known: World) -> list[Iterator[Question]]:
    """Questions of CONJUNCTIONS, about pairs of topics of which one alone has more answers."""
    streams = []
    for steps, wordings in CONJUNCTIONS.items():
        x, y = map(questions_lib.ends, steps)
        label = f'{x.start_label}_and_{y.start_label}_to_{x.end_label}'
        kind = _QuestionType(label, tuple((step,) for step in steps), wordings)
        pairs: set[tuple[int, ...]] = set()
        for entity in world.ranges[x.end_kind]:
            pairs.update(itertools.product(*(world.neighbours(entity, _reverse(s)) for s in steps)))
        of_file = [t for t in sorted(pairs) if t[0] != t[1] and _file_of_pair(world, t) == file]
        pairs_asked = [topics for topics in of_file if _narrows(world, kind, topics)]
        streams.append(_of_type(file, world, known, kind, pairs_asked))
    return streams


def _reverse(step: str) -> str:
    return step.removesuffix('^-1') if step.endswith('^-1') else f'{step}^-1'


def _file_of_pair(world: World, topics: tuple[int, ...]) -> str:
    """The file for questions about two topics, in any order and of any type; '' for none."""
    if random.Random(f'{world.seed} conjunction {sorted(topics)}').random() < EVALUATION_SHARE:
        return 'conjunction'
    return '' if SPLITS.index('dev') in world.split[list(topics)] else 'train'


def _narrows(world: World, kind: _QuestionType, topics: tuple[int, ...]) -> bool:
    """Whether a topic alone has more answers than both have in common."""
    common = len(kind.answers(world, topics))
    return any(len(world.answers(t, chain)) > common for t, chain in zip(topics, kind.chains))


def _of_type(
    file: str, world: World, known: World, kind: _QuestionType, topics: Iterable[tuple[int, ...]]
) -> Iterator[Question]:
    """Questions of one type with equal answers in both worlds, over shuffled topics."""
    rng = random.Random(f'{world.seed} questions {file} {kind.label}')
    topics = list(topics)
    rng.shuffle(topics)
    most = questions_lib.MAX_ANSWERS if len(kind.chains) == 1 else MAX_CONJUNCTION_ANSWERS
    every = ((row, kind.answers(world, row)) for row in topics)
    few = ((row, answers) for row, answers in every if 0 < len(answers) <= most)
    rows = ((row, answers) for row, answers in few if answers == kind.answers(known, row))
    for question in questions_lib.worded(world, rows, kind.wordings, rng):
        yield dataclasses.replace(question, hops=max(map(len, kind.chains)), type=kind.label)


def write_lm_world(
    directory: str | os.PathLike,
    *,
    seed: int = 0,
    num_documents: int = 2000,
    held_out: float = 0.15,
    num_train: int = 6000,
    num_eval: int = 300,
) -> None:
    """Writes a world with held-out and changed facts as files.

    {train,facts,changed}/corpus.jsonl hold the known facts with all else that the world's pages
    say, the facts that are held out, a share of all, and what these have changed to; entities.jsonl
    `{id, name}` of all entities; `questions/*.jsonl` QUESTION_FILES (see `questions`); and
    linked/train.jsonl the questions of `train` with one hop and one topic. InputError: an argument
    is out of range.
    """
    directory, world = Path(directory), generate(seed, num_documents)
    hidden = hold_out_facts(world, held_out, seed)
    changed = changed_facts(world, hidden, seed)
    files = questions(world, hidden, changed, num_train=num_train, num_eval=num_eval)
    corpora = {
        'train': documents(world, known_facts(world, hidden)),
        'facts': short_documents(world, hidden, 'news'),
        'changed': short_documents(world, changed, 'changed'),
    }
    for folder in (*corpora, 'questions', 'linked'):
        (directory / folder).mkdir(parents=True, exist_ok=True)
    for name, texts in corpora.items():
        write_json_lines(directory / name / 'corpus.jsonl', map(_document_record, texts))
    entities = ({'id': key, 'name': name} for key, name in zip(world.keys, world.names))
    write_json_lines(directory / 'entities.jsonl', entities)
    linked = [question for question in files['train'] if question.hops == len(question.topics) == 1]
    sets = {f'questions/{name}': asked for name, asked in files.items()} | {'linked/train': linked}
    vocab = world.vocab()
    for name, asked in sets.items():
        write_questions(directory / f'{name}.jsonl', (to_record(q, vocab) for q in asked))


def _document_record(document: Document) -> dict:
    fields = {n: getattr(document, n) for n in ('id', 'title', 'text', 'title_entity')}
    return {**fields, 'mentions': [mention._asdict() for mention in document.mentions or ()]}
