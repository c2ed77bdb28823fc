"""Answers questions over text that nothing was trained on, with a released encoder: relations are followed as the question is worded.

Every plan of a question (`question_plans`) is tried. A hop scores the entries of its topics by the cosine of the step's relation and theirs,
with something added where the target is of the kind that the step asks for, and where the sentences have its words. Their softmax is the
weight of the entries, and of their targets the weight of the next topics. A plan is worth the mean of the scores of its hops' best entries.
The answers of all plans, of all topics, are added up by the softmax of these; what is shown of a topic is its best plan.
"""

import collections
import dataclasses
from collections.abc import Sequence

import numpy as np

from opql_jax.corpus.entities import UNKNOWN_KIND
from opql_jax.corpus.questions import Question
from opql_jax.data.prepared import Prepared
from opql_jax.kb import question_plans
from opql_jax.kb.answers import Answer, Hop
from opql_jax.memory.format import Memory
from opql_jax.models.text_encoder import TextEncoder
from opql_jax.retrieval.index import RetrievalIndex
from opql_jax.retrieval.words import words_of

# The most topics of a hop, entries of a topic that are scored, and entries that are kept.
_TOPICS, _ENTRIES, _KEPT = 8, 20_000, 64
# Cosines are multiplied by this before the softmax, as in training.
_SCALE = 20.0
# What is added to the cosine of an entry whose target is of the kind that is asked for, or of no known kind, and taken from the others.
_KIND = 0.15
# What is added if the sentences of an entry have the words of the step, and these are rare.
_WORDS = 0.2
# What a plan is worth more for each hop after the first: that a phrase stands for something is rarely an accident.
_LONGER = 0.04
# The log weight of a topic counts so many times: an answer should rest on the best of them.
_COMMIT = 3.0


@dataclasses.dataclass(frozen=True)
class _Path:
    """What a plan found.

    Attributes:
        hops: what each of its steps found.
        worth: the mean of the scores of the best entries of its hops.
    """

    hops: tuple[Hop, ...]
    worth: float


class TextAnswerer:
    """A released encoder over a memory of text.

    Attributes:
        settings: what answers depend on besides parameters, memory and tokenizer.
    """

    def __init__(self, prepared: Prepared, encoder: TextEncoder, memory: Memory, index: RetrievalIndex):
        self._encoder, self._memory, self._index = encoder, memory, index
        self._kinds, self._texts = np.array(prepared.vocab.kinds), prepared.passages['text'].combine_chunks()
        self.settings = f'{_TOPICS} {_KEPT} {_SCALE} {_KIND} {_WORDS} {_LONGER} {_COMMIT}'

    def answer(self, questions: Sequence[Question]) -> list[Answer]:
        """Answers questions, from all of their topics; an unknown one, -1, leads nowhere."""
        asked = [[question_plans.plans(question.text, span) for span in question.topics] for question in questions]
        steps = list(dict.fromkeys(step for of_topics in asked for plans in of_topics for plan in plans for step in plan))
        relations = self._encoder.encode_questions([step.text for step in steps], [step.topic for step in steps])
        of_step = dict(zip(steps, relations))
        return [self._answer(question, of_topics, of_step) for question, of_topics in zip(questions, asked)]

    def _answer(self, question: Question, of_topics, relations) -> Answer:
        totals: dict[int, float] = collections.defaultdict(float)
        traces: list[tuple[Hop, ...]] = []
        passed: set[int] = set()  # what phrases of the question stand for, which it does not ask for
        asked_about = np.array(question.entities, np.int64)
        for entity, plans in zip(question.entities, of_topics):
            followed = [self._follow(plan, entity, relations, asked_about) for plan in plans] if entity >= 0 else []
            paths = [path for path in followed if path]
            for path in paths:
                share = np.exp(_SCALE * (path.worth - 1))
                for target, weight in zip(path.hops[-1].entities.tolist(), path.hops[-1].weights.tolist()):
                    totals[target] += share * weight
            best = max(paths, key=lambda path: path.worth).hops if paths else ()
            passed |= {int(hop.entities[0]) for hop in best[:-1]}
            traces.append(best)
        ranked = sorted(totals.keys() - passed, key=lambda target: (-totals[target], target))
        weights = np.array([totals[target] for target in ranked], np.float64)
        return Answer(np.array(ranked, np.int64), (weights / max(weights.sum(), 1e-30)).astype(np.float32), tuple(traces))

    def _follow(self, plan, entity: int, relations, exclude) -> _Path | None:
        entities, weights = np.array([entity]), np.ones(1, np.float32)
        hops, worths = [], []
        for step in plan:
            hop, worth = self._hop(step, relations[step], entities, weights, exclude)
            if hop is None:
                return None
            hops.append(hop)
            worths.append(worth)
            entities, weights = hop.entities[:_TOPICS], hop.weights[:_TOPICS]
        return _Path(tuple(hops), float(np.mean(worths)) + _LONGER * (len(plan) - 1))

    def _hop(self, step: question_plans.Step, relation, topics, weights, exclude) -> tuple[Hop | None, float]:
        """One hop from weighted topics, and the score of its best entry."""
        offsets = self._memory.offsets
        rows = np.concatenate(
            [np.arange(offsets[topic], min(offsets[topic + 1], offsets[topic] + _ENTRIES)) for topic in topics]
        )
        target = self._memory.target[rows]
        keep = ~np.isin(target, exclude)
        rows, target = rows[keep], target[keep]
        if not len(rows):
            return None, 0.0
        scores = self._memory.relations(rows).astype(np.float32) @ relation
        if wanted := question_plans.wanted_kinds(step.text):
            kinds = self._kinds[target]
            scores += np.where(np.isin(kinds, (*wanted, UNKNOWN_KIND)), _KIND, -_KIND)
        prior = _COMMIT * np.log(np.maximum(weights, 1e-9))[_index_of(self._memory.topic[rows], topics)] / _SCALE
        kept = np.argsort(-(scores + prior), kind='stable')[:_KEPT]
        rows, target, prior = rows[kept], target[kept], prior[kept]
        scores = scores[kept] + _WORDS * self._shares_of_words(step, rows)
        logits = _SCALE * (scores + prior)
        order = np.argsort(-logits, kind='stable')
        mass = np.exp(logits[order] - logits[order[0]])
        mass /= mass.sum()
        found, place = np.unique(target[order], return_inverse=True)
        total = np.bincount(place, mass, len(found)).astype(np.float32)
        best = np.lexsort((found, -total))
        return Hop(found[best], total[best], self._memory.ids[rows[order]], mass.astype(np.float32)), float(scores.max())

    def _shares_of_words(self, step: question_plans.Step, rows) -> np.ndarray:
        """What the words of a step, its topic aside, weigh together that the sentences of memory entries have: [n] in 0 .. 1.

        A word weighs its inverse document frequency; the rarest there may be weighs 1.
        """
        asked = {word: self._rarity(word) for word in words_of(step.text[: step.topic[0]] + ' ' + step.text[step.topic[1] :])}
        if not asked:
            return np.zeros(len(rows))
        mentions = self._memory.mentions(rows)
        columns = ('passage', 'topic_sentence_start', 'topic_sentence_end', 'target_sentence_start', 'target_sentence_end')
        shares = np.empty(len(rows))
        for place, (passage, *spans) in enumerate(zip(*(mentions[name].tolist() for name in columns))):
            text = self._texts[passage].as_py()
            said = {word for start, end in (spans[:2], spans[2:]) for word in words_of(text[start:end])}
            shares[place] = sum(weight for word, weight in asked.items() if any(_alike(word, other) for other in said))
        return np.minimum(shares, 1)

    def _rarity(self, word: str) -> float:
        count = len(self._index.ids)
        column = self._index.word_ids.get(word)
        having = 0 if column is None else int(np.diff(self._index.words.indptr[column : column + 2])[0])
        return float(np.log1p((count - having) / (having + 1)) / np.log1p(count))


def _alike(word: str, other: str) -> bool:
    """Whether two stems are of one word, as far as their beginnings tell."""
    return min(len(word), len(other)) > 2 and (word.startswith(other) or other.startswith(word))


def _index_of(values, among):
    """Where each of `values` is in `among`, which holds all of them."""
    order = np.argsort(among, kind='stable')
    return order[np.searchsorted(among[order], values)]
