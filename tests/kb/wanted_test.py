"""What a question asks for, by its words, and which answers are that."""

import types

import numpy as np
import pyarrow as pa

from opql_jax.kb.text.asked_for import AskedFor
from opql_jax.kb.text.wanted import wanted_by

from examples import table


@table("""
    question | kind
    when was it built | date
    the father of it | person
    how many people live there | quantity
    where did she die | place
    Who wrote it | person
    what nationality is she | group
    what genre is it | concept
    When he left, who kept it | person
    In Oslo, Ada Low, who wrote it, was born when? | date
    The mill stands on the bank of what river? | place
    the films directed by it were in which genres | concept
    What is the name of the inn's owner? | person
    Which of these men was a smith? | person
    What is the capacity of the hall that he built? | quantity
    What was the 19th century palace that burned down? | place
    What was the last Doctor Who episode that he wrote? | work
    What is the date of birth of the woman who sold it? | date
    It is a ship named after this person | person
    What prize did she win? | thing
    What Is the Age of Rosa Pike? | quantity
    What are some cities in Wales? | place
    what did it cause |
    somewhere whenever |
    What was the Harl Bridge? |
    A man who refused what? |
    What is "Where the City Ends" about? |
""")
def test_a_question_says_which_kind_it_asks_for_if_any(question, kind):
    assert ''.join(wanted_by(question).kinds[:1]) == kind


@table("""
    question | noun
    what is the river it joins | riv
    the bridges designed by it | bridg
    It was built by which Danish engineer? | engin
""")
def test_the_noun_that_is_asked_for_is_read(question, noun):
    assert noun in wanted_by(question).nouns


def asked_for(names=(), kinds=(), about=(), texts=()):
    """`AskedFor` over entities, and passages about some of them."""
    passages = pa.table({'title_entity': pa.array(about, pa.int32())})
    vocab = types.SimpleNamespace(names=list(names))
    prepared = types.SimpleNamespace(vocab=vocab, passages=passages)
    return AskedFor(prepared, np.array(list(kinds)), pa.array(texts, pa.string()))


NAMES = {
    'Ada Low': 'person',
    'Denmark': 'place',
    'Horsens': 'place',
    '40 km/h': 'quantity',
    '90 seconds': 'quantity',
    '2.5 m': 'quantity',
    '440': 'quantity',
    '1901': 'date',
    '9 May 1901': 'date',
    'Danish': 'group',
    '08:03': 'person',
}


@table("""
    question | right | unknown
    In which town was she born? | Horsens |
    In which country was she born? | Denmark | Horsens
    What country is she from? | Denmark or Danish | Horsens
    Where was she born? | Denmark or Horsens |
    How fast can it run? | 40 km/h | 440
    How long did it take? | 90 seconds | 440
    How long is it? | 90 seconds or 2.5 m | 440
    How many metres long is it? | 2.5 m or 1901 or 9 May 1901 | 440
    What year was it? | 1901 | 9 May 1901
    Who was it? | Ada Low or Danish |
""")
def test_answers_of_another_kind_size_or_measure_do_not_fit(question, right, unknown):
    of = asked_for(NAMES, NAMES.values())
    fits = of.fits(wanted_by(question), np.arange(len(NAMES))).tolist()
    found = {fit: [name for name, one in zip(NAMES, fits) if one == fit] for fit in (1, 0)}
    assert sorted(found[1]) == sorted(right.split(' or '))
    assert found[0] == list(filter(None, unknown.split(' or ')))


@table("""
    question | text | fits
    When did it open? | late 12th century | 1
    When did it open? | during the reign of Ann | 0
    How many more miles is it? | 20 miles | 1
    How many came? | many people | 0
    How many came? | smiths | -1
    Who came? | two smiths | 0
    Who came? | 08:03 | -1
""")
def test_words_that_name_nothing_may_be_what_is_asked_for(question, text, fits):
    assert asked_for().text_fits(wanted_by(question), text) == float(fits)


@table("""
    question | fits
    Which painter came? | 1
    Which poet came? | 0
    Which owner came? | 1
    Which town is it? | -1
""")
def test_what_a_document_says_it_is_about_is_nothing_else(question, fits):
    of = asked_for(['Ada Low'], ['person'], [0], ['Ada Low was a Danish painter of boats.'])
    assert of.fits(wanted_by(question), np.array([0])).tolist() == [float(fits)]
