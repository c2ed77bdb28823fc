"""What a sentence denies, or says to be over, is no sure answer."""

import pytest

import opql_jax
from opql_jax.kb.paths import Fact
from opql_jax.kb.text.polarity import denies_answer, refutes


def fact(sentence, topic, target):
    spans = [(sentence.index(name), sentence.index(name) + len(name)) for name in (topic, target)]
    return Fact(topic, target, 1.0, sentence=sentence, topic_span=spans[0], target_span=spans[1])


@pytest.mark.parametrize(
    'question, sentence, topic, target, denied',
    [
        ('Who wrote Up?', 'Up was not written by Ann.', 'Up', 'Ann', True),
        ('Who wrote Up?', 'Up was not written by Ann, but by Bob.', 'Up', 'Ann', True),
        ('Who wrote Up?', 'Up was not written by Ann, but by Bob.', 'Up', 'Bob', False),
        ('Who wrote Up?', 'Not only Up was written by Ann.', 'Up', 'Ann', False),
        ('Who wrote Up?', "Ann hasn't read it. Up was written by Bob.", 'Up', 'Bob', False),
        ('Who wrote Up?', 'Ann, who never married, wrote Up.', 'Up', 'Ann', False),
        ('Who did not like Up?', 'Ann did not like Up.', 'Up', 'Ann', False),
        ('Who filmed Up?', 'Bob denied that he had filmed Up.', 'Up', 'Bob', True),
        ('Where does Ann work?', 'Ann used to work in Oslo.', 'Ann', 'Oslo', True),
        ('Where did Ann work?', 'Ann used to work in Oslo.', 'Ann', 'Oslo', False),
        ('Where does Ann live now?', 'In 2019 Ann lived in Oslo.', 'Ann', 'Oslo', True),
        ('Where does Ann live now?', 'In 2019 Ann moved to Oslo.', 'Ann', 'Oslo', False),
        ('Who is the mayor of Ely?', 'Ely no longer has Ann for its mayor.', 'Ely', 'Ann', True),
        ('Who runs Up?', 'Ann ran Up until 2017.', 'Up', 'Ann', True),
        ('Who runs Up?', 'Ann, head of Up from 2010 to 2017, died.', 'Up', 'Ann', True),
        ('Who owns Up?', 'Ann, who owns Up, saw rents go from 1500 to 2000.', 'Up', 'Ann', False),
        ('Who ran Up?', 'Ann ran Up until 2017.', 'Up', 'Ann', False),
        ('Which old films starred Ann?', 'Until 2017 Ann starred in Up.', 'Ann', 'Up', False),
        ('Which firm owns Up?', 'Until 2017 Up belonged to Ann.', 'Up', 'Ann', True),
        ('Which songs did Ann write?', 'Ann wrote Up until 2017.', 'Ann', 'Up', False),
        ('Where is Up?', 'Up stood in Ely until 1990. It is in Oslo.', 'Up', 'Oslo', False),
        ('Where is Up?', 'Up used to be in Ely, but it is in Oslo.', 'Up', 'Oslo', False),
        ('Who was the mayor of Ely?', 'Ely no longer has Ann for its mayor.', 'Ely', 'Ann', False),
    ],
)
def test_a_sentence_denies_what_it_says_is_not_so_or_is_over(
    question, sentence, topic, target, denied
):
    assert denies_answer(fact(sentence, topic, target), question) == denied


@pytest.mark.parametrize(
    'sentence, topic, target, refuted',
    [
        ('Up was not written by Ann.', 'Up', 'Ann', True),
        ('Ann never lived in Oslo.', 'Ann', 'Oslo', True),
        ("Ann didn't direct Up.", 'Up', 'Ann', True),
        ('Up was not written by Ann, but by Bob.', 'Up', 'Bob', False),
        ('Ann was not rich. She lived in Oslo.', 'Ann', 'Oslo', False),
        ('Ann did not move to Oslo until 1990.', 'Ann', '1990', False),
        ('Ann denied that she had filmed Up.', 'Ann', 'Up', False),
        ('It was not Ann who filmed Up.', 'Ann', 'Up', False),
        ('Ann, who never married, wrote Up.', 'Ann', 'Up', False),
        ('Ann did not only write Up.', 'Ann', 'Up', False),
        ('Up was not a success for its director, Ann.', 'Up', 'Ann', False),
        ('Ann never married and lived in Oslo.', 'Ann', 'Oslo', False),
        ('Ann did not go far: she lived in Oslo.', 'Ann', 'Oslo', False),
    ],
)
def test_a_sentence_refutes_what_it_says_outright_of_two_names(sentence, topic, target, refuted):
    assert refutes(fact(sentence, topic, target)) == refuted


def test_a_denied_answer_is_not_sure_and_comes_after_one_that_is_stated(index):
    play = (
        'Glass Harbour is a play. Glass Harbour was never written by Edda Roth. '
        'Ivo Lang wrote Glass Harbour in 1911.'
    )
    texts = {'Glass Harbour': play, 'Edda Roth': 'Edda Roth was a painter of Bergen.'}
    with opql_jax.open(index(texts)) as kb:
        answer = kb.ask('Who wrote Glass Harbour?')
        assert answer.names[0] == 'Ivo Lang' and 'Edda Roth' in answer.names
        assert answer.probabilities[answer.names.index('Edda Roth')] < 0.5
        assert (answer.probabilities[:-1] >= answer.probabilities[1:]).all()
