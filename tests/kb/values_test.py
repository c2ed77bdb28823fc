"""What dates, numbers and countries in words are worth, and dates in brackets behind a name."""

import numpy as np
import pytest

from opql_jax.kb.text.life_spans import with_life_span
from opql_jax.kb.text.values import compare, country, date, lies_in, with_unit
from opql_jax.models.reader import Reading, Span

from examples import examples, table

LESS = {
    'date': """
        9 June 2011 | 10 June 2011
        June 9, 2011 | 2011-07-01
        May 2003 | 4 June 2003
        44 BC | 30 BC
        the 19th century | 1901
    """,
    'number': """
        412 metres | 1.2 km
        1,250 people | 1.3 million
        eleven | twenty one
        90 minutes | two hours
        3 square kilometres | 4 km²
        about 40 mph | 100 km/h
    """,
}


@pytest.mark.parametrize(
    'measure, less, more', [(key, *row) for key, rows in LESS.items() for row in examples(rows)]
)
def test_dates_in_any_form_and_numbers_in_any_unit_have_an_order(measure, less, more):
    assert compare(measure, less, more) == -1 and compare(measure, more, less) == 1


def test_dates_that_overlap_and_what_measures_something_else_have_none():
    for measure, one, other in examples("""
        date | 1994 | 9 June 1994
        date | 1994 | 1994
        date | the 1990s | 1994
        date | 20th century | 1950
        number | 412 metres | 750 kg
        number | many | 12
        number | | 1
    """):
        assert compare(measure, one, other) == (0 if measure == 'date' else None)


def test_what_names_no_year_is_no_date():
    for text in ('Tuesday', '9 June', 'soon', '1,994', '412 metres'):
        assert date(text) is None, text


def test_a_day_lies_in_its_year_and_a_year_in_no_day():
    assert all(lies_in('9 June 2011', whole) for whole in ('2011', 'June 2011', '9 June 2011'))
    assert not lies_in('2011', '9 June 2011') and not lies_in('9 June 2011', '2012')


@table("""
    number | after | whole
    168 | m high | 168 m
    60 | -foot mast | 60 foot
    12 | islands | 12
    31 km | days | 31 km
    Ostby | km | Ostby
""")
def test_a_number_has_the_unit_that_stands_after_it(number, after, whole):
    blank = ' ' * (not after.startswith('-'))
    assert with_unit(number, blank + after) == whole


def test_names_and_adjectives_of_a_country_are_one():
    for names in examples("""
        American | United States | the U.S. | USA
        Dutch | the Netherlands
    """):
        assert len({country(name) for name in names}) == 1 and country(names[0])


TEXT = (
    'Maud Ellery: Maud Ellery (12 May 1911 in Hull – 1988) was a potter. Her sister Ruth Ellery '
    '(born 1915) kept bees, and married Jan van Dyk (c. 1900 – 3 June 1961). The vicar Bo '
    'Orr (d. 1790) told of it to Kay Lund (1998).'
)


@table("""
    question | date
    When was Maud Ellery born? | 12 May 1911
    In which year was Ruth Ellery born? | 1915
    When did Ruth Ellery die? |
    what year did Jan van Dyk die | 3 June 1961
    When did Bo Orr pass away? | 1790
    When was Bo Orr born? |
    When was Kay Lund born? |
    When was the sister of Maud Ellery born? |
""")
def test_they_answer_when_whom_they_are_of_was_born_or_died(question, date):
    reading = Reading([Span(0, 0, 4, 0.5)], 0.3, 0.1, 0.1, np.ones(1, np.float32))
    found = with_life_span(question, [TEXT], reading)
    best = found.spans[0]
    total = sum(span.probability for span in found.spans) + found.unanswered + found.yes + found.no
    assert abs(total - 1) < 1e-6
    assert (TEXT[best.start : best.end] if best.probability > 0.5 else '') == date
