"""Whether names are those of persons or places, by what stands beside them."""

import pytest

from opql_jax.corpus import name_kinds
from opql_jax.corpus.recognition import refine
from tests.support.marked_spans import marked, named


@pytest.mark.parametrize(
    'text, persons',
    [
        ('She married the violinist [Joel Stern] and left [Mayor Falls].', ['Joel Stern']),
        ('[Amara Finch], 44, runs. [Finch] is fast, as [Dora Finch] was.', ['Amara Finch', 'Finch']),
        ('[Brandeis], 51, came. [Sofia Brandeis] left.', ['Brandeis', 'Sofia Brandeis']),
        ('Mayor [Haldane] spoke in [Haldane Park].', ['Haldane']),
        ('[Anna Berg] (born 1950) was at [Bergen], [1950].', ['Anna Berg']),
        ('[Ortiz] said no to [Acme Corp], which said so.', ['Ortiz']),
        ('the communist [Albania] and the river [Exe]', []),
    ],
)
def test_persons_are_told_by_what_stands_beside_them(text, persons):
    plain, spans = marked(text, 'organisation', {'1950': 'date'})
    found = refine(plain, spans, [name_kinds.persons])
    assert named(plain, [span for span in found if span.kind == 'person']) == persons


def test_the_last_name_of_a_person_is_a_person_but_where_it_is_a_place():
    text = '[Abel Lincoln] was tall. [Lincoln] moved to [Lincoln], where [Lincoln Cathedral] stands.'
    plain, spans = marked(text, 'place', {'Abel Lincoln': 'person'})
    assert [span.kind for span in refine(plain, spans, [name_kinds.persons])] == ['person', 'person', 'place', 'place']


@pytest.mark.parametrize(
    'text, places',
    [
        ('born in [Foss], and [Foss] grew', ['Foss', 'Foss']),
        ("filmed in [Stone]'s garden with [Lucas Fenn]", []),
        ('the town of [Exeter] and the mayor of [Bath]', ['Exeter']),
        ('in [1950] and in [Ada Berg]', ['Ada Berg']),
    ],
)
def test_places_are_told_by_what_stands_before_them(text, places):
    plain, spans = marked(text, 'person', {'1950': 'date'})
    found = refine(plain, spans, [name_kinds.places])
    assert named(plain, [span for span in found if span.kind == 'place']) == places


def test_what_is_a_work_or_a_firm_is_no_place_because_something_is_in_it():
    plain, spans = marked('played in [Hamlet] and sat in [Acme]', 'work', {'Acme': 'organisation'})
    assert refine(plain, spans, [name_kinds.places]) == spans
