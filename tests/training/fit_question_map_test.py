"""A map of questions is learnt where there is something to learn, and left untrained where there
is not.
"""

import numpy as np

from opql_jax.models.question_map import TOPICS, QuestionMap
from opql_jax.training.fit_question_map import Candidates, fit, score

DIM, RELATIONS, ENTRIES = 16, 6, 8


def unit(values):
    return (values / np.linalg.norm(values, axis=-1, keepdims=True)).astype(np.float32)


def one_hop(questions: int, learnable: bool, seed: int = 0) -> Candidates:
    """Questions of a few relations, whose words the encoder takes for those of other relations; or
    whose answers are any entries.
    """
    rng = np.random.default_rng(seed)
    relations = unit(rng.normal(size=(RELATIONS, DIM)))
    asked = np.roll(relations, 1, axis=0)
    kind = np.arange(questions) % RELATIONS
    # None is of the kind asked for.
    which = (kind[:, None] + rng.integers(1, RELATIONS, size=(questions, ENTRIES))) % RELATIONS
    answers = rng.integers(ENTRIES, size=questions)
    if learnable:
        which[np.arange(questions), answers] = kind
    entries = unit(relations[which] + 0.1 * rng.normal(size=(questions, ENTRIES, DIM))).reshape(
        -1, DIM
    )
    shape = questions, 1, ENTRIES
    return Candidates(
        steps=unit(asked[kind] + 0.05 * rng.normal(size=(questions, DIM))),
        entries=entries.astype(np.float16),
        question=np.arange(questions),
        hops=np.ones(questions, np.int32),
        step=np.arange(questions)[:, None],
        entry=np.arange(len(entries)).reshape(shape),
        added=np.zeros(shape, np.float32),
        topic=np.zeros(shape, np.int32),
        next=np.full(shape, TOPICS),
        target=np.tile(np.arange(ENTRIES), (questions, 1)),
        right=np.arange(ENTRIES)[None] == answers[:, None],
    )


def test_what_is_asked_for_is_learnt_and_holds_for_questions_left_out():
    found = one_hop(120, learnable=True)
    learnt, before, after, left_out = fit(found)
    assert before.hits < 0.5 and after.hits > 0.9
    assert learnt.change.any()
    ((other, numbers),) = left_out  # of many questions a third is left out once
    assert len(numbers) == 40 and score(other, found, numbers) == after
    assert other.hash() != learnt.hash()


def test_where_answers_follow_no_rule_nothing_is_learnt():
    found = one_hop(24, learnable=False)
    learnt, before, after, left_out = fit(found)
    # Of few each, once.
    assert sorted(np.concatenate([numbers for _, numbers in left_out])) == list(range(24))
    assert after.hits >= before.hits and after.log_weight >= before.log_weight
    if before == after:
        assert learnt.hash() == QuestionMap.untrained(DIM).hash()
