"""Sets of entities over plain text: what they hold, as which query, and by which paths."""

import collections
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import opql_jax
from opql_jax.core.errors import InputError
from opql_jax.kb.text.question_plans import Step
from opql_jax.kb.text.text_answerer import Entries

import films
from examples import table

FOLDER = 'films_kb'


@pytest.fixture(scope='module')
def directed(kb):
    return kb.entity('Ingrid Solberg').follow('directed')


def weights_of(members):
    return {member.name: member.weight for member in members}


def slowly_followed(kb, start, relation, inverse=False):
    """A hop, an entry of the memory at a time; `start` and the result are weights by name."""
    names, memory, step = kb.vocab.names, kb.memory, Step(f'it {relation}', (0, 2))
    heaviest = collections.defaultdict(float)
    for row in range(len(memory)):
        begin, end = names[memory.topic[row]], names[memory.target[row]]
        if inverse:
            begin, end = end, begin
        if begin in start and kb.vocab.kinds[kb.vocab.id(end)] != 'concept':
            answerer, rows = kb.text_answerer, np.array([row])
            cosine = answerer.entry_relations(rows) @ answerer.relations([step])[0]
            entry = Entries(rows, rows, rows, cosine, np.zeros(1), np.zeros(1))
            scored = answerer.best_entries(step, entry)
            score = (scored.cosines + scored.added)[0]
            heaviest[end] = max(heaviest[end], start[begin] * math.exp(20 * score))
    best, most = max(heaviest.values()), max(start.values())
    return {name: mass / best * most for name, mass in heaviest.items() if mass >= best / 1000}


@pytest.mark.parametrize('inverse', [False, True])
def test_a_hop_gives_the_weights_that_arithmetic_gives(kb, directed, inverse):
    for start in (kb.entity('Ingrid Solberg'), directed):
        found = start.follow('directed', inverse)
        expected = slowly_followed(kb, weights_of(start), 'directed', inverse)
        order = lambda name, of=expected: (-np.float32(of[name]), kb.vocab.id(name))
        assert found.names == sorted(expected, key=order) != []
        wanted = [expected[name] for name in found.names]
        np.testing.assert_allclose(found.weights, wanted, rtol=1e-4)


def test_operators_take_the_smaller_the_larger_and_the_difference(kb, directed):
    a, b = directed.follow('starring'), kb.entity('The Glass Orchard').follow('starring')
    left, right = weights_of(a), weights_of(b)
    assert left.keys() - right.keys() and right.keys() - left.keys() and left.keys() & right.keys()
    names = left.keys() | right.keys()
    left, right = ({name: weights.get(name, 0.0) for name in names} for weights in (left, right))
    positive = lambda weights: pytest.approx(
        {name: weight for name, weight in weights.items() if weight > 0}, rel=1e-6
    )
    assert weights_of(a & b) == positive({name: min(left[name], right[name]) for name in names})
    assert weights_of(a | b) == positive({name: max(left[name], right[name]) for name in names})
    assert weights_of(a - b) == positive({name: left[name] - right[name] for name in names})


@pytest.mark.parametrize('query, names', films.EXAMPLES)
def test_examples_of_the_page(kb, query, names):
    assert set(kb.query(query).names[: len(names)]) == set(names)


@table("""
    query | said
    Clara Holm . in & Nigt Ferry | column 19: unknown .*'Nigt Ferry'; did you mean 'Night Ferry'
    Oslo . born [entity= Lind] | column 22: 'Lind' may be 2 entities
    Oslo [kind=persn] | column 12: unknown kind 'persn': there are concept, date, event,
""")
def test_a_name_that_is_not_known_is_told_with_its_column(kb, query, said):
    with pytest.raises(InputError, match=f'query(, |: ){said}'):
        kb.query(query)


def test_sets_of_two_knowledge_bases_do_not_mix(kb, directed):
    other = opql_jax.open(kb.memory.directory.parent)
    with pytest.raises(InputError, match='different knowledge bases'):
        directed & other.entity('Oslo')
    with pytest.raises(TypeError):
        directed & {'Oslo'}


def test_paths_of_operators_are_those_of_what_they_combine(kb, directed):
    assert [path[-1].weight for path in directed.paths('Night Ferry', 1)] == [
        member.weight for member in directed if member.name == 'Night Ferry'
    ]
    starred = kb.entity('Anna Weiss').follow('starred in')
    relations = lambda set_: {path[-1].relation for path in set_.paths('The Silent Harbour')}
    assert relations(directed & starred) == {'directed', 'starred in'}
    assert relations(directed | starred) == {'directed', 'starred in'}
    assert relations(directed - kb.entity('Oslo')) == relations(directed.top(1)) == {'directed'}
    assert directed.top(1).paths('Night Ferry') == [] == directed.paths('Graz')
    assert kb.entity('Graz').paths('Graz') == [()]
    # The heaviest come first: the table, and what a prompt forgets, are of them.
    for either in (starred | directed, directed | starred):
        weights = [path[-1].weight for path in either.paths('The Silent Harbour')]
        assert len(weights) > 1 and weights == sorted(weights, reverse=True)
    heavy = kb.entity('Night Ferry') | directed
    assert heavy.paths('Night Ferry')[0] == () and len(heavy.paths('Night Ferry')) > 1


def test_a_set_as_a_function_has_the_weights_of_the_set(kb, directed):
    either, starred = directed | kb.entity('Oslo'), kb.entity('Clara Holm').follow('starred in')
    for made in (
        directed.follow('starring') - kb.entity('Anna Weiss'),
        either.follow('directed', inverse=True).where(kind='person').top(2),
        (directed & starred).where(entity='Night Ferry'),
        directed.where(kind='language').follow('starring'),
    ):
        function, params, entities = made.differentiable()
        weights = dict(zip(made.entities.tolist(), made.weights.tolist()))
        expected = [weights.get(entity, 0.0) for entity in entities.tolist()]
        np.testing.assert_allclose(jax.jit(function)(params), expected, atol=1e-5)
        assert weights.keys() <= set(entities.tolist())


def test_a_query_is_trained_by_its_gradient(kb, directed):
    function, params, entities = directed.differentiable()
    assert set(params) == {'directed'}
    assert params['directed'].shape == (kb.memory.manifest.relation_dim,)
    wanted = entities.tolist().index(kb.vocab.id('Night Ferry'))

    def loss(params):
        weights = function(params)
        return -jnp.log(weights[wanted] / weights.sum())

    lower = {'directed': params['directed'] - 0.05 * jax.grad(loss)(params)['directed']}
    assert loss(lower) < loss(params) - 0.5
