"""Comparisons and questions of yes or no: what they ask about each thing that they name, and what
the text says to it.
"""

import numpy as np
import pytest

pytest.importorskip('spacy', reason='spaCy is not installed')

import opql_jax
from opql_jax.explorer import views
from opql_jax.kb.calibration import compared_probability
from opql_jax.kb.text.comparison_questions import parse
from opql_jax.kb.text.index_text import index_text
from opql_jax.kb.text.marked_questions import Name, names_of
from opql_jax.kb.weighted_entities import UNKNOWN_KIND

from examples import examples
from trios import write


def parsed(question):
    """What a question is read as, where its names stand in brackets and may say their kind:
    '[Ann/person]'.
    """
    text, names = '', []
    for piece in question.split('['):
        name, closed, after = piece.rpartition(']')
        if closed:
            name, _, kind = name.partition('/')
            names.append(Name(len(text), len(text) + len(name), len(names), kind))
        text += name + after
    return parse(text, names_of(text, names))


def asks(question):
    """What is chosen or compared, and the first plain question about each side."""
    found = parsed(question)
    assert found is not None, question
    return found.how, found.measure, [side.questions[0] for side in found.sides]


@pytest.mark.parametrize(
    'question, how, plain',
    examples("""
        Which film is older, [Night Ferry] or [Dawn Ferry]? | least | When was {} released?
        Which is the newer film, [Night Ferry] or [Dawn Ferry]? | most | When was {} released?
        Who is older, [Ann] or [Bob]? | least | When was {} born?
        Is [Ann/person] or [Bob/person] older? | least | When was {} born?
        Which of the two is younger, [Ann/person] or [Bob/person]? | most | When was {} born?
        Which is older, [Acme/organisation] or [Emca/organisation]? | least | When was {} founded?
        Who was born first, [Ann] or [Bob]? | least | When was {} born?
        Which professional tennis player was born first, [Ann] or [Bob]? | least | When was {} born?
        Between two chemists [Ann] and [Bob], who is older? | least | When was {} born?
        Which canal began operating first, [the Harl] or [the Corve]? | least \
            | When did {} begin operating?
        Was [Ann] or [Bob] born later? | most | When was {} born?
        Did [Ann] or [Bob] die first? | least | When did {} die?
        Did “[Up]” or “[Down]” come out first? | least | When was {} released?
        Which bridge opened first, [the Harl] or [the Corve]? | least | When was {} opened?
        Of [Ann] and [Bob], who died last? | most | When did {} die?
        Which of [Orbis] and [Lumen] was launched earlier? | least | When was {} launched?
        Which film was released more recently, [Up] or [Down]? | most | When was {} released?
        Which river is longer, [Orla] or [Tam]? | most | How long is {}?
        Who is shorter, [Ann] or [Bob]? | least | How tall is {}?
        Which city has more inhabitants, [Aker] or [Bakke]? | most | How many people live in {}?
        Which town has the larger population, [Aker] or [Bakke]? | most \
            | What is the population of {}?
        Which has fewer seats, [Aker Hall] or [Bakke Hall]? | least | How many seats does {} have?
    """),
)
def test_one_of_two_is_chosen_by_what_is_asked_about_each(question, how, plain):
    names = [piece.split(']')[0].split('/')[0] for piece in question.split('[')[1:]]
    found = asks(question)
    assert found[0] == how and found[2] == [plain.format(name) for name in names]


@pytest.mark.parametrize(
    'question, how, plain',
    examples("""
        Which film has the director who was born earlier, [Up] or [Down]? | least \
            | When was the director of {} born?
        Which film has the older director, [Up] or [Down]? | least \
            | When was the director of {} born?
        Which film has the director died later, [Up] or [Down]? | most \
            | When did the director of {} die?
        Whose director was born first, [Up]'s or [Down]'s? | least \
            | When was the director of {} born?
        Which film's director is younger, [Up] or [Down]? | most | When was the director of {} born?
        Do both films [Up] and [Down] have directors from the same country? | same \
            | What country is the director of {} from?
        Are the directors of both films [Up] and [Down] from the same country? | same \
            | What country is the director of {} from?
        Are director of film [Up] and director of film [Down] both from the same country? | same \
            | What country is the director of {} from?
        Do [Up]'s author and [Down]'s author have the same father? | same \
            | Who is the father of the author of {}?
    """),
)
def test_what_has_a_role_in_each_is_compared(question, how, plain):
    found = asks(question)
    assert found[0] == how and found[2] == [plain.format('Up'), plain.format('Down')]


@pytest.mark.parametrize(
    'question, how, plain',
    examples("""
        Are [Ann] and [Bob] from the same country? | same | What country is {} from?
        Do [Ann] and [Bob] have different nationalities? | different | What country is {} from?
        Do [Ann] and [Bob] have the same director? | same | Who is the director of {}?
        Do [Ann] and [Bob] share the same profession? | same | What is the profession of {}?
        Were [Ann] and [Bob] born in the same town? | same | In which town was {} born?
        Did [Ann] and [Bob] die in the same year? | same | When did {} die?
        Were [Ann] and [Bob] written by the same person? | same | Who wrote {}?
        Are both villages, [Ann] and [Bob], located in the same country? | same \
            | In which country is {} located?
        Was [Ann] born before [Bob]? | less | When was {} born?
        Did [Ann] open after [Bob]? | more | When did {} open?
        Is [Ann/person] older than [Bob/person]? | less | When was {} born?
        Is [Ann] heavier than [Bob]? | more | How heavy is {}?
    """),
)
def test_two_are_compared_with_each_other(question, how, plain):
    found = asks(question)
    assert found[0] == how and found[2] == [plain.format('Ann'), plain.format('Bob')]


@pytest.mark.parametrize(
    'question, plain, asked',
    examples("""
        Was [Up] directed by [Ann]? | Who directed Up? | Ann
        Did [Ann] direct [Up]? | Who directed Up? | Ann
        Did [Ann] write [Up]? | Who wrote Up? | Ann
        Is [Ann] the director of [Up]? | Who is the director of Up? | Ann
        Is [Up]'s director [Ann]? | Who is the director of Up? | Ann
        Was [Ann] born in [Bergen/place]? | Where was Ann born? | Bergen
        Was [Ann] born in 1963? | When was Ann born? | 1963
        Did [Ann] die on 9 June 2011? | When did Ann die? | 9 June 2011
        Was [Ann] born before 1970? | When was Ann born? | 1970
        Is the [Harl] located in [Bergen/place]? | Where is the Harl located? | Bergen
        Is [Ann] from [Norway/place]? | Where is Ann from? | Norway
        Is [Ann] Norwegian? | What country is Ann from? | norwegian
        Was [Ann] an architect? | What is the profession of Ann? | architect
        Was [Ann] married to [Bob]? | Who was Ann married to? | Bob
        Was the director of [Up] born in [Bergen/place]? | Where was the director of Up born? \
            | Bergen
        Does [Up] star [Ann]? | Who stars in Up? | Ann
    """),
)
def test_a_fact_is_asked_for_with_a_question_word_in_place_of_one_name(question, plain, asked):
    found = parsed(question)
    assert found is not None and found.sides[0].questions[0] == plain and found.asked == asked


def test_a_fact_about_both_is_asked_about_each():
    found = parsed('Were both [Up] and [Down] directed by [Ann]?')
    assert [side.questions[0] for side in found.sides] == ['Who directed Up?', 'Who directed Down?']
    assert found.asked == 'Ann'


@pytest.mark.parametrize(
    'question',
    [
        'Who directed [Up]?',
        'Who wrote [Love] and [Death]?',
        'Which film stars [Ann] and [Bob]?',
        'Who was the first president of [Norway] and [Sweden]?',
        'Who won more awards, [Ann] or [Bob]?',
        'Was [Ann] not born in [Bergen]?',
        'How many films did [Ann] direct?',
        'Why did [Ann] leave [Bergen]?',
        'Is [Ann/person] in [Up/work]?',
    ],
)
def test_other_questions_compare_nothing(question):
    assert parsed(question) is None


def test_names_that_the_text_lacks_are_names_still():
    found = parse(
        'Who was born first, Ludwig van Ossel or Anna of the Marsh?',
        names_of('Who was born first, Ludwig van Ossel or Anna of the Marsh?', []),
    )
    assert [side.name for side in found.sides] == ['Ludwig van Ossel', 'Anna of the Marsh']
    assert all(side.entity < 0 for side in found.sides)


# ---- Over text ----

BRIDGES = (
    'The Harl Bridge was designed by Amara Finch and opened in 1931. It is 412 metres long and '
    'crosses the Orla at Tamsin. The Corve Bridge was designed by Joel Stern and opened on 9 June '
    '1954. It is 1.2 km long. The Pell Bridge was not designed by Joel Stern.'
)
ENGINEERS = (
    'Amara Finch was born in Leith in 1888 and died in 1950. Joel Stern was born in Prague on 3 '
    'March 1901. Finch was Scottish. Stern was a Czech engineer. Ruta Hald, who was never married '
    'to Joel Stern, was born in Riga in 1910.'
)
WINERIES = (
    'Casa Verde is a winery in Spain. It was founded in 1884 by Pilar Ortega. '
    'Casa Roja was founded in 1902 by Luis Vidal. Casa Roja is a winery in '
    'Portugal. Monte Alto is a winery in Spain.'
)


@pytest.fixture(scope='module')
def kb(tmp_path_factory):
    root = tmp_path_factory.mktemp('compared')
    write(
        root / 'articles',
        {'Bridges of the Orla': BRIDGES, 'Two engineers': ENGINEERS, 'Casa Verde': WINERIES},
    )
    index_text([root / 'articles'], root / 'kb', processes=1)
    with opql_jax.open(root / 'kb') as opened:
        yield opened


@pytest.mark.parametrize(
    'question, right',
    examples("""
        Which bridge opened first, the Harl Bridge or the Corve Bridge? | Harl Bridge
        Did the Harl Bridge or the Corve Bridge open last? | Corve Bridge
        Which bridge is longer, the Harl Bridge or the Corve Bridge? | Corve Bridge
        Who was born first, Joel Stern or Amara Finch? | Amara Finch
        Which winery is older, Casa Roja or Casa Verde? | Casa Verde
        Which bridge has the designer who was born earlier, the Corve Bridge or the Harl Bridge? \
            | Harl Bridge
        Is Joel Stern older than Amara Finch? | no
        Did Amara Finch die before 1960? | yes
        Are Amara Finch and Joel Stern from the same country? | no
        Are Casa Verde and Monte Alto in the same country? | yes
        Do the Harl Bridge and the Corve Bridge have the same designer? | no
        Was the Harl Bridge designed by Amara Finch? | yes
        Was the Harl Bridge designed by Joel Stern? | no
        Did Pilar Ortega found Casa Verde? | yes
        Did Luis Vidal found Casa Verde? | no
        Did the Corve Bridge open in 1954? | yes
        Was Joel Stern an engineer? | yes
        Is Casa Verde in Portugal? | no
    """),
)
def test_what_two_facts_say_together_is_the_answer(kb, question, right):
    assert kb.ask(question).names == [right]


@pytest.mark.parametrize(
    'question',
    [
        'Was the Pell Bridge designed by Joel Stern?',
        'Was Ruta Hald married to Joel Stern?',
        'Was Monte Alto founded before Casa Roja?',
        'Who is taller, Amara Finch or Joel Stern?',
        'Did Amara Finch marry Joel Stern?',
        'Was the Harl Bridge painted by Amara Finch?',
        'Who was born first, Joel Stern or Ludwig Ossel?',
        'Was Joel Stern born in Bohemia?',
        'Was the Harl Bridge painted by Amara Finch?',
        'Was Casa Verde sold by Pilar Ortega?',
    ],
)
def test_what_the_text_does_not_state_or_denies_is_not_sure(kb, question):
    assert not kb.ask(question).is_sure


def test_an_undecided_question_has_no_answer_and_says_what_was_found(kb):
    record = kb.ask('Was the Pell Bridge designed by Joel Stern?').to_record(3)
    assert record['answers'] == [] and record['sure'] is False
    assert 'the text does not decide this: Pell Bridge: Joel Stern' in record['note'].split('\n')


def test_both_facts_are_shown_by_each_interface(kb):
    question = 'Which bridge opened first, the Harl Bridge or the Corve Bridge?'
    answer = kb.find(question)
    text = answer.to_text(3)
    record = answer.to_record(3)
    assert 'Harl Bridge: 1931; Corve Bridge: 9 June 1954' in record['note'].split('\n')
    (first,) = record['answers']
    assert first['entity'] == 'Harl Bridge' and first['key'] == 'harl bridge'
    (each,) = np.prod([part.probabilities[:1] for part in answer.parts], axis=0).tolist()
    read = kb.read([part.question for part in answer.parts], answer.parts)
    answered = min(1 - found.unanswered for found in read)
    assert first['probability'] == pytest.approx(
        compared_probability(each, answered, is_single=False), abs=1e-3
    )
    cited = ' '.join(citation.sentence for citation in views.ask(kb, question).citations)
    for shown in (text, answer.explain(), str(first['path']), cited):
        assert 'opened in 1931' in shown.replace('[', '').replace(']', '')
        assert '9 June 1954' in shown
    assert answer.passages()[0].title == 'Bridges of the Orla'
    assert answer.to_pandas()['entity'][0] == 'Harl Bridge'


def test_a_place_that_another_fact_names_is_not_confirmed(tmp_path):
    (tmp_path / 'a.txt').write_text(
        'Ada Holm\n\nAda Holm was a pilot. She was born in Trondheim in 1921 '
        'and died in Oslo in 1999.'
    )
    index_text([tmp_path / 'a.txt'], tmp_path / 'kb', processes=1)
    with opql_jax.open(tmp_path / 'kb') as kb:
        assert not kb.ask('Was Ada Holm born in Oslo?').is_sure
        (member,) = confirmed = kb.ask('Was Ada Holm born in Trondheim?')
        assert member.name == 'yes' and confirmed.paths('yes')[0][-1].target == 'Trondheim'


def test_yes_is_a_phrase_with_the_fact_that_states_it(kb):
    answer = kb.ask('Was the Harl Bridge designed by Amara Finch?')
    (member,) = answer
    assert (member.name, member.id, member.kind) == ('yes', -1, UNKNOWN_KIND)
    assert answer.phrases == ('yes',)
    (path,) = answer.paths('yes')
    assert path[-1].ends == ('Harl Bridge', 'Amara Finch')
    (record,) = answer.to_record(3)['answers']
    assert record['entity'] == 'yes'
    assert 'key' not in record
    assert 'Amara Finch' in record['path'][-1]['sentence']


@pytest.mark.parametrize(
    'question, why',
    examples("""
        How many bridges did Joel Stern design? | counts
        Why did the Harl Bridge open? | why
        How did Joel Stern die? | how
        What is the longest bridge of Joel Stern? | longest
        Has Joel Stern seen the Harl Bridge? | yes or no
        Who won more prizes, Joel Stern or Amara Finch? | compares
    """),
)
def test_what_is_out_of_reach_has_no_probability_and_says_so(kb, question, why):
    record, shown = kb.ask(question).to_record(3), views.ask(kb, question)
    assert why in record['note'] and any(why in note for note in shown.notes)
    assert record['sure'] is shown.is_sure is False
    assert all('probability' not in one for one in record['answers'])
    assert all(one.member.probability is None for one in shown.found)
    assert 'probability' not in kb.find(question).to_text(3)
