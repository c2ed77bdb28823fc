"""Made paragraphs: a question is answered in the sentence that says it of whom it asks."""

import re

import numpy as np
import pytest

from opql_jax.data import made_paragraphs
from opql_jax.data.reading_examples import DOES_NOT, HELPS, NO, YES

SURNAMES = ['Low', 'Hill', 'Orr', 'Stone', 'Page', 'Finch', 'Crane', 'Moss', 'Reed', 'Ward', 'Kay']
PLACES = ['York', 'Bergen', 'Oslo', 'Bath', 'Turin', 'Leeds', 'Namur', 'Ghent', 'Perth', 'Derry']


@pytest.fixture(scope='module')
def examples():
    rng = np.random.default_rng(0)
    return list(made_paragraphs.paragraphs(SURNAMES, PLACES, rng, 2000))


def answers(example):
    return {example.passages[number][start:end] for number, start, end in example.answers}


def test_each_kind_of_example_is_made(examples):
    kinds = [each.verdict or bool(each.answers) for each in examples]
    for kind, least in {True: 0.4, False: 0.15, YES: 0.02, NO: 0.02}.items():
        assert sum(each is kind or each == kind for each in kinds) > least * len(kinds)


def test_a_passage_helps_where_it_answers(examples):
    for each in examples:
        helping = {number for number, says in enumerate(each.supports) if says == HELPS}
        assert {number for number, *_ in each.answers} <= helping
        assert bool(helping) == bool(each.answers or each.verdict)
        assert set(each.supports) <= {HELPS, DOES_NOT}
        assert len(answers(each)) <= 1


def test_who_built_a_thing_is_who_is_said_to_have_built_it(examples):
    """Whoever was asked to, planned to or refused is not, nor who built something else."""
    asked = [e for e in examples if re.match(r'Who (built|constructed|put up) ', e.question)]
    seen = {True: 0, False: 0}
    for each in asked:
        thing = re.sub(r'^Who (built|constructed|put up) |\?$', '', each.question)
        sentences = re.split(r'(?<=[.]) ', ' '.join(each.passages))
        about = [said for said in sentences if thing.lower() in said.lower()]
        says = re.compile(r'\bbuilt|\bbuilder|\bfinished|the work of')
        built = [said for said in about if says.search(said) and ' not ' not in said]
        assert bool(built) == bool(each.answers), (each.question, each.passages)
        seen[bool(built)] += 1
    assert min(seen.values()) >= 5
