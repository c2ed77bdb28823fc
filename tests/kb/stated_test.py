"""Whether a sentence states what is asked: in words for it, and of what the question names."""

import pytest

pytest.importorskip('spacy', reason='spaCy is not installed')

import opql_jax
from opql_jax.kb.text.index_text import index_text
from opql_jax.kb.text.stated import has_role, left, says

from examples import examples


@pytest.mark.parametrize(
    ('question', 'sentence', 'stated'),
    [
        ('Where was Ina Krog born?', 'Ina Krog is a native of Molde.', True),
        ('When was Ina Krog born?', 'Ina Krog (1902–1971) was a chemist.', True),
        ('When was Ina Krog born?', 'Ina Krog joined the council in 1930.', False),
        ('When did Ina Krog die?', 'She drowned in 1971.', True),
        ('When did Ina Krog die?', 'She retired in 1971.', False),
        ('Who founded the Molde Press?', 'Ina Krog set up the Molde Press.', True),
        ('Who founded the Molde Press?', 'Its chairman is Ina Krog.', False),
        ('Who is the mother of Ina Krog?', 'Ina Krog is the daughter of Liv Krog.', True),
        ('Who is the mother of Ina Krog?', 'Ina Krog works for Liv Krog.', False),
        ('Where did Ina Krog study?', 'She took her degree in Bergen.', True),
        ('Where did Ina Krog study?', 'She bought a house in Bergen.', False),
        ('Where was the founder of the Molde Press born?', 'Krog was born in Molde.', True),
        ('When did Ina Krog join the choir?', 'Ina Krog became a member in 1930.', True),
        ('When did Ina Krog join the choir?', 'Liv Krog left the choir in 1930.', False),
        ('Who painted the ceiling?', 'Its ceiling is by Liv Krog.', True),
    ],
)
def test_a_relation_is_stated_in_one_of_its_words(question, sentence, stated):
    assert says(question, sentence) is stated


WRITERS = """
    Low Tide was directed by Ann Bell. | no
    It was written and directed by Ann Bell. | yes
    It was written, directed, and edited by Ann Bell. | yes
    written, directed by, and starring Ann Bell. | yes
    directed by Joe Orr from a script of Ann Bell. | yes
    directed by Joe Orr. The author is Ann Bell. | yes
    directed by Joe Orr, from a book by Ann Bell. | yes
"""
OTHERS = """
    Who stars in Low Tide? | Cy Orr | directed by Ann Bell and stars Cy Orr. | yes
    Which films star Ann Bell? | Ann Bell | It was produced by Joe Orr and Ann Bell. | no
    Where was Ann Bell born? | Ann Bell | It was produced by Ann Bell. | yes
    Which films did Ann Bell write? | Ann Bell | starring Ann Bell and written by Bell | yes
"""


@pytest.mark.parametrize(
    'question, name, sentence, has',
    [('Who wrote Low Tide?', 'Ann Bell', *row) for row in examples(WRITERS)] + examples(OTHERS),
)
def test_who_does_one_thing_has_not_done_another(question, name, sentence, has):
    assert has_role(question, name, sentence) is (has == 'yes')


@pytest.fixture(scope='module')
def kb(tmp_path_factory):
    root = tmp_path_factory.mktemp('stated')
    (root / 'notes').mkdir()
    texts = {
        'clinic': 'Birch Clinic is a small hospital in Harsk. Its director is Per Falk. '
        'Falk was appointed in 2009.',
        'market': 'Rowan Farm sold ten calves on Friday. The vet of Heather Farm is Tilda Vane.',
    }
    texts['guide'] = (
        'Heron is a mail server. It was written by Dora Winter. Heron stores mail in the database '
        'Larder, which was written by Sven Aho.'
    )
    texts['films'] = (
        'Low Tide is a 1993 parody of High Harbour. High Harbour is a film by Liv Krog.'
    )
    texts['league'] = (
        'The National Rifle League (NRL) is a club. The NRL, which was founded by Jim Orr, grew.'
    )
    texts['family'] = 'Mara Low married Bob Ray, who was born in Oslo.'
    texts['chemist'] = 'Anna Weiss read physics. After leaving Leipzig, she was a German chemist.'
    texts['press'] = 'Reed Songs was published by Marle Press. Marle Press is a firm in Ghent.'
    for name, text in texts.items():
        (root / 'notes' / f'{name}.txt').write_text(text)
    index_text([root / 'notes'], root / 'kb', processes=1)
    with opql_jax.open(root / 'kb') as opened:
        yield opened


@pytest.mark.parametrize(
    ('question', 'answer', 'stated'),
    [
        ('Where is Birch Clinic?', 'Harsk', True),
        ('Who founded Birch Clinic?', 'Per Falk', False),
        ('Who is the vet of Heather Farm?', 'Tilda Vane', True),
        ('Who is the vet of Rowan Farm?', 'Tilda Vane', False),
        ('Who wrote Larder?', 'Sven Aho', True),
        ('When was Low Tide released?', '1993', True),
        ('When was High Harbour released?', '1993', False),
        ('Who wrote Heron?', 'Sven Aho', False),
        ('Who founded the National Rifle League?', 'Jim Orr', True),
        ("Where was Mara Low's husband born?", 'Oslo', True),
        ('What nationality is Anna Weiss?', 'German', True),
    ],
)
def test_what_is_not_stated_is_not_sure(kb, question, answer, stated):
    found = kb.ask(question)
    entity = next(entity for entity in found.entities.tolist() if found.name_of(entity) == answer)
    assert (left(found, entity) == 1) is stated
    assert stated or not found.is_sure


def test_what_is_somewhere_is_not_where_it_is(kb):
    assert kb.ask('Where is the publisher of Reed Songs?').names[0] == 'Ghent'
