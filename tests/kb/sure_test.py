"""What makes an answer over plain text less probable, or none: names of the question that its
passage lacks, and what the question says itself.
"""

import pytest

import opql_jax
from opql_jax.kb.text.index_text import index_text

from examples import examples

TEXTS = [
    {'id': 'game', 'title': 'Castles & Caves',
        'text': 'Castles & Caves is a board game that Ken Adair designed. Castles and Caves '
                'was sold by Orrin Press.'},
    {'id': 'filly', 'title': 'Grey Filly',
        'text': 'Grey Filly is a film that Henry Moss directed in 1951.'},
    {'id': 'harriet', 'title': 'Harriet Lincoln',
        'text': 'Harriet Lincoln is a curator. Harriet Lincoln moved to Lincoln in 2004.'},
]  # fmt: skip
PLAYED = {'Amber Gate': 'Oslo', 'Cold Meadow': 'Bern', 'Tall Orchard': 'Riga'}
PLAYED |= {'Quiet Wheel': 'Turin'}
TEXTS += [{'id': 'bio', 'title': 'Edda Marsh', 'text': 'The pianist Edda Marsh was born in Ghent.'}]
LEASE = (
    'Orla Bing (the "Owner") lets the Sedge Mill to Tam Reed (the "Hirer"). The Hirer pays the '
    'agent of the Owner, Ned Foss.'
)
TEXTS += [{'id': 'lease', 'title': 'Contract of hire', 'text': LEASE}]
for piece, city in PLAYED.items():
    text = f'{piece} is a sonata by Edda Marsh. The concert of Edda Marsh in {city} began with it.'
    TEXTS.append({'id': piece, 'title': piece, 'text': text})


@pytest.fixture(scope='module')
def kb(tmp_path_factory):
    folder = tmp_path_factory.mktemp('sure') / 'kb'
    index_text(TEXTS, folder, processes=1)
    with opql_jax.open(folder, reader=False) as kb:
        yield kb


def test_no_answer_is_what_the_question_says(kb):
    for text, name in examples("""
        Who designed Castles and Caves? | Castles & Caves
        Which press sold Castles & Caves? | Castles and Caves
        When did Harriet Lincoln move to Lincoln? | Lincoln
    """):
        answer = kb.ask(text)
        assert len(answer) and name not in answer.names


def test_a_defined_term_stands_for_the_name_before_it(kb):
    terms = {'the Hirer': 'Tam Reed', 'the Owner': 'Orla Bing', '“Hirer”': 'Tam Reed'}
    for term, name in terms.items():
        answer = kb.ask(f'Who is {term}?')
        assert answer.names == [name] and answer.is_sure
        assert f'{name} (the "' in answer.paths(name)[0][-1].sentence


def test_a_question_of_more_than_a_defined_term_is_not_for_it(kb):
    assert kb.ask('Who is the agent of the Owner?').names[0] == 'Ned Foss'


def test_a_part_of_a_name_in_the_question_may_be_another_name(kb):
    assert kb.ask('Where did Harriet Lincoln move to?').names[0] == 'Lincoln'


@pytest.mark.parametrize('piece', PLAYED)
def test_all_names_of_a_question_count(kb, piece):
    assert kb.ask(f'In which city did Edda Marsh play {piece}?').names[0] == PLAYED[piece]


def path_of(kb, text):
    (followed,) = kb.text_answerer.follow([kb.question(text)])
    return followed.path


@pytest.mark.parametrize(
    ('more', 'length'),
    [
        ('', 0),
        (' in black and white', 0),
        (' in Grey Filly and in Harriet Lincoln', 0),
        (' for a studio near a lake', 1),
        (' a b c' * 3 + ' lake mill tower cart wheel bell hill road town', 6),
    ],
)
def test_a_question_is_long_by_its_words_that_are_no_names(kb, more, length):
    assert path_of(kb, f'Who directed Grey Filly{more}?').length == length


def test_a_path_tells_whether_it_begins_at_the_whole_name(kb):
    whole = (
        'Who directed Grey Filly?/Who directed the grey filly?/Where did Harriet Lincoln move to?'
    )
    assert [path_of(kb, text).linked for text in whole.split('/')] == [1, 1, 1]
    assert path_of(kb, 'What did Moss direct?').linked == 0
