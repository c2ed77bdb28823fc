"""Templates that hold content of a sentence."""

import pytest

pytest.importorskip('mwparserfromhell')

from opql_jax.datasets.wikipedia.titles import Site
from opql_jax.datasets.wikipedia.wikitext import Converter

SHOWN = {
    'is {{convert|93|m|ft|abbr=off}} deep': 'is 93 metres deep',
    'is {{convert|1|mi|km}} long': 'is 1 mile long',
    'of {{cvt|5|to|10|km|mi|abbr=on}} or {{convert|3|-|4|ft}}': 'of 5 to 10 km or 3–4 feet',
    'on {{start date|1903|7|2}} or {{Birth date and age|mf=yes|1950|3|1}}': 'on 2 July 1903 or March 1, 1950',
    'in {{start date|1903|7}} and {{start date|1903}}': 'in July 1903 and 1903',
    '{{nowrap|Ada [[B]]}} of {{lang|de|Der See}} ({{lang-fr|le lac}})': 'Ada B of Der See (le lac)',
    'by {{ubl|[[A]]|C d}}, {{circa|1900}}': 'by A, C d, c. 1900',
    'the {{HMS|Victory}}{{\'s}} crew of {{formatnum:1234}}': "the HMS Victory's crew of 1234",
    'a {{nowrap|{{convert|1|{{unknown|x}}|km}} b}}': 'a 1 b',
    'gone {{cite web|title=x}}{{Infobox lake|depth={{convert|1|m}}}} here': 'gone here',
    'odd {{convert}} {{nowrap}} {{start date}} {{lang|de}} {{convert|x|m}} end': 'odd end',
}  # fmt: skip


@pytest.mark.parametrize('source', SHOWN)
def test_what_templates_hold_is_shown(source):
    assert Converter(Site()).convert(source).text == SHOWN[source]


def test_links_in_templates_are_links_and_inner_templates_are_not_of_the_page():
    page = Converter(Site()).convert('in {{nowrap|[[Old Town|the town]] {{lang|de|See}}}}')
    assert [(page.text[start:end], title) for start, end, title in page.links] == [('the town', 'Old Town')]
    assert page.templates == {'nowrap'}
