"""Names inside of names are found by whole words."""

from opql_jax.retrieval.inner_names import inner_names

NAMES = 'Daewoo Heavy Industries/Daewoo/History of Mississippi/Mississippi'.split('/')
NAMES += 'Lana, South Tyrol/South Tyrol/Lana/Tyrolean/Heavy/the South/Mississippi'.split('/')


def inside(name: str) -> list[str]:
    return [NAMES[entity] for entity in inner_names(NAMES)[NAMES.index(name)]]


def test_whole_names_within_a_name_are_found():
    assert inside('Daewoo Heavy Industries') == ['Daewoo', 'Heavy']
    assert inside('Lana, South Tyrol') == ['South Tyrol', 'Lana']


def test_all_entities_of_a_spelling_are_meant_and_parts_of_words_are_not():
    assert inner_names(NAMES)[NAMES.index('History of Mississippi')] == (3, 10)
    assert inside('Tyrolean') == inside('Daewoo') == inside('Mississippi') == []
