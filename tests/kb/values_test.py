"""What dates, numbers and countries in words are worth."""

import pytest

from opql_jax.kb.text.values import compare, country, date, lies_in, with_unit

from examples import examples


@pytest.mark.parametrize(
    'earlier, later',
    examples("""
        1994 | 1999
        9 June 2011 | 10 June 2011
        June 9, 2011 | 2011-07-01
        May 2003 | 4 June 2003
        44 BC | 1994
        44 BC | 30 BC
        3rd century BC | 1st century
        the 19th century | 1901
        the 1980s | 1994
        1st of March 1850 | the summer of 1851
    """),
)
def test_dates_in_any_form_have_an_order(earlier, later):
    assert compare('date', earlier, later) == -1 and compare('date', later, earlier) == 1


def test_dates_that_overlap_have_none():
    for one, other in examples("""
        1994 | 9 June 1994
        1994 | 1994
        the 1990s | 1994
        20th century | 1950
    """):
        assert compare('date', one, other) == 0


def test_what_names_no_year_is_no_date():
    for text in ('Tuesday', '9 June', 'soon', '1,994', '412 metres'):
        assert date(text) is None, text


def test_a_day_lies_in_its_year_and_a_year_in_no_day():
    assert lies_in('9 June 2011', '2011')
    assert lies_in('2011', '2011')
    assert lies_in('9 June 2011', 'June 2011')
    assert not lies_in('2011', '9 June 2011') and not lies_in('9 June 2011', '2012')


@pytest.mark.parametrize(
    'less, more',
    examples("""
        412 metres | 1.2 km
        1,250 people | 1.3 million
        750 kg | 1.3 tonnes
        eleven | twenty one
        90 minutes | two hours
        5 feet | 2 m
        3 square kilometres | 4 km²
        about 40 mph | 100 km/h
    """),
)
def test_numbers_are_compared_in_one_unit(less, more):
    assert compare('number', less, more) == -1 and compare('number', more, less) == 1


@pytest.mark.parametrize(
    'number, after, whole',
    [
        ('9,500', ' hectares of heath.', '9,500 hectares'),
        ('168', ' m high', '168 m'),
        ('60', '-foot mast', '60 foot'),
        ('12', ' square miles', '12 square miles'),
        ('12', ' in all', '12'),
        ('12', ' islands', '12'),
        ('31 km', ' days', '31 km'),
        ('Ostby', ' km', 'Ostby'),
    ],
)
def test_a_number_has_the_unit_that_stands_after_it(number, after, whole):
    assert with_unit(number, after) == whole


@pytest.mark.parametrize('one, other', [('412 metres', '750 kg'), ('many', '12'), ('', '1')])
def test_what_measures_something_else_is_not_compared(one, other):
    assert compare('number', one, other) is None


def test_names_and_adjectives_of_a_country_are_one():
    for names in examples("""
        American | United States | the U.S. | USA
        British | the United Kingdom | UK
        Dutch | the Netherlands
    """):
        assert len({country(name) for name in names}) == 1 and country(names[0])
