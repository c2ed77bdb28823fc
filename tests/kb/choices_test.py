"""Questions that offer two names to choose from, of which one is the answer."""

import itertools

import opql_jax
from opql_jax.kb.text.choices import alternatives
from opql_jax.kb.text.marked_questions import names_of

from examples import table

DOCUMENTS = {
    'Orla Finch': 'Orla Finch is a painter of ships. She lives in Leith.',
    'Joel Stern': 'Joel Stern is a Czech engineer who designed bridges. He lives in Prague.',
    'Leith': 'Leith is a port in Scotland with many painters.',
}


@table(f"""
    question | two
    Who is a painter, Orla Finch or Joel Stern? | Orla Finch, Joel Stern
    Between Orla Finch and Joel Stern, who paints? | Orla Finch, Joel Stern
    Which is higher, the yearly rent or the deposit? | the yearly rent, the deposit
    Which is higher, the rent, the deposit or the fee? |
    Who should pay for damage, rent or keys? |
    Who owns the inn, the cook or the guest? |
    Who painted Orla Finch and Joel Stern? |
    Was Orla Finch or Joel Stern a painter? |
    Which war did Norland or Sudland lose? |
    Which person lives in Leith or Prague? |
    Who is a painter, Orla Finch, Joel Stern or Ann Low? |
    Who is it, {'Orla Finch or Joel Stern ' * 50}? |
""")
def test_two_names_are_offered_by_or_and_between(question, two):
    found = alternatives(question, names_of(question, []))
    assert ', '.join(side.name for side in found or ()) == two


def test_nothing_but_the_two_is_an_answer(index):
    folder, two = index(DOCUMENTS), {'Orla Finch', 'Joel Stern'}
    questions = [
        f'Which person is a painter of ships, {first} or {second}?'
        for first, second in itertools.permutations(two)
    ]
    with opql_jax.open(folder) as kb:
        for question in questions:
            answer = kb.ask(question)
            assert answer.names[0] == 'Orla Finch' and set(answer.names) <= two
            assert answer.probabilities[0] >= 0.5 and answer.paths(answer.names[0])
            assert not answer.is_sure
        answer = kb.ask('Who painted better ships, Orla Finch or Joel Stern?')
        assert answer.names[0] == 'Orla Finch' and not answer.is_sure
        assert 'compares in a way' in answer.to_record(1)['note']
        answer = kb.ask('Which are better, ships or bridges?')
        assert set(answer.names) <= {'ships', 'bridges'} and not answer.is_sure
    with opql_jax.open(folder, reader=False) as kb:
        assert not two & set(kb.ask(questions[0]).names)
