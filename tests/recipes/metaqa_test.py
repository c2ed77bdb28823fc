"""Rows of MetaQA: what they change, and the folders that their own steps write."""

from opql_jax.data.sources.follow import read_wordings
from opql_jax.recipes.metaqa import WORDINGS


def test_each_type_of_question_has_many_and_each_is_another():
    learnt = read_wordings(WORDINGS)
    assert len(learnt) == 47 and min(map(len, learnt.values())) > 70
    assert all(len(set(of_type)) == len(of_type) for of_type in learnt.values())
