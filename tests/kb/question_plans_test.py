"""How questions in plain words may be taken apart into hops."""

from hypothesis import given, settings
from hypothesis import strategies as st

from opql_jax.kb.text.question_plans import out_of_reach, plans

from examples import table


def plans_of(question):
    """The plans of 'who made [Up]': steps with brackets around their topics."""
    start, end = question.index('['), question.index(']') - 1
    found = plans(question.replace('[', '').replace(']', ''), (start, end))
    return [[f'{text[:a]}[{text[a:b]}]{text[b:]}' for text, (a, b) in plan] for plan in found]


@table("""
    question | plan
    Where did [James]’ father die? | [James]’ father / Where did [it] die
    Whom did [Ada]'s only formal pupil marry? | [Ada]'s only formal pupil / Whom did [it] marry
    Where is the aunt of the heir of [A]? | the heir of [A] / the aunt of [it] / Where is [it]
    where was the man who founded [Up] born | the man who founded [Up] / where was [it] born
    Who is the maternal grandfather of [Ada]? | the mother of [Ada] / Who is the father of [it]
    what was the name of [Ada]'s ship |
    Who is the ſtepmother of [Ada]? |
    who founded [A Inc.] |
""")
def test_a_phrase_that_holds_the_topic_may_be_found_first_else_there_is_one_plan(question, plan):
    found = plans_of(question)
    assert len(found[0]) == 1  # that of one hop comes first
    assert plan.split(' / ') in found if plan else found == [[question.rstrip('?')]]


WORDS = st.sampled_from(
    "who where did the a of in that whose father wife film director is 's "
    '’s , . ? it born the\t those all'.split(' ')
)


@settings(max_examples=300)
@given(
    st.lists(WORDS, max_size=9),
    st.sampled_from(['Ada', 'Apple Inc.', 'the Who', '?']),
    st.lists(WORDS, max_size=9),
)
def test_every_plan_begins_with_the_topic_and_goes_on_from_what_was_found(before, topic, after):
    text = ' '.join([*before, topic, *after])
    start = len(' '.join([*before, '']))
    found = plans(text, (start, start + len(topic)))
    assert 1 <= len(found) <= 10 and len(set(found)) == len(found)
    assert [len(plan) for plan in found] == sorted(len(plan) for plan in found)
    assert len(found[0]) == 1
    for first, *rest in found:
        assert first.text[slice(*first.topic)] == topic and first.text in text
        assert all(step.text[slice(*step.topic)] == 'it' for step in rest)
        assert len(rest) < 4


@table("""
    question | why | stated
    Is Rome in Italy? | yes or no |
    did they meet | yes or no |
    who was born first, Ann or Bob | compares |
    Why did Ann leave | why |
    how many films did Ann direct | counts | Ann directed twelve long films.
    how many cabins has Ann | counts | ship: Ann / captain: Bo Lee / cabins: 14
    what is the largest city of Norway | largest | Oslo is the largest city of Norway.
    who directed the most films | most |
    which of the two bells is older | older | The tenor is the older bell.
    who has more books than Ann | more | Bo has more books than Ann.
    who is her older brother | |
    who lives there no longer | |
    Isabel is who | |
    who directed Love and Death | |
    how many cabins does Ann have | |
""")
def test_what_no_entity_answers_is_told_unless_a_sentence_states_it(question, why, stated):
    told = out_of_reach(f' {question}' if why else question)
    assert why in told if why else told is None
    assert not stated or out_of_reach(question, stated) is None
