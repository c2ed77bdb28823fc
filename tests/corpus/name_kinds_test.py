"""Whether names are those of persons or places, by what stands beside them."""

import pytest

from opql_jax.corpus import name_kinds
from opql_jax.corpus.recognition import refine
from tests.support.spans import marked, named

from examples import table


def kinds(text, kind='organisation', rule=name_kinds.by_words):
    plain, spans = marked(text, kind)
    return [span.kind for span in refine(plain, spans, [rule])]


@table("""
    name | kind
    Orla Brewery | organisation
    Orla & Daughters | organisation
    Orla Canal | place
    Mount Orla | place
    Lady Orla Finch | person
    HMS Orla | product
    Orla Finch |
    Lord of the Rings |
    # Surnames that could be of a place.
    Barbara Castle | person
    River Phoenix | person
""")
def test_words_of_a_name_tell_its_kind(name, kind):
    assert kinds(f'[{name}] stands.', 'person') == [kind or 'person']
    assert kinds(f'[{name}] stands.', 'work') == ['work']


FIRMS = (
    'Its owner, [Comcast], and [Acme Corp] said so. The [Navy] retired it. [Toyota], 24, and '
    '[Route 66], 12, and'
)


@pytest.mark.parametrize(
    'text, persons',
    [
        ('She married the violinist [Joel Stern] and left [Mayor Falls].', ['Joel Stern']),
        ('She married the violinist\n[Joel Stern].', ['Joel Stern']),
        ('[Amara Finch], 44, runs. [Finch] is fast, as [Dora Finch] was.',
            ['Amara Finch', 'Finch']),
        ('[Brandeis], 51, came. [Sofia Brandeis] left.', ['Brandeis', 'Sofia Brandeis']),
        ('Mayor [Haldane] spoke in [Haldane Park].', ['Haldane']),
        ('[Anna Berg] (born 1950) was at [Bergen], [1950].', ['Anna Berg']),
        (FIRMS, []),
        ('the communist [Albania] and the river [Exe]', []),
    ],
)  # fmt: skip
def test_persons_are_told_by_what_stands_beside_them(text, persons):
    plain, spans = marked(text, 'organisation', {'1950': 'date'})
    found = refine(plain, spans, [name_kinds.persons])
    assert named(plain, [span for span in found if span.kind == 'person']) == persons


@pytest.mark.parametrize('kind', ['place', 'organisation', 'work', 'date', 'name', 'group'])
def test_the_last_name_of_a_person_is_a_person_only_where_nothing_better_is_known_of_it(kind):
    said = f'[Henry Ford|person] was tall. [Ford|{kind}] stands.'
    expected = 'person' if kind in ('name', 'group') else kind
    assert kinds(said, rule=name_kinds.persons) == ['person', expected]


@pytest.mark.parametrize(
    'text, places',
    [
        ('born in [Foss], and [Foss] grew', ['Foss', 'Foss']),
        ('she takes an interest in [Austen] and a line in [Shakespeare]', []),
        ('the town of [Exeter] and the mayor of [Bath]', ['Exeter']),
        ('lived in [1950]', []),
    ],
)
def test_places_are_told_by_what_stands_before_them(text, places):
    plain, spans = marked(text, 'person', {'1950': 'date'})
    found = refine(plain, spans, [name_kinds.places])
    assert named(plain, [span for span in found if span.kind == 'place']) == places
