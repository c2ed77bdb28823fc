"""The names in a question of plain words, with all that each may mean."""

import pytest

from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.question_linking import QuestionLinker, joined

from examples import table

ENTITIES = {
    'Christopher Nolan': (['Nolan'], 'person'),
    'Jonathan Nolan': (['Nolan'], 'person'),
    'Nolan': ([], 'place'),
    'Darren Aronofsky': ([], 'person'),
    'Titanic (film)': ([], 'work'),
    'Titanic (ship)': ([], 'name'),
    'Performer': ([], 'work'),
    'Film': ([], 'work'),
    'The Who': ([], 'name'),
    'Who': ([], 'name'),
    'The Dark Knight': ([], 'work'),
    'Aschenbrödel': ([], 'work'),
    'Royal Shakespeare Company': (['RSC'], 'organisation'),
    'Bjørn Sørensen': ([], 'person'),
    '1815': ([], 'date'),
    '☆': ([], 'work'),  # of no letter
}
VOCAB = EntityVocab([name.lower() for name in ENTITIES], list(ENTITIES), *zip(*ENTITIES.values()))
CASES = {
    'Who directed The Dark Knight?': [('The Dark Knight',) * 2],
    'who directed the dark knight': [('the dark knight', 'The Dark Knight')],
    'Where was Nolan born?': [('Nolan', 'Nolan', 'Christopher Nolan', 'Jonathan Nolan')],
    'What did Aronofsky direct?': [('Aronofsky', 'Darren Aronofsky')],
    'Who staged Aschenbrodel?': [('Aschenbrodel', 'Aschenbrödel')],
    "What is CHRISTOPHER NOLAN's first film?": [('CHRISTOPHER NOLAN', 'Christopher Nolan')],
    'Did a performer of the film see The Who in 1815?': [('The Who',) * 2, ('1815', '1815')],
    'who is the performer': [('performer', 'Performer')],
    'how long is the first film': [],
    'who was the last titanic man': [('titanic', 'Titanic (film)', 'Titanic (ship)')],
}


def named(question, found, vocab=VOCAB):
    names = lambda entities: (vocab.names[entity] for entity in entities)
    return [(question[start:end], *names(entities)) for start, end, entities in found]


@pytest.mark.parametrize('question', CASES)
def test_the_names_of_a_question_are_found_with_all_that_they_may_mean(question):
    assert named(question, QuestionLinker(VOCAB).link(question)) == CASES[question]


def test_places_are_code_points_whatever_folding_makes_of_them():
    question = '😀 ½ Æ: did Bjørn Sørensen sing Aschenbro\u0308del?'
    found = named(question, QuestionLinker(VOCAB).link(question))
    assert found == [('Bjørn Sørensen',) * 2, ('Aschenbro\u0308del', 'Aschenbrödel')]


def test_a_short_form_that_the_text_uses_comes_before_people_who_have_the_surname():
    for aliases, meant in (([['Low'], []], [0]), ([[], []], [0, 1])):
        vocab = EntityVocab(['a', 'b'], ['Ann Low', 'Bob Low'], aliases, ['person', 'person'])
        assert QuestionLinker(vocab).link('Where is Low?')[0].entities == meant


@pytest.mark.parametrize('question', ['', ' ', '?!', '\u0301', 'a' * 10_000, 'Nolan ' * 1000])
def test_any_string_is_a_question(question):
    linker = QuestionLinker(VOCAB)
    assert len(linker.link(question)) == question.count('Nolan')
    assert QuestionLinker(EntityVocab([], [], [])).link(question) == []


@table("""
    question | first | second
    Who is older, Nolan or Darren Aronofsky? | Nolan | Darren Aronofsky
    Are both Nolan's, and the RSC British? | Nolan | RSC
    Did Nolan know “Titanic” and “The Dark Knight”? | Titanic | The Dark Knight
    Did Nolan meet Darren Aronofsky and others at the RSC? | |
""")
def test_names_that_and_or_or_joins(question, first, second):
    found = joined(question, QuestionLinker(VOCAB).link(question))
    names = [(question[a.start : a.end], question[b.start : b.end]) for a, b in found]
    assert names == [(first, second)] * bool(first)


@table("""
    question | found
    When did civil flights from Karsholm begin? | Karsholm Airport
    When did Karsholm Airport open? | Karsholm Airport
    # "New" goes on otherwise; two names begin so; no name.
    Who wrote about New Orleans? |
    Who flew to New? |
    Where is it? |
""")
def test_the_first_words_of_one_name_mean_it_where_nothing_else_is_named(question, found):
    vocab = EntityVocab.from_names(['Karsholm Airport', 'New York', 'New Delhi'])
    linked = QuestionLinker(vocab).link(question)
    assert [vocab.names[e] for named in linked for e in named.entities] == [found] * bool(found)
