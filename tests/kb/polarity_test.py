"""What a sentence denies, or says to be over, is no sure answer."""

import opql_jax
from opql_jax.kb.paths import Fact
from opql_jax.kb.text.polarity import denies_answer, has_left, leaves_open

from examples import table


def fact(sentence, topic, target):
    spans = [(sentence.index(name), sentence.index(name) + len(name)) for name in (topic, target)]
    return Fact(topic, target, 1.0, sentence=sentence, topic_span=spans[0], target_span=spans[1])


@table("""
    question | sentence | topic | target | found
    Who wrote Up? | Up was not written by Ann. | Up | Ann | denied
    Who wrote Up? | Ann hasn't read it. Up was written by Bob. | Up | Bob | not denied
    Who did not like Up? | Ann did not like Up. | Up | Ann | not denied
    Who filmed Up? | Bob denied that he had filmed Up. | Up | Bob | denied
    Where does Ann live now? | In 2019 Ann moved to Oslo. | Ann | Oslo | not denied
    Who is the mayor of Ely? | Ely no longer has Ann for its mayor. | Ely | Ann | denied
    Who runs Up? | Ann, head of Up from 2010 to 2017, died. | Up | Ann | denied
    Which old films starred Ann? | Until 2017 Ann starred in Up. | Ann | Up | not denied
    Where is Up? | Up used to be in Ely, but it is in Oslo. | Up | Oslo | not denied
    Who is the father of Ann? | Up will be run by Ann's father, Bob. | Ann | Bob | not denied
    When was Up founded? | Up was founded in 1950 and aims to help. | Up | 1950 | not denied
    Who is the head of Up? | The head of Up was then Ann. | Up | Ann | denied
    | Up may have been written by Ann. | Up | Ann | open
    | Ann is said to own Up. | Ann | Up | open
    | Up was written by Ann; it may be filmed. | Up | Ann | not open
    Who is the head of Up? | Ann left Up in May, and Bob took over. | Up | Ann | left
    Who was the head of Up? | Ann left Up in May, and Bob took over. | Up | Ann | not left
    Who is the head of Up? | Ann left the meeting at nine. Up is old. | Up | Ann | not left
    Who is the founder of Up? | Ann, who died in May, founded Up. | Up | Ann | not left
""")
def test_a_fact_is_denied_left_open_or_of_who_has_left(question, sentence, topic, target, found):
    of, which = fact(sentence, topic, target), found.removeprefix('not ')
    holds = {'open': leaves_open(of), 'denied': denies_answer(of, question)}
    holds['left'] = has_left(of, question)
    assert holds[which] is (found == which)


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
