"""Rows of tables, each with the headings of its columns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opql_jax.corpus.statements import restated

FLEET = (
    '| Ship | Captain | Home port | Built |\n|---|:--|--:|---|\n'
    '| Aurora | Signe Dahl | Bergen | 1998 |\n| Petrel | | Hull |\n'
)
TABLES = {
    'of Markdown': (
        FLEET, 'ship: Aurora | captain: Signe Dahl | home port: Bergen | built: 1998\n'
               'ship: Petrel | home port: Hull\n'),
    'without outer bars': ('Name | Year\n-----|-----\nAda | 1815', 'name: Ada | year: 1815'),
    'of tabs': ('Name\tYear\nAda\t1815\nBo\t1903', 'name: Ada | year: 1815\nname: Bo | year: 1903'),
    'of commas': ('name,role,town\nAna Petrov,pilot,Varna\n"Bo Li",cook,Linz',
        'name: Ana Petrov | role: pilot | town: Varna\nname: Bo Li | role: cook | town: Linz'),
    'of labels': ('| Field | Value |\n|---|---|\n| Captain | Lucy Brandt |',
        'Captain: Lucy Brandt'),
    'with a bar in a cell': (r'| A | B |' + '\n|--|--|\n' + r'| x \| y | z |', 'A: x | y | B: z'),
    'without rows': ('| A | B |\n|---|---|', 'A | B'),
    'without headings': ('| Ada | 1815 |\n| Bo | 1903 |\n| Cy | 1904 |',
        '| Ada | 1815 |\n| Bo | 1903 |\n| Cy | 1904 |'),
}  # fmt: skip
BOXES = {
    'run together': (
        'A portrait. Max Karl Planck Born April 23, 1858 Kiel, Germany Nationality German '
        'Alma Mater University of\nMunich Known for it Notable Prizes Nobel Prize (1918) He died.',
        'A portrait. Max Karl Planck\nBorn: April 23, 1858 Kiel, Germany\nNationality: German\n'
        'Alma Mater: University of Munich Known for it\n'
        'Notable Prizes: Nobel Prize (1918) He died.'),
    'with colons': ('Kingdom: Animalia Phylum: Chordata\nClass: Aves',
        'Kingdom: Animalia\nPhylum: Chordata\nClass: Aves'),
    'in columns': (
        '       Born    27 May 1940\n               San Jose\n     Died     20 July 1973\n'
        '   Occupation  Singer and\n   writer\n   Created by   Ada Orr\n    - Mayor Bo Li',
        'Born: 27 May 1940, San Jose\nDied: 20 July 1973\nOccupation: Singer and writer\n'
        'Created by: Ada Orr\nMayor: Bo Li'),
    'with a caption twice': ('A tower in Ely. A tower in Ely.', 'A tower in Ely.'),
    'of a label that is a value': (
        'Released 1970 Genre Country Length 2 Author Ada Orr',
        'Released: 1970\nGenre: Country Length 2\nAuthor: Ada Orr'),
}  # fmt: skip
PROSE = [
    'Born in Ely in 1900, he came from the Country Club. Released in 1930, he left.',
    'Born: 1900\nDied: 1970',
    'He came, saw, and won, in 1921; then, later, he left.',
    'one,two\nthree,four\nfive,six',
    'ship: Aurora | port: Bergen\nship: Petrel | port: Hull\nship: Tern | port: Ely',
    'The Fields Medal winner left Capital Records when Mayor Koch ran for office.',
]


@pytest.mark.parametrize('kind', TABLES)
def test_a_row_is_said_with_its_headings(kind):
    source, said = TABLES[kind]
    assert restated(f'Before.\n\n{source}\nAfter.') == f'Before.\n\n{said}\nAfter.'


@pytest.mark.parametrize('text', PROSE)
def test_prose_stays_and_so_do_rows_that_were_said_before(text):
    assert restated(text) == text


@pytest.mark.parametrize('kind', BOXES)
def test_rows_of_an_infobox_are_lines(kind):
    source, said = BOXES[kind]
    assert restated(f'Before.\n\n{source}\n\nAfter.') == f'Before.\n\n{said}\n\nAfter.'
    assert restated(said) == said


CELLS = st.sampled_from(['Ada', 'Bo Li', '1815', '', 'x'])


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=9))
def test_all_cells_of_all_rows_are_said_in_their_order(rows):
    table = ['| Name | Year |', '|---|---|', *(f'| {a} | {b} |' for a, b in rows)]
    said = restated('\n'.join(table)).replace('name: ', '').replace('year: ', '')
    assert said.split('\n') == [' | '.join(filter(None, row)) for row in rows]


def test_a_long_heading_does_not_make_a_table_long():
    table = f'| {"heading " * 7}| B |\n|---|---|\n' + '| 1 | 2 |\n' * 1000
    assert len(restated(table)) < 7 * len(table)
