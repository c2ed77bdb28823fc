"""Fits a `QuestionMap` to questions with answers, without labels for their hops.

What an untrained answerer finds is collected once: for each plan of a question the entries of every
hop, padded to a common number. The answerer's own softmax over them, and over the plans, is
differentiable in the map; the loss is minus the log of the weight of the right answers, with a
penalty on the size of the change. A large change learns the training questions by heart, so the
penalty is chosen on held-out questions, and the untrained map is among the choices.
"""

import dataclasses
import logging
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import optax

from opql_jax.memory.hop import by_target, log_weights, masked_softmax
from opql_jax.models.question_map import COMMIT, SCALE, TOPICS, QuestionMap

_log = logging.getLogger(__name__)

jax.tree_util.register_dataclass(QuestionMap)

# Penalties on the squared size of the change to choose from, and that on a weight's.
PENALTIES = (0.3, 0.03, 0.003)
_WEIGHT_PENALTY = 1.0
_STEPS, _BATCH, _LEARNING_RATE = 150, 64, 0.1
# Folds of cross-validation; of so many questions only the first is held out.
FOLDS, _MANY = 3, 100
# Weights of answers below this count as this, so that no question pulls harder.
_FLOOR = 1e-3
# The best score of a hop that a path lacks.
_LOWEST = -1e4


@dataclasses.dataclass(frozen=True)
class Candidates:
    """The N paths that plans of questions reach, of at most H hops, with C entries each."""

    steps: np.ndarray  # [n, d_r] relations of steps
    entries: np.ndarray  # [m, d_r] of memory entries, float16
    question: np.ndarray  # [N] rising from 0 on; every question has a path
    hops: np.ndarray  # [N] how many a path has
    step: np.ndarray  # [N, H] in `steps`
    entry: np.ndarray  # [N, H, C] in `entries`, -1 where there are fewer
    added: np.ndarray  # [N, H, C] bonuses of words and kinds to their cosines
    topic: np.ndarray  # [N, H, C] which of the topics of the hop an entry is of; 0 in the first
    # [N, H, C] which of the topics of the next hop is its target; `TOPICS` if none.
    next: np.ndarray
    target: np.ndarray  # [N, C] of the last hop
    right: np.ndarray  # [N, C] whether that is an answer

    def __len__(self) -> int:
        """The number of questions."""
        return int(self.question[-1]) + 1


@dataclasses.dataclass(frozen=True)
class Score:
    """Hits@1 and mean log weight of the answers, of questions whose answer is a candidate."""

    hits: float
    log_weight: float


def fit(
    candidates: Candidates, seed: int = 0
) -> tuple[QuestionMap, Score, Score, list[tuple[QuestionMap, np.ndarray]]]:
    """Learns from questions.

    Returns the map, learnt from all questions; the scores, on held-out questions, of the untrained
    map and of the chosen one; and maps learnt the same way, with the questions that each held out.
    """
    count = len(candidates)
    order = np.random.default_rng(seed).permutation(count)
    folds = np.array_split(order, min(FOLDS, count))
    if count >= _MANY:
        folds = folds[:1]
    untrained = QuestionMap.untrained(candidates.steps.shape[1])
    before = _mean(per_question(untrained, candidates, np.concatenate(folds)))
    best, chosen, left_out = before, None, [(untrained, order)]
    for penalty in PENALTIES if count > 1 else ():
        maps = [_descend(candidates, np.setdiff1d(order, fold), penalty, seed) for fold in folds]
        found = [per_question(learnt, candidates, fold) for learnt, fold in zip(maps, folds)]
        after = _mean(np.concatenate(found))
        _log.info('penalty %g: Hits@1 %.3f, log weight %.3f', penalty, after.hits, after.log_weight)
        if after.hits >= before.hits and after.log_weight > best.log_weight:
            best, chosen, left_out = after, penalty, list(zip(maps, folds))
    learnt = untrained if chosen is None else _descend(candidates, order, chosen, seed)
    return learnt, before, best, left_out


def _mean(found: np.ndarray) -> Score:
    return Score(*map(float, found.mean(0)))


def per_question(question_map: QuestionMap, candidates: Candidates, questions) -> np.ndarray:
    """Whether each question's best answer is right, and its answers' log weight: [n, 2]."""
    found = np.empty((len(questions), 2))
    for start in range(0, len(questions), _BATCH):
        chosen = questions[start : start + _BATCH]
        batch = _batch(candidates, chosen)
        log_shares, mass = map(np.asarray, _paths(question_map, batch))
        for place in range(len(chosen)):
            rows = np.flatnonzero(batch['segment'] == place)
            weights = masked_softmax(log_shares[rows])[:, None] * mass[rows]
            best = by_target(batch['target'][rows].ravel(), weights.ravel())[0][0]
            right = batch['right'][rows]
            found[start + place] = (
                best in batch['target'][rows][right],
                np.log(max(float((weights * right).sum()), _FLOOR)),
            )
    return found


def _descend(
    candidates: Candidates, questions: np.ndarray, penalty: float, seed: int
) -> QuestionMap:
    """The map that gradient descent finds for some questions."""
    learnt = jax.tree.map(jnp.asarray, QuestionMap.untrained(candidates.steps.shape[1]))
    state = _optimizer().init(learnt)
    rng = np.random.default_rng(seed)
    size = min(_BATCH, len(questions))
    stream: list[int] = []
    for _ in range(_STEPS):
        while len(stream) < size:
            stream += rng.permutation(questions).tolist()
        batch, stream = stream[:size], stream[size:]
        learnt, state = _step(learnt, state, _batch(candidates, batch), penalty)
    return jax.tree.map(lambda value: value if value.ndim else float(value), jax.device_get(learnt))


def _optimizer() -> optax.GradientTransformation:
    # The gradient is of low rank, and the change should be, too: nothing that treats its numbers
    # one by one, as Adam does.
    schedule = optax.cosine_decay_schedule(_LEARNING_RATE, _STEPS)
    return optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(schedule, momentum=0.9))


def _batch(candidates: Candidates, questions: Sequence[int]) -> dict[str, np.ndarray]:
    """The paths of questions, filled up to a power of two, so that few shapes are compiled."""
    first = np.searchsorted(candidates.question, questions)
    last = np.searchsorted(candidates.question, questions, side='right')
    rows = np.concatenate([np.arange(a, b) for a, b in zip(first, last)])
    segment = np.repeat(np.arange(len(questions)), last - first)
    filled = np.pad(rows, (0, (1 << (len(rows) - 1).bit_length()) - len(rows)))
    entry = candidates.entry[filled]
    return {
        'relations': candidates.steps[candidates.step[filled]],
        'entries': candidates.entries[entry],
        'there': entry >= 0,
        'hops': candidates.hops[filled],
        'added': candidates.added[filled],
        'topic': candidates.topic[filled],
        'next': candidates.next[filled],
        'target': candidates.target[filled],
        'right': candidates.right[filled],
        'segment': np.pad(segment, (0, len(filled) - len(rows)), constant_values=-1),
    }


@jax.jit
def _paths(learnt: QuestionMap, batch):
    """The log share of each path [N], and the mass of the entries of its last hop [N, C]."""
    relations, entries = learnt.changed(batch['relations']), batch['entries'].astype(jnp.float32)
    cosines, there = jnp.einsum('nhd,nhcd->nhc', relations, entries), batch['there']
    best = jnp.max(learnt.score(cosines, batch['added']), axis=-1, where=there, initial=_LOWEST)
    mass = prior = jnp.zeros_like(cosines[:, 0])
    for hop in range(cosines.shape[1]):
        used = hop < batch['hops']
        logits = learnt.logits(cosines[:, hop], batch['added'][:, hop], prior)
        mass = jnp.where(used[:, None], masked_softmax(logits, there[:, hop]), mass)
        weights = jnp.einsum('nc,nct->nt', mass, jax.nn.one_hot(batch['next'][:, hop], TOPICS))
        if hop + 1 < cosines.shape[1]:
            of_topic = jnp.take_along_axis(weights, batch['topic'][:, hop + 1], 1)
            prior = COMMIT * log_weights(of_topic)
    used = jnp.arange(cosines.shape[1]) < batch['hops'][:, None]
    return SCALE * learnt.worth(jnp.sum(best, axis=1, where=used), batch['hops']), mass


@jax.jit
def _step(learnt: QuestionMap, state, batch, penalty: float):
    """One of `_STEPS` steps of descent."""

    def loss(learnt):
        log_shares, mass = _paths(learnt, batch)
        segment = jnp.where(batch['segment'] < 0, len(mass), batch['segment'])
        shares = jnp.exp(log_shares - jax.lax.stop_gradient(log_shares.max()))
        total = lambda values: jax.ops.segment_sum(values, segment, len(mass) + 1)
        weight = total(shares * (mass * batch['right']).sum(-1)) / jnp.maximum(total(shares), 1e-30)
        real = total(jnp.ones_like(shares)).at[-1].set(0) > 0
        weight = jnp.where(real, weight, 1 - _FLOOR)
        lost = -(jnp.log(weight + _FLOOR)).sum() / real.sum()
        changes = learnt.cosine_weight - 1, learnt.added_weight - 1, learnt.longer
        weights = sum(change**2 for change in changes)
        return lost + penalty * jnp.square(learnt.change).sum() + _WEIGHT_PENALTY * weights

    updates, state = _optimizer().update(jax.grad(loss)(learnt), state, learnt)
    return optax.apply_updates(learnt, updates), state
