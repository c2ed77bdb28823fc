"""Comparisons and questions of yes or no: what they ask about each name, and what the text says."""

import itertools
import re

import pytest

import opql_jax
from opql_jax.kb.text.choices import alternatives
from opql_jax.kb.text.comparison_questions import parse
from opql_jax.kb.text.marked_questions import Name, names_of
from opql_jax.kb.weighted_entities import UNKNOWN_KIND

from examples import lines, table
from spans import marked


def parsed(question):
    """How a question is read whose names stand in brackets, maybe with a kind: '[Ann: person]'."""
    text, spans = marked(question.replace(': ', '|'), kind='')
    names = [Name(span.start, span.end, number, span.kind) for number, span in enumerate(spans)]
    return parse(text, names_of(text, names))


OF, BORN = 'What country is the director of {} from?', 'When was the director of {} born?'


@table(f"""
    question | how | plain | asked
    Which is the newer film, [Night Ferry] or [Dawn Ferry]? | most | When was {{}} released? |
    Who is older, [Ann] or [Bob]? | least | When was {{}} born? |
    Which is older, [Acme: organisation] or [Emca: organisation]? | least | When was {{}} founded? |
    Of [Ann] and [Bob], who died last? | most | When did {{}} die? |
    Who is shorter, [Ann] or [Bob]? | least | How tall is {{}}? |
    Which city has more inhabitants, [Aker] or [Bakke]? | most | How many people live in {{}}? |
    Which film has the director who was born earlier, [Up] or [Down]? | least | {BORN} |
    Whose director was born first, [Up]'s or [Down]'s? | least | {BORN} |
    Do both films [Up] and [Down] have directors from the same country? | same | {OF} |
    Do [Ann] and [Bob] have different nationalities? | different | What country is {{}} from? |
    Was [Ann] born before [Bob]? | less | When was {{}} born? |
    Is [Ann: person] older than [Bob: person]? | less | When was {{}} born? |
    Was [Up] directed by [Ann]? | is | Who directed Up? | Ann
    Did [Ann] direct [Up]? | is | Who directed Up? | Ann
    Is [Ann] the director of [Up]? | is | Who is the director of Up? | Ann
    Was [Ann] born in [Bergen: place]? | is | Where was Ann born? | Bergen
    Was [Ann] born before 1970? | less | When was Ann born? | 1970
    Is [Ann] Norwegian? | is | What country is Ann from? | norwegian
    Is the [Orla: place] a shallow stream? | is | What type of thing is the Orla? | stream
    Did [Ann] sell the mill? | is | What did Ann sell? | mill
    Were both [Up] and [Down] directed by [Ann]? | is | Who directed {{}}? | Ann
    Which of the two songs, [Up] or [Down], is by [Ann]? | which | Who wrote {{}}? | Ann
""")
def test_the_same_is_asked_about_each_name_and_compared_or_chosen_by(question, how, plain, asked):
    found = parsed(question)
    names = [piece.split(']')[0].split(': ')[0] for piece in question.split('[')[1:]]
    expected = [plain.format(name) for name in names if name != asked][: len(found.sides)]
    assert [side.questions[0] for side in found.sides] == expected
    assert (found.how, found.asked) == (how, asked)


def test_other_questions_compare_nothing():
    for question in lines("""
        Who directed [Up]?
        Who is the wife of [Carl], [Ann] or [Bob]?
        Who was the first president of [Norway] and [Sweden]?
        Was [Ann] not born in [Bergen]?
        Why did [Ann] leave [Bergen]?
        Is [Ann: person] in [Up: work]?
    """):
        assert parsed(question) is None, question


def test_names_that_the_text_lacks_are_names_still():
    sides = parsed('Who was born first, Ludwig van Ossel or Anna of the Marsh?').sides
    assert [side.name for side in sides] == ['Ludwig van Ossel', 'Anna of the Marsh']
    assert all(side.entity == -1 for side in sides)


DOCUMENTS = {
    'Bridges of the Orla': 'The Harl Bridge was designed by Amara Finch and opened in 1931. It is '
    '412 metres long and crosses the Orla at Tamsin. The Corve Bridge was designed by Joel Stern '
    'and opened on 9 June 1954. It is 1.2 km long. The Pell Bridge was not designed by Joel Stern.',
    'Two engineers': 'Amara Finch was born in Leith in 1888 and died in 1950. Joel Stern was born '
    'in Prague on 3 March 1901. Finch was Scottish. Stern was a Czech engineer. Ruta Hald, who was '
    'never married to Joel Stern, was born in Riga in 1910.',
    'Casa Verde': 'Casa Verde is a winery in Spain. It was founded in 1884 by Pilar Ortega. Casa '
    'Roja was founded in 1902 by Luis Vidal. Casa Roja is a winery in Portugal. Monte Alto is a '
    'winery in Spain.',
    'Three moors': 'Alder Moor covers 3 square kilometres and is 140 metres high. Bracken Moor '
    'covers 420 hectares and is 95 metres high. Cotter Moor is 610 feet high.',
    'Ada Holm': 'Ada Holm was a pilot. She was born in Trondheim in 1921 and died in Oslo in 1999.',
    'Four pilots': 'Ida Vik was born in Norway. Per Lund was born in Trondheim. Eva Dahl was born '
    'in Bergen. Kari Moe was born in Telemark. Eva Dahl led the first full survey of the Orla in '
    '1950. Per Lund did not lead the first survey of the Orla. Trondheim is a city. Bergen is a '
    'city.',
}


@table("""
    question | right
    Which bridge opened first, the Harl Bridge or the Corve Bridge? | Harl Bridge
    Which moor is larger, Alder Moor or Bracken Moor? | Bracken Moor
    Is Cotter Moor higher than Alder Moor? | yes
    Are Casa Verde and Monte Alto in the same country? | yes
    Were Eva Dahl and Per Lund born in the same city? | no
    Did Per Lund lead the first survey of the Orla? | no
    Did Eva Dahl lead the full survey of the Orla? | yes
    Who is taller, Amara Finch or Joel Stern? |
    Was Joel Stern born in Bohemia? |
    Were Ada Holm and Ida Vik born in the same city? |
    Were Ada Holm and Kari Moe born in the same city? |
""")
def test_what_two_facts_say_together_is_the_answer_and_what_none_says_unsure(kb, question, right):
    answer = kb.ask(question)
    assert answer.names == [right] if right else not answer.is_sure


def test_what_a_sentence_denies_is_surely_not_so(kb):
    for question in ('Was Ruta Hald married to Joel Stern?', 'Was Ada Holm born in Oslo?'):
        answer = kb.ask(question)
        assert answer.names == ['no'] and answer.is_sure


def test_a_comparison_is_as_probable_as_the_less_probable_of_its_values(kb):
    answer = kb.ask('Who was born first, Joel Stern or Amara Finch?')
    values = [kb.ask(f'When was {name} born?') for name in ('Joel Stern', 'Amara Finch')]
    assert [part.names for part in answer.parts] == [value.names[:1] for value in values]
    assert answer.probabilities[0] == pytest.approx(min(value.probabilities[0] for value in values))


def test_both_facts_are_shown(kb):
    answer = kb.find('Which bridge opened first, the Harl Bridge or the Corve Bridge?')
    record = answer.to_record(3)
    assert 'Harl Bridge: 1931; Corve Bridge: 9 June 1954' in record['note'].split('\n')
    (first,) = record['answers']
    assert first['key'] == 'harl bridge'
    for shown in (answer.to_text(3), answer.explain(), str(first['path'])):
        assert 'opened in 1931' in re.sub(r'[\[\]]', '', shown) and '9 June 1954' in shown
    assert answer.passages()[0].title == 'Bridges of the Orla'


def test_yes_is_a_phrase_with_the_fact_that_states_it(kb):
    answer = kb.ask('Was the Harl Bridge designed by Amara Finch?')
    (member,) = answer
    assert (member.name, member.id, member.kind) == ('yes', -1, UNKNOWN_KIND)
    assert answer.phrases == ('yes',)
    (path,) = answer.paths('yes')
    assert path[-1].ends == ('Harl Bridge', 'Amara Finch')
    (record,) = answer.to_record(3)['answers']
    assert record['entity'] == 'yes' and 'key' not in record
    assert 'Amara Finch' in record['path'][-1]['sentence']


def test_what_no_sentence_says_the_reader_takes_for_yes_or_no_without_being_sure(kb):
    answer = kb.ask('Has Joel Stern seen the Harl Bridge?')
    (word,) = answer.names
    assert word in ('yes', 'no') and not answer.is_sure and 0 < answer.probabilities[0] < 0.6
    assert 'the reader takes it so' in answer.to_record(3)['note']
    assert answer.paths(word)[0][-1].sentence


@table("""
    question | why
    How many bridges did Joel Stern design? | counts
    How did Joel Stern die? | how
""")
def test_what_is_out_of_reach_has_no_probability_and_says_so(kb, question, why):
    answer = kb.ask(question)
    record = answer.to_record(3)
    assert why in record['note'] and record['sure'] is False
    assert all('probability' not in one for one in record['answers'])
    assert 'probability' not in answer.to_text(3)


CHOICES = {
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
    Who painted Orla Finch and Joel Stern? |
    Was Orla Finch or Joel Stern a painter? |
    Who is a painter, Orla Finch, Joel Stern or Ann Low? |
    Who is it, {'Orla Finch or Joel Stern ' * 50}? |
""")
def test_two_names_are_offered_by_or_and_between(question, two):
    found = alternatives(question, names_of(question, []))
    assert ', '.join(side.name for side in found or ()) == two


def test_nothing_but_the_two_is_an_answer(index):
    folder, two = index(CHOICES), {'Orla Finch', 'Joel Stern'}
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
