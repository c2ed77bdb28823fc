"""What a sentence denies, or says to be over, is no sure answer."""

import opql_jax
from opql_jax.kb.paths import Fact
from opql_jax.kb.text.polarity import denies_answer, has_left, leaves_open

from examples import table


def fact(sentence, topic, target):
    spans = [(sentence.index(name), sentence.index(name) + len(name)) for name in (topic, target)]
    return Fact(topic, target, 1.0, sentence=sentence, topic_span=spans[0], target_span=spans[1])


@table("""
    question | sentence | topic | target | denied
    Who wrote Up? | Up was not written by Ann. | Up | Ann | yes
    Who wrote Up? | Ann hasn't read it. Up was written by Bob. | Up | Bob | no
    Who wrote Up? | Ann, who never married, wrote Up. | Up | Ann | no
    Who did not like Up? | Ann did not like Up. | Up | Ann | no
    Who filmed Up? | Bob denied that he had filmed Up. | Up | Bob | yes
    Where does Ann work? | Ann used to work in Oslo. | Ann | Oslo | yes
    Where does Ann live now? | In 2019 Ann lived in Oslo. | Ann | Oslo | yes
    Where does Ann live now? | In 2019 Ann moved to Oslo. | Ann | Oslo | no
    Who is the mayor of Ely? | Ely no longer has Ann for its mayor. | Ely | Ann | yes
    Who runs Up? | Ann, head of Up from 2010 to 2017, died. | Up | Ann | yes
    Which old films starred Ann? | Until 2017 Ann starred in Up. | Ann | Up | no
    Where is Up? | Up used to be in Ely, but it is in Oslo. | Up | Oslo | no
    Who runs Up? | Ann hopes to run Up. | Up | Ann | yes
    Who runs Up? | Ann will run Up from May. | Up | Ann | yes
    When was Up planned? | Up was planned in 1870 by Ann. | Up | 1870 | no
    Who will run Up? | Ann will run Up from May. | Up | Ann | no
    Who ran Up? | Ann was to have run Up, but fell ill. | Up | Ann | yes
    Who is the father of Ann? | Up will be run by Ann's father, Bob. | Ann | Bob | no
    When was Up founded? | Up was founded in 1950 and aims to help. | Up | 1950 | no
    Who was the wife of Bob? | Bob nearly married Ann. | Bob | Ann | yes
    Who ran Up before 1990? | Since 1990 Ann has run Up. | Up | Ann | yes
    Who ran Up before 1990? | Until 1990 Ann ran Up. | Up | Ann | no
    When did Ann leave Up? | Ann ran Up from 1903 until 1938. | Ann | 1903 | yes
    When did Ann leave Up? | Ann ran Up from 1903 until 1938. | Ann | 1938 | no
    When did Ann join Up? | Ann (1903 to 1938) ran Up. | Ann | 1938 | yes
    When did Ann write Up? | Ann: write Up by 1 May | Ann | 1 May | yes
    When did Ann write Up? | Notes: Ann wrote Up by 1 May | Ann | 1 May | no
    Who is the head of Up? | The head of Up was then Ann. | Up | Ann | yes
""")
def test_a_sentence_denies_what_it_says_is_not_so_or_is_over(
    question, sentence, topic, target, denied
):
    assert denies_answer(fact(sentence, topic, target), question) is (denied == 'yes')


@table("""
    sentence | topic | target | open
    Up may have been written by Ann. | Up | Ann | yes
    Ann is said to own Up. | Ann | Up | yes
    Up was written by Ann; it may be filmed. | Up | Ann | no
""")
def test_a_hedge_leaves_a_fact_open(sentence, topic, target, open):
    assert leaves_open(fact(sentence, topic, target)) is (open == 'yes')


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


@table("""
    question | sentence | left
    Who is the head of Up? | Ann left Up in May, and Bob took over. | yes
    Who is the head of Up? | Ann has resigned as head of Up. | yes
    Who was the head of Up? | Ann left Up in May, and Bob took over. | no
    Who is the head of Up? | Ann left the meeting at nine. Up is old. | no
    Who is the founder of Up? | Ann, who died in May, founded Up. | no
""")
def test_who_has_left_is_no_answer_of_today(question, sentence, left):
    assert has_left(fact(sentence, 'Up', 'Ann'), question) is (left == 'yes')
