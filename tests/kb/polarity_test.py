"""What a sentence denies, or says to be over, is no sure answer."""

import pytest

pytest.importorskip('spacy', reason='spaCy is not installed')

import opql_jax
from opql_jax.kb.paths import Fact
from opql_jax.kb.text.index_text import index_text
from opql_jax.kb.text.polarity import denies_answer

from examples import examples


def fact(sentence, topic, target):
    spans = [(sentence.index(name), sentence.index(name) + len(name)) for name in (topic, target)]
    return Fact(topic, target, 1.0, sentence=sentence, topic_span=spans[0], target_span=spans[1])


@pytest.mark.parametrize(
    'question, sentence, topic, target, stance',
    examples("""
        Who wrote Up? | Up was not written by Ann. | Up | Ann | denied
        Who wrote Up? | Up was not written by Ann, but by Bob. | Up | Ann | denied
        Who wrote Up? | Up was not written by Ann, but by Bob. | Up | Bob | stated
        Who wrote Up? | Not only Up was written by Ann. | Up | Ann | stated
        Who wrote Up? | Ann hasn't read it. Up was written by Bob. | Up | Bob | stated
        Who wrote Up? | Ann, who never married, wrote Up. | Up | Ann | stated
        Who did not like Up? | Ann did not like Up. | Up | Ann | stated
        Who filmed Up? | Bob denied that he had filmed Up. | Up | Bob | denied
        Where does Ann work? | Ann used to work in Oslo. | Ann | Oslo | denied
        Where did Ann work? | Ann used to work in Oslo. | Ann | Oslo | stated
        Where does Ann live now? | In 2019 Ann lived in Oslo. | Ann | Oslo | denied
        Where does Ann live now? | In 2019 Ann moved to Oslo. | Ann | Oslo | stated
        Who is the mayor of Ely? | Ely no longer has Ann for its mayor. | Ely | Ann | denied
        Who was the mayor of Ely? | Ely no longer has Ann for its mayor. | Ely | Ann | stated
    """),
)
def test_a_sentence_denies_what_it_says_is_not_so_or_is_over(
    question, sentence, topic, target, stance
):
    assert denies_answer(fact(sentence, topic, target), question) == (stance == 'denied')


def test_a_denied_answer_is_not_sure_and_comes_after_one_that_is_stated(tmp_path):
    folder = tmp_path / 'texts'
    folder.mkdir()
    (folder / 'Glass Harbour.txt').write_text(
        'Glass Harbour\n\nGlass Harbour is a play. Glass Harbour was never written by Edda Roth. '
        'Ivo Lang wrote Glass Harbour in 1911.'
    )
    (folder / 'Edda Roth.txt').write_text('Edda Roth\n\nEdda Roth was a painter of Bergen.')
    index_text([folder], tmp_path / 'kb', processes=1)
    with opql_jax.open(tmp_path / 'kb') as kb:
        answer = kb.ask('Who wrote Glass Harbour?')
        names = [member.name for member in answer]
        assert names[0] == 'Ivo Lang' and 'Edda Roth' in names
        assert answer.probabilities[names.index('Edda Roth')] < 0.5
        assert (answer.probabilities[:-1] >= answer.probabilities[1:]).all()
