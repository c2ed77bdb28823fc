"""Answers questions over unseen text, without training, with a released encoder.

Every plan of a question (`question_plans`) is tried. A hop scores the entries of its topics by the
cosine of the step's relation, in the question's own words, and theirs, plus a bonus if the target
fits what is asked, by its kind or its document, and if words of the step stand near it. The softmax
of the scores weighs the entries, and so the topics of the next hop. A plan's score is the mean of
those of its hops' best entries. The answers of all plans of all topics are summed, weighed by the
softmax of these scores; of each topic only the best plan is shown.

Where no topic leads to what a question asks for, or it has none, the facts of the sentences most
like it are scored in the same way, by the cosine of their vectors in place of that of relations.
"""

import dataclasses
import functools
import itertools
import re
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import numpy as np

from opql_jax.core import time_limit
from opql_jax.core.ranges import ranges
from opql_jax.corpus.name_resolution import fold, without_brackets
from opql_jax.corpus.questions import Question
from opql_jax.corpus.spans import VALUES
from opql_jax.data.prepared import Prepared
from opql_jax.kb import calibration
from opql_jax.kb.answers import Answer, Hop
from opql_jax.kb.text import choices, question_plans
from opql_jax.kb.text.asked_for import AskedFor
from opql_jax.kb.text.candidates import (
    Candidate,
    Evidence,
    PathFeatures,
    add_followed,
    as_years,
    features,
    followed_features,
    read_candidates,
    towns_first,
    with_step,
    without_parts,
)
from opql_jax.kb.text.closest_sentences import SENTENCES, ClosestSentences
from opql_jax.kb.text.comparison import linked_names
from opql_jax.kb.text.marked_questions import Side
from opql_jax.kb.text.sentence_words import SentenceWords
from opql_jax.kb.text.wanted import Wanted, wanted_by
from opql_jax.kb.text.word_lists import stems
from opql_jax.memory.format import Memory
from opql_jax.memory.hop import by_target, log_weights, masked_softmax
from opql_jax.models.question_map import COMMIT, LONGER, SCALE, TOPICS, QuestionMap
from opql_jax.models.text_encoder import TextEncoder
from opql_jax.retrieval.index import IndexFolder
from opql_jax.retrieval.words import words_of

# Caps: entries scored per topic of a hop, entries kept.
ENTRIES, KEPT = 20_000, 64
# What is added to the cosine of an entry whose target is what is asked for, as far as one can tell,
# and taken from that of the others.
_KIND = 0.2
# What is added if a rare word of the step stands at the side of the target.
_WORDS = 0.3
# What is taken from an entry for the names of its step, the topic aside, that its passage does not
# have: all of them count.
_NAMES = 0.2
# Answers of following and of reading that are scored.
_CANDIDATES = 10
# Characters of the steps that are encoded together under a time limit, a fraction of a second's
# work.
_ENCODED = 8_000
# Words of a question that say no more than what it asks for, and further ones that count.
_SHORT, _LONG = 3, 6
# A question may offer what answers it: "Which is older, Linz or Graz?"
_MAY_OFFER = re.compile(r'\b(?:or|between|among)\b', re.IGNORECASE)

# What asks for more than a town.
_ASKS_REGION = re.compile(
    r'\b(?:country|countries|county|state|province|region|district|continent|island|empire)\b',
    re.IGNORECASE,
)

# Finds and reads passages for questions, of which is known what following found, and which take one
# relation alone: see `EvidenceFinder.find`.
Read = Callable[[Sequence[Question], Sequence[Answer], Collection[int]], list[Evidence]]


class Entries(NamedTuple):
    """Entries of a hop, and what their scores are made of; all are [n].

    Attributes:
        rows: of the memory.
        topic: which of the hop's topics they are of.
        ends: the entities that they lead to.
        cosines: of the step's relation and theirs.
        added: for the kind of their targets and for the words of their sentences.
        prior: the log weights of their topics, as they count.
    """

    rows: np.ndarray
    topic: np.ndarray
    ends: np.ndarray
    cosines: np.ndarray
    added: np.ndarray
    prior: np.ndarray

    def logits(self, question_map: QuestionMap) -> np.ndarray:
        return question_map.logits(self.cosines, self.added, self.prior)

    def take(self, places: np.ndarray) -> 'Entries':
        return Entries(*(column[places] for column in self))


@dataclasses.dataclass(frozen=True)
class Path:
    """What a plan found.

    Attributes:
        plan: its steps.
        entries, hops: what each of its steps chose from, and found.
        worth: the mean of the scores of the best entries of its hops.
    """

    plan: question_plans.Plan
    entries: tuple[Entries, ...]
    hops: tuple[Hop, ...]
    worth: float


_NOWHERE = Path((), (), (), 0.0)


class LastStep(NamedTuple):
    """The last step of the best plan of several relations, as a question of its own.

    Of 'Where was the designer of the Harl Bridge born?' it is 'Where was Amara Finch born?'.

    Attributes:
        question: about what the step before found best.
        share: of that in what the step before found.
        passage: one that states it.
    """

    question: Question
    share: float
    passage: int


class Followed(NamedTuple):
    """What following relations found for a question.

    Attributes:
        answer: without probabilities.
        path: what speaks for it.
        last: the last step of the best plan of several relations, if there is one.
    """

    answer: Answer
    path: PathFeatures
    last: LastStep | None = None


class TextAnswerer:
    """A released encoder over a memory of text.

    Attributes:
        map: what was learnt from questions.
        encoder_hash: `params_hash` of the encoder.
    """

    def __init__(
        self,
        prepared: Prepared,
        encoder: TextEncoder,
        memory: Memory,
        index: IndexFolder,
        question_map: QuestionMap | None = None,
    ):
        """Puts them together; the map is that of a knowledge base trained with questions."""
        self.map = question_map or QuestionMap.untrained(encoder.dim)
        self._encoder, self._memory = encoder, memory
        self._closest = ClosestSentences(prepared, encoder, memory, index)
        texts = prepared.passages['text'].combine_chunks()
        self._words = SentenceWords(texts, memory, index)
        self._kinds = np.array(index.kinds or prepared.vocab.kinds)
        self._asked_for = AskedFor(prepared, self._kinds, texts)
        self._names = prepared.vocab.names
        self.encoder_hash = memory.manifest.hashes['encoder']

    @property
    def settings(self) -> str:
        """What answers depend on besides parameters, memory and tokenizer."""
        return (
            f'{TOPICS} {KEPT} {SCALE} {_KIND} {_WORDS} {_NAMES} {self._words.settings} '
            f'{LONGER} {COMMIT} {SENTENCES} {self.map.hash()}'
        )

    def answer(self, questions: Sequence[Question], read: Read | None = None) -> list[Answer]:
        """Answers questions, from all of their topics; an unknown one, -1, leads nowhere.

        Where no topic leads to what a question asks for, as far as one can tell, the facts of the
        sentences most like it count, too. Once a time limit (`core.time_limit`) has passed, what
        was found so far is the answer, and says so.

        Args:
            questions: what is asked.
            read: finds and reads passages for questions, of which is known what following found;
                None without a reader.
        """
        found = self.follow(questions)
        evidence = self.read(questions, found, read) if read else [None] * len(found)
        answers = []
        for question, followed, seen in zip(questions, found, evidence):
            if seen is None:
                rows = self.followed_features(question, followed)
                chances = calibration.probabilities(rows, calibration.FOLLOWED, self.map.log_odds)
                answer = dataclasses.replace(
                    followed.answer, probabilities=chances.astype(np.float32)
                )
            else:
                answer = self.score(question, followed, seen)
            answers.append(dataclasses.replace(answer, is_cut=time_limit.is_cut()))
        return answers

    def read(
        self, questions: Sequence[Question], found: Sequence[Followed], read: Read
    ) -> list[Evidence]:
        """What is read for each question and its last step; `found` is what following found."""
        last = {place: followed.last for place, followed in enumerate(found) if followed.last}
        asked = [*questions, *(step.question for step in last.values())]
        evidence = read(
            asked,
            [found[place].answer for place in (*range(len(found)), *last)],
            [place for place in range(len(asked)) if place not in last],
        )
        for (place, step), of_step in zip(last.items(), evidence[len(found) :]):
            evidence[place] = with_step(evidence[place], of_step, step.share, step.passage)
        return evidence[: len(found)]

    def followed_features(self, question: Question, followed: Followed) -> np.ndarray:
        """The features of what following found, see `candidates.followed_features`."""
        fits = self._asked_for.fits(wanted_by(question.text), followed.answer.entities)
        return followed_features(followed.answer.weights, fits, followed.path)

    def follow(self, questions: Sequence[Question]) -> list[Followed]:
        """What following relations finds for each question."""
        answers = []
        for question, found in zip(questions, self.paths(questions)):
            answer, wanted = self.combine(question, found), wanted_by(question.text)
            if not self._asked_for.may_be(wanted, answer.entities[:1]).any():
                path = None if time_limit.passed() else self._search(question, wanted)
                found = [*found, [path]] if path else found
                answer = self.combine(question, found) if path else answer
            answers.append(
                Followed(answer, self._support(question, found), self._last_step(question, found))
            )
        return answers

    def _last_step(self, question: Question, found: list[list[Path]]) -> LastStep | None:
        """The last step of the best path of several hops; a choice between two names takes none."""
        paths = [path for of_topic in found for path in of_topic if len(path.plan) > 1]
        if not paths or self.offered(question):
            return None
        path = max(paths, key=lambda path: path.worth)
        step, hop = path.plan[-1], path.hops[-2]
        entity, rows = int(hop.entities[0]), self._memory.rows(hop.entries)
        name = without_brackets(self._names[entity])
        (start, end), stated = step.topic, rows[self._memory.target[rows] == entity][:1]
        asked = Question(
            'ask',
            f'{step.text[:start]}{name}{step.text[end:]}?',
            ((start, start + len(name)),),
            (entity,),
        )
        (passage,) = self._memory.mentions(stated)['passage'].tolist()
        return LastStep(asked, float(hop.weights[0]), passage)

    def offered(self, question: Question) -> tuple[Side, Side] | None:
        """The two names that a question offers to choose from, see `choices`."""
        return choices.alternatives(question.text, linked_names(question, self._kinds))

    def candidates(
        self, question: Question, followed: Followed, evidence: Evidence
    ) -> list[Candidate]:
        """What following found and what was read: the best of both."""
        wanted, answer = wanted_by(question.text), followed.answer
        described = self._described(followed.last)
        found = [one for one in read_candidates(evidence) if one.entity not in described]
        is_number = wanted.kinds[:1] == ('quantity',)
        if not is_number and not _MAY_OFFER.search(question.text):
            repeats, kinds = self._repeats(question), self._kinds
            asked = next(iter(wanted.kinds), '')
            kind = lambda one: kinds[one.entity] if one.entity >= 0 else asked
            found = [one for one in found if not repeats(one.text, kind(one))]
        if wanted.kinds[:1] == ('place',) and not _ASKS_REGION.search(question.text):
            towns_first(found, lambda one: one.entity >= 0 and self._kinds[one.entity] == 'place')
        found = found[:_CANDIDATES]
        followed_to = [
            (entity, self._names[entity], weight)
            for entity, weight in zip(answer.entities.tolist(), answer.weights.tolist())
            if entity not in described
        ]
        add_followed(found, evidence, followed_to[:_CANDIDATES])
        if wanted.is_year:
            found = as_years(found)
        found = without_parts(
            found, lambda one: one.entity >= 0 and self._kinds[one.entity] == 'quantity'
        )
        named = [one for one in found if one.entity >= 0]
        fits = self._asked_for.fits(wanted, np.array([one.entity for one in named], np.int64))
        may_be_value = wanted.nouns and not wanted.kinds  # 'What was the tariff of 1900?'
        for one, value in zip(named, fits.tolist()):
            is_value = may_be_value and self._kinds[one.entity] in VALUES
            one.fits = max(value, 0.0) if is_value else value
        for one in found:
            if one.entity < 0:
                one.fits = self._asked_for.text_fits(wanted, one.text)
        return found

    def _described(self, last: LastStep | None) -> frozenset[int]:
        """Entities that a 'where' question only describes: they are not its answer.

        Of 'Where is the yard that built the Gull?' the yard.
        """
        if last is None:
            return frozenset()
        (topic,), entities = last.question.topics, last.question.entities
        if not question_plans.asks_only_where(question_plans.Step(last.question.text, topic)):
            return frozenset()
        return frozenset(entity for entity in entities if self._kinds[entity] != 'place')

    def score(self, question: Question, followed: Followed, evidence: Evidence) -> Answer:
        """What following found, with what was read, by falling probability."""
        found = self.candidates(question, followed, evidence)
        rows = features(found, evidence, followed.path)
        scores = calibration.read_probabilities(rows, added=self.map.log_odds)
        ranked = [found[place] for place in np.argsort(-scores, kind='stable')]
        phrases = [one.text for one in ranked if one.entity < 0]
        ids = iter(range(-1, -1 - len(phrases), -1))
        entities = [one.entity if one.entity >= 0 else next(ids) for one in ranked]
        scores = np.sort(scores)[::-1]
        return dataclasses.replace(
            followed.answer,
            entities=np.array(entities, np.int64),
            weights=(scores / max(scores.sum(), 1e-30)).astype(np.float32),
            probabilities=scores.astype(np.float32),
            phrases=tuple(phrases),
            evidence=evidence,
            read={entity: tuple(one.spans) for entity, one in zip(entities, ranked) if one.spans},
        )

    def paths(self, questions: Sequence[Question]) -> list[list[list[Path]]]:
        """What the plans of questions find: a list for each topic of each question.

        Without those that a time limit leaves out.
        """
        asked = [
            [question_plans.plans(question.text, span) for span in question.topics]
            for question in questions
        ]
        every = [plan for of_topics in asked for plans in of_topics for plan in plans]
        steps = list(dict.fromkeys(step for plan in every for step in plan))
        of_step: dict[question_plans.Step, np.ndarray] = {}
        for part in time_limit.parts(steps, [len(step.text) for step in steps], _ENCODED):
            of_step |= zip(part, self.map(self.relations(part)))
        found = []
        for question, of_topics in zip(questions, asked):
            asked_about = np.array(question.entities, np.int64)
            # Dates and numbers, and names that the text does not know, may be missing.
            known = [e >= 0 and self._kinds[e] not in VALUES for e in question.entities]
            names = list(filter(None, itertools.compress(_words_of_topics(question), known)))
            followed = [
                [self._follow(plan, entity, of_step, asked_about, names) for plan in plans]
                if entity >= 0
                else []
                for entity, plans in zip(question.entities, of_topics)
            ]
            found.append([list(filter(None, paths)) for paths in followed])
        return found

    def relations(self, steps: Sequence[question_plans.Step]) -> np.ndarray:
        """The relations of steps [n, d_r], as the encoder gives them."""
        return self._encoder.encode_questions(
            [step.text for step in steps], [step.topic for step in steps]
        )

    def entry_relations(self, rows: np.ndarray) -> np.ndarray:
        """The relations [n, d_r] float32 of rows of the memory."""
        return self._memory.relations(rows).astype(np.float32, copy=False)

    def entries_from(
        self,
        step: question_plans.Step,
        relation: np.ndarray,
        topics: np.ndarray,
        prior: np.ndarray,
        keep: Callable[[np.ndarray], np.ndarray],
        *,
        inverse: bool = False,
        wanted: Wanted | None = None,
        names: Sequence[frozenset[str]] = (),
        kept: int = KEPT,
    ) -> Entries | None:
        """The entries of topics that say best what a step asks, for answers and sets; None if none.

        Args:
            step, relation: a question of one hop, and its relation [d_r].
            topics, prior: [n] entities, and their log weights as they count.
            keep: which of the entities that entries lead to may be found.
            inverse: whether entries are followed from target to topic.
            wanted: what a question asks for; None of a query, which chooses kinds by itself.
            names, kept: see `best_entries`.
        """
        memory = self._memory
        by_target, offsets = self._by_target if inverse else (None, memory.offsets)
        first = offsets[topics]
        topic, rows = ranges(first, np.minimum(offsets[topics + 1] - first, ENTRIES))
        rows = rows if by_target is None else by_target[rows]
        ends = (memory.topic if inverse else memory.target)[rows]
        left = keep(ends)
        topic, rows, ends = topic[left], rows[left], ends[left]
        if not len(rows):
            return None
        cosines = self.entry_relations(rows) @ relation
        added = _KIND * self._asked_for.fits(wanted, ends) if wanted else np.zeros(len(rows))
        found = Entries(rows, topic, ends, cosines, added, prior[topic])
        return self.best_entries(step, found, names, kept)

    @functools.cached_property
    def _by_target(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows of the memory by target, and where those of each begin."""
        target, count = self._memory.target, len(self._names)
        counts = np.bincount(target, minlength=count)
        return np.argsort(target, kind='stable'), np.concatenate([[0], np.cumsum(counts)])

    def best_entries(
        self, step: question_plans.Step, entries: Entries, names=(), kept: int = KEPT
    ) -> Entries:
        """Those of a hop's entries that say best what a step asks, best first.

        Args:
            step: a question of one hop.
            entries: those to choose from, without what words add.
            names: the words of names that their passages should have, too.
            kept: how many are chosen, at most; the words near others are not looked at.
        """
        entries = self._best(entries, kept)
        words = _WORDS * self._words.shares(step, entries.rows)
        missing = _NAMES * self._words.names_missing(step, names, entries.rows)
        return self._best(entries._replace(added=entries.added + words - missing), kept)

    def _best(self, entries: Entries, kept: int) -> Entries:
        return entries.take(np.argsort(-entries.logits(self.map), kind='stable')[:kept])

    def combine(self, question: Question, found: list[list[Path]]) -> Answer:
        """The answer to a question, of what its plans found from each topic; see `paths`."""
        traces: list[tuple[Hop, ...]] = []
        plans: list[question_plans.Plan] = []
        # What phrases of the question stand for, which it does not ask for.
        passed: set[int] = set()
        for paths in found:
            best = max(paths, key=lambda path: path.worth, default=_NOWHERE)
            passed |= {int(hop.entities[0]) for hop in best.hops[:-1]}
            traces.append(best.hops)
            plans.append(best.plan)
        repeats = self._repeats(question)
        paths = [path for paths in found for path in paths]
        most = max((path.worth for path in paths), default=0.0)
        targets, masses = [], []
        for path in paths:
            share = np.exp(SCALE * (path.worth - most))
            targets += path.hops[-1].entities.tolist()
            masses += (share * path.hops[-1].weights).tolist()
        entities, weights = by_target(np.array(targets, np.int64), np.array(masses))
        left = [
            entity not in passed and not repeats(self._names[entity], self._kinds[entity])
            for entity in entities.tolist()
        ]
        entities, weights = entities[left], weights[left]
        shares = weights / max(weights.sum(), 1e-30)
        return Answer(entities, shares, tuple(traces), plans=tuple(plans))

    def _support(self, question: Question, found: list[list[Path]]) -> PathFeatures:
        """What speaks for the best path of all topics."""
        paths = [(path, number) for number, of_topic in enumerate(found) for path in of_topic]
        if not paths:
            return PathFeatures()
        best, number = max(paths, key=lambda pair: pair[0].worth)
        if not (linked := number >= len(question.topics)):  # as 'Up (film)' by 'Up'
            name, called = self._names[question.entities[number]], question.topics[number]
            full = fold(name), fold(without_brackets(name))
            linked = fold(question.text[slice(*called)]) in full
        fits = [
            (of.cosines + of.added)[np.argmax(self.map.score(of.cosines, of.added))]
            for of in best.entries
        ]
        is_by_sentences = len(found) > len(question.topics)
        words = set(words_of(question.text)).difference(*_words_of_topics(question))
        length = min(max(len(words) - _SHORT, 0), _LONG)
        return PathFeatures(float(np.mean(fits)), float(is_by_sentences), float(linked), length)

    def _follow(self, plan, entity: int, relations, exclude, names) -> Path | None:
        """The path of a plan; None if it leads nowhere, or a time limit leaves it out."""
        topics, weights = np.array([entity]), np.ones(1, np.float32)
        entries, hops, worths = [], [], []
        for step in plan:
            if step not in relations or time_limit.passed():
                return None
            # Where the capital is, it says itself; where the yard is, a further fact.
            if hops and question_plans.asks_only_where(step) and self._kinds[topics[0]] == 'place':
                return None
            # Numbers lead anywhere, so that no further hop begins at one.
            chosen_from = self.entries_from(
                step,
                relations[step],
                topics,
                COMMIT * log_weights(weights),
                lambda ends: (
                    ~np.isin(ends, exclude)
                    & ((step is plan[-1]) | (self._kinds[ends] != 'quantity'))
                ),
                wanted=wanted_by(step.text),
                names=names,
            )
            if chosen_from is None:
                return None
            hop, worth = self._hop(chosen_from)
            entries.append(chosen_from)
            hops.append(hop)
            worths.append(worth)
            topics, weights = hop.entities[:TOPICS], hop.weights[:TOPICS]
        worth = self.map.worth(sum(worths), len(plan))
        return Path(plan, tuple(entries), tuple(hops), float(worth))

    def _search(self, question: Question, wanted: Wanted) -> Path | None:
        """What the sentences most like a question say."""
        step = question_plans.Step(question.text, (0, 0))
        rows, cosines = self._closest.entries(question.text)
        target = self._memory.target[rows]
        keep = ~np.isin(target, question.entities) & self._asked_for.may_be(wanted, target)
        rows, cosines, target = rows[keep], cosines[keep], target[keep]
        if not len(rows):
            return None
        zeros = np.zeros(len(rows))
        found = Entries(
            rows, zeros, target, cosines, _KIND * self._asked_for.fits(wanted, target), zeros
        )
        entries = self.best_entries(step, found, kept=len(rows))
        hop, worth = self._hop(entries)
        return Path((step,), (entries,), (hop,), worth)

    def _hop(self, entries: Entries) -> tuple[Hop, float]:
        """What is found among entries, and the score of the best of them."""
        beta = masked_softmax(entries.logits(self.map))
        ids = self._memory.ids[entries.rows]
        hop = Hop(*by_target(entries.ends, beta), ids, beta.astype(np.float32))
        return hop, float(self.map.score(entries.cosines, entries.added).max())

    def _repeats(self, question: Question) -> Callable[[str, str], bool]:
        """A test whether a name, of a kind, is in the question, so that this does not ask for it.

        Of 'Tunnels & Trolls' not 'Tunnels and Trolls', and of 'Ada Low' not 'Ada'. Else a part of a
        longer name may be another: Harriet Lincoln may live in Lincoln.
        """
        said = f' {" ".join(words_of(question.text))} '
        names = [words_of(question.text[slice(*topic)]) for topic in question.topics]
        persons = [
            words
            for words, entity in zip(names, question.entities)
            if entity >= 0 and self._kinds[entity] == 'person' and len(words) > 1
        ]

        def repeats(name: str, kind: str) -> bool:
            words = words_of(name)
            if kind == 'person' and len(words) == 1 and any(words[0] in other for other in persons):
                return True
            is_part = any(frozenset(words) < frozenset(longer) for longer in names)
            return bool(words) and f' {" ".join(words)} ' in said and not is_part

        return repeats


def _words_of_topics(question: Question) -> list[frozenset[str]]:
    """The words of each name in a question."""
    return [stems(question.text[slice(*topic)]) for topic in question.topics]
