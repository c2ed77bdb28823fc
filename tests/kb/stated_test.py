"""Whether a sentence states what is asked: in words for it, and of what the question names."""

from opql_jax.kb.calibration import SURE
from opql_jax.kb.text.relation_words import says
from opql_jax.kb.text.stated import left
from opql_jax.kb.text.subject import GOES_ON

from examples import table


@table("""
    question | sentence | stated
    Where was Ina Krog born? | Ina Krog is a native of Molde. | yes
    When was Ina Krog born? | Ina Krog (1902–1971) was a chemist. | yes
    When was Ina Krog born? | Ina Krog joined the council in 1930. | no
    When did Ina Krog die? | She drowned in 1971. | yes
    Who founded the Molde Press? | Ina Krog set up the Molde Press. | yes
    Who designed the lodge? | The lodge was built by Ina Krog. | no
    Who was its architect? | It was built to plans by Ina Krog. | yes
    Who is the mother of Ina Krog? | Ina Krog is the daughter of Liv Krog. | yes
    Where did Ina Krog study? | She took her degree in Bergen. | yes
    When did Ina Krog join the choir? | Ina Krog became a member in 1930. | yes
    When did Ina Krog join the choir? | Liv Krog left the choir in 1930. | no
    Who acted in it? | It stars Liv Krog. | yes
    What genre of film is it? | It is a 1993 comedy. | yes
    Who painted the ceiling? | Its ceiling is by Liv Krog. | yes
    Who painted it? | Liv Krog took Larder home. | no
    Who painted it? | The painter of Larder was Liv Krog. | yes
    Who partnered with it? | Larder has a partnership with Krog. | yes
    When did the strike begin? | Ina Krog came in 1903, during the strike. | no
    When did the strike begin? | The strike broke out in 1903. | yes
    Who built the Harl Bridge? | Her dive off the Harl Bridge made her famous. | no
    It was founded by a man who died in what year? | Krog founded it in 1837. | no
    It was founded by a man who died in what year? | Krog died in 1884. | yes
""")
def test_a_relation_is_stated_in_one_of_its_words(question, sentence, stated):
    assert says(question, sentence) is (stated == 'yes')


@table("""
    sentence | goes_on
    It was sold. | yes
    The clinic grew. | yes
    The vet of Heather Farm is Tilda Vane. | no
    The first director of Molde Press was Ina Krog. | no
    The former chief editor of Reed is Jim Orr. | no
""")
def test_a_sentence_that_names_what_it_is_of_does_not_go_on(sentence, goes_on):
    assert bool(GOES_ON.match(sentence)) is (goes_on == 'yes')


DOCUMENTS = {
    'clinic': 'Birch Clinic is a small hospital in Harsk. Its director is Per Falk. Falk was '
    'appointed in 2009.',
    'guide': 'Heron is a mail server. It was written by Dora Winter. Heron stores mail in the '
    'database Larder, which was written by Sven Aho.',
    'league': 'The National Rifle League (NRL) is a club. The NRL, which was founded by Jim Orr, '
    'grew.',
    'twins': 'Tom Brae was born in Molde in 1998 and Teo Sund in Cagliari in 2000.',
    'feast': 'The mayor of Skarn was late, so the feast was led by Rory Pine, a smith. Rory Pine '
    'saw the Skarn Tower.',
    'band': 'Tom Hale met Greta Poe. She was born in Brix.',
    'bells': 'The tenor was cast by Abel Rudd, while the treble came from Jon Tay. Plum Mill was '
    'built in Ulm, the ferry Mole in Bonn. Set up by Ivo Penn, the Guild of Harl met in Bonn.',
    'pair': 'Born in Oslo in 1998 and raised in Molde, Tor Hald moved to Ulm. In 1990, while Eva '
    'Lund was teaching in Bergen, she married Jon Peto.',
    'bridge': 'Harl Bridge was built by Jon Peto and was mended in 1907 by Ned Lane.',
    'press': 'Reed Songs was published by Marle Press. Marle Press is a firm in Ghent.',
    'firms': 'Dahl Works wants to buy Kolt Tools. Kolt Tools, which is based in Turku, employs 940 '
    'people.',
}


@table("""
    question | answer | stated
    Where is Birch Clinic? | Harsk | yes
    Who wrote Larder? | Sven Aho | yes
    Who wrote Heron? | Sven Aho | no
    Who founded the National Rifle League? | Jim Orr | yes
    When was Tom Brae born? | 1998 | yes
    When was Teo Sund born? | 1998 | no
    Who is the mayor of Skarn? | Rory Pine | no
    Where was Greta Poe born? | Brix | yes
    Who cast the tenor? | Abel Rudd | yes
    Who cast the treble? | Abel Rudd | no
    When did Eva Lund marry Jon Peto? | 1990 | yes
    Who built Harl Bridge? | Ned Lane | no
    How many people does Dahl Works employ? | 940 | no
""")
def test_what_is_not_stated_is_not_sure(kb, question, answer, stated):
    found = kb.ask(question)
    if stated == 'yes':
        assert found.names[0] == answer and found.is_sure
    else:
        assert found.names[0] != answer or not found.is_sure


def test_what_is_said_of_another_firm_is_less_probable(kb):
    found = kb.ask('How many people does Dahl Works employ?')
    entity = found.entities[found.names.index('940')]
    assert left(found, entity) == SURE


def test_what_is_somewhere_is_not_where_it_is(kb):
    assert kb.ask('Where is the publisher of Reed Songs?').names[0] == 'Ghent'


@table("""
    asked
    Who is the NRL?
    What does “NRL” stand for?
""")
def test_a_term_is_what_the_text_defines_it_for(kb, asked):
    answer = kb.ask(asked)
    assert answer.names == ['National Rifle League'] and answer.is_sure
