"""Answers questions over text that nothing was trained on, with a released encoder: relations are followed as the question is worded.

Every plan of a question (`question_plans`) is tried. A hop scores the entries of its topics by the cosine of the step's relation and theirs,
with something added where the target is of the kind that the step asks for. Their softmax is the weight of the entries, and of their
targets the weight of the next topics. A plan is worth the mean of the scores of its hops' best entries. The answers of all plans, of all
topics, are added up by the softmax of these; what is shown of a topic is its best plan.
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

# The most topics of a hop, entries of a topic that are scored, and entries that are kept.
_TOPICS, _ENTRIES, _KEPT = 8, 20_000, 64
# Cosines are multiplied by this before the softmax, as in training.
_SCALE = 20.0
# What is added to the cosine of an entry whose target is of the kind that is asked for, or of no known kind, and taken from the others.
_KIND, _NO_KIND = 0.15, 0.1


@dataclasses.dataclass(frozen=True)
class _Path:
    """What a plan found.

    Attributes:
        plan: the steps.
        hops: what each found.
        worth: the mean of the scores of the best entries of its hops.
    """

    plan: question_plans.Plan
    hops: tuple[Hop, ...]
    worth: float


class TextAnswerer:
    """A released encoder over a memory of text.

    Attributes:
        settings: what answers depend on besides parameters, memory and tokenizer.
    """

    def __init__(self, prepared: Prepared, encoder: TextEncoder, memory: Memory):
        self._encoder, self._memory = encoder, memory
        self._kinds = np.array(prepared.vocab.kinds)
        self.settings = f'{_TOPICS} {_KEPT} {_SCALE} {_KIND} {_NO_KIND}'

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
        asked_about = np.array(question.entities, np.int64)
        for entity, plans in zip(question.entities, of_topics):
            followed = [self._follow(plan, entity, relations, asked_about) for plan in plans] if entity >= 0 else []
            paths = [path for path in followed if path]
            for path in paths:
                share = np.exp(_SCALE * (path.worth - 1))
                for target, weight in zip(path.hops[-1].entities.tolist(), path.hops[-1].weights.tolist()):
                    totals[target] += share * weight
            traces.append(max(paths, key=lambda path: path.worth).hops if paths else ())
        ranked = sorted(totals, key=lambda target: (-totals[target], target))
        weights = np.array([totals[target] for target in ranked], np.float64)
        return Answer(np.array(ranked, np.int64), (weights / max(weights.sum(), 1e-30)).astype(np.float32), tuple(traces))

    def _follow(self, plan, entity: int, relations, exclude) -> _Path | None:
        entities, weights = np.array([entity]), np.ones(1, np.float32)
        hops, worths = [], []
        for step in plan:
            wanted = question_plans.wanted_kinds(step.text)
            hop, worth = self._hop(relations[step], entities, weights, wanted, exclude)
            if hop is None:
                return None
            hops.append(hop)
            worths.append(worth)
            entities, weights = hop.entities[:_TOPICS], hop.weights[:_TOPICS]
        return _Path(plan, tuple(hops), float(np.mean(worths)))

    def _hop(self, relation, topics, weights, wanted, exclude) -> tuple[Hop | None, float]:
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
        if wanted:
            kinds = self._kinds[target]
            scores += np.where(np.isin(kinds, wanted), _KIND, np.where(kinds == UNKNOWN_KIND, _NO_KIND, -_KIND))
        worth = float(scores.max())
        prior = np.log(np.maximum(weights, 1e-9))[_index_of(self._memory.topic[rows], topics)]
        logits = _SCALE * scores + prior
        order = np.argsort(-logits, kind='stable')[:_KEPT]
        mass = np.exp(logits[order] - logits[order[0]])
        mass /= mass.sum()
        found, place = np.unique(target[order], return_inverse=True)
        total = np.bincount(place, mass, len(found)).astype(np.float32)
        best = np.lexsort((found, -total))
        return Hop(found[best], total[best], self._memory.ids[rows[order]], mass.astype(np.float32)), worth


def _index_of(values, among):
    """Where each of `values` is in `among`, which holds all of them."""
    order = np.argsort(among, kind='stable')
    return order[np.searchsorted(among[order], values)]
