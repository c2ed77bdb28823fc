"""Questions that offer two names to choose from, of which one is the answer."""

import pytest

pytest.importorskip('spacy', reason='spaCy is not installed')

import opql_jax
from opql_jax.kb.text.choices import alternatives
from opql_jax.kb.text.index_text import index_text
from opql_jax.kb.text.marked_questions import names_of

from trios import write

DOCUMENTS = {
    'Orla Finch': 'Orla Finch is a painter of ships. She lives in Leith.',
    'Joel Stern': 'Joel Stern is a Czech engineer who designed bridges. He lives in Prague.',
    'Leith': 'Leith is a port in Scotland with many painters.',
}


@pytest.mark.parametrize(
    ('question', 'two'),
    [
        ('Who is a painter, Orla Finch or Joel Stern?', ('Orla Finch', 'Joel Stern')),
        ('Which of Orla Finch or Joel Stern paints?', ('Orla Finch', 'Joel Stern')),
        ('Between Orla Finch and Joel Stern, who paints?', ('Orla Finch', 'Joel Stern')),
        ('Who painted Orla Finch and Joel Stern?', None),
        ('Was Orla Finch or Joel Stern a painter?', None),
        ('Who painted Orla Finch?', None),
        ('What war was fought between Norland and Sudland?', None),
        ('Which war did Norland or Sudland lose?', None),
        ('Which person lives in Leith or Prague?', None),
        ('Who is a painter, Orla Finch, Joel Stern or Ann Low?', None),
        ('Who is it, ' + 'Orla Finch or Joel Stern ' * 50 + '?', None),
    ],
)
def test_two_names_are_offered_by_or_and_between(question, two):
    found = alternatives(question, names_of(question, []))
    assert (found and tuple(side.name for side in found)) == two


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp('choices')
    write(root / 'articles', DOCUMENTS)
    index_text([root / 'articles'], root / 'kb', processes=1)
    return root / 'kb'


@pytest.mark.parametrize('order', [('Orla Finch', 'Joel Stern'), ('Joel Stern', 'Orla Finch')])
def test_nothing_but_the_two_is_an_answer(folder, order):
    with opql_jax.open(folder) as kb:
        answer = kb.ask(f'Which person is a painter of ships, {order[0]} or {order[1]}?')
        assert answer.names and set(answer.names) <= set(order) and answer.names[0] == 'Orla Finch'
        assert answer.probabilities[0] >= 0.5 and answer.paths(answer.names[0])
        assert not answer.is_sure
    # Following leads away from the names of a question.
    with opql_jax.open(folder, reader=False) as kb:
        assert not {'Orla Finch', 'Joel Stern'} & set(
            kb.ask(f'Which person is a painter of ships, {order[0]} or {order[1]}?').names
        )
