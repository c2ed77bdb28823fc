"""Words of passages and questions meet in one stem, whatever their case, accents and inflection."""

from opql_jax.retrieval.inner_names import inner_names
from opql_jax.retrieval.words import words_of

from examples import table


@table("""
    words | stems
    directed directing directs director | 1
    city cities City | 1
    Aschenbrödel aschenbrodel | 1
    publisher published publishes | 1
    stopped stop | 1
    king kin | 2
    bus bu | 2
    red r | 2
    ring r | 2
    1995 1996 | 2
""")
def test_forms_of_a_word_have_one_stem_but_short_words_keep_their_ends(words, stems):
    assert len(set(words_of(words))) == int(stems)


def test_function_words_and_punctuation_are_left_out_and_order_kept():
    assert words_of('Who was the king of Spain, in 1500?') == ['king', 'spain', '1500']
    assert words_of('') == words_of('the of…') == []


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
