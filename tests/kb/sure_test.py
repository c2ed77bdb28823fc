"""What makes an answer less probable, or none: names that its passage lacks, for one."""

import pytest

from examples import table

READER = False
PLAYED = {'Amber Gate': 'Oslo', 'Cold Meadow': 'Bern', 'Tall Orchard': 'Riga'}
PLAYING = '{0} is a sonata by Edda Marsh. The concert of Edda Marsh in {1} began with it.'
DOCUMENTS = {
    'Castles & Caves': 'Castles & Caves is a board game that Ken Adair designed. Castles and Caves '
    'was sold by Orrin Press.',
    'Grey Filly': 'Grey Filly is a film that Henry Moss directed in 1951.',
    'Harriet Lincoln': 'Harriet Lincoln is a curator. Harriet Lincoln moved to Lincoln in 2004.',
    'Edda Marsh': 'The pianist Edda Marsh was born in Ghent.',
    'Contract of hire': 'Orla Bing (the "Owner") lets the Sedge Mill to Tam Reed (the "Hirer"). '
    'The Hirer pays the agent of the Owner, Ned Foss.',
    **{piece: PLAYING.format(piece, city) for piece, city in PLAYED.items()},
}


@table("""
    question | name
    Who designed Castles and Caves? | Castles & Caves
    Which press sold Castles & Caves? | Castles and Caves
    When did Harriet Lincoln move to Lincoln? | Lincoln
""")
def test_no_answer_is_what_the_question_says(kb, question, name):
    answer = kb.ask(question)
    assert len(answer) and name not in answer.names


def test_a_defined_term_stands_for_the_name_before_it(kb):
    terms = {'the Hirer': 'Tam Reed', 'the Owner': 'Orla Bing', '“Hirer”': 'Tam Reed'}
    for term, name in terms.items():
        answer = kb.ask(f'Who is {term}?')
        assert answer.names == [name] and answer.is_sure
        assert f'{name} (the "' in answer.paths(name)[0][-1].sentence


RIGHT = {
    'Who is the agent of the Owner?': 'Ned Foss',
    'Where did Harriet Lincoln move to?': 'Lincoln',
    **{f'In which city did Edda Marsh play {piece}?': city for piece, city in PLAYED.items()},
}


@pytest.mark.parametrize('question', RIGHT)
def test_an_answer_is_of_all_that_the_question_names(kb, question):
    assert kb.ask(question).names[0] == RIGHT[question]
