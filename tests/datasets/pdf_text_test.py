"""PDF files are read in paragraphs, and those that cannot be are told with what to do."""

import io
import logging
from textwrap import wrap

import pypdf
import pytest

from opql_jax.core.errors import InputError
from opql_jax.datasets.pdf_pages import Piece, by_columns
from opql_jax.datasets.pdf_text import read_pdf

import read_texts
from read_texts import read, rejected
from trios import TRIOS, write

ENGINE = TRIOS['engine']
ADA, BYRON = ENGINE.documents['Ada Lovelace'], ENGINE.documents['Lord Byron']


def pdf(*pages, title=None):
    kids = ' '.join(f'{4 + 2 * i} 0 R' for i in range(len(pages)))
    objects = [
        '<< /Type /Catalog /Pages 2 0 R >>',
        f'<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>',
        '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>',
    ]
    page = '/Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F 3 0 R >> >>'
    for i, lines in enumerate(pages):
        shown = ''.join(f'<{line.encode("cp1252").hex()}> Tj T* ' for line in lines)
        stream = f'BT /F 12 Tf 14 TL 72 720 Td {shown}ET'
        objects.append(f'<< {page} /Contents {5 + 2 * i} 0 R >>')
        objects.append(f'<< /Length {len(stream)} >>\nstream\n{stream}\nendstream')
    objects.append(f'<< /Title ({title or ""}) >>')
    return read_texts.pdf(*objects, trailer=f'/Info {len(objects)} 0 R')


def with_password(data, password, **options):
    writer = pypdf.PdfWriter(io.BytesIO(data))
    writer.encrypt(password, 'owner', algorithm='RC4-128', **options)
    written = io.BytesIO()
    writer.write(written)
    return written.getvalue()


@pytest.fixture
def texts(tmp_path):
    folder = tmp_path / 'texts'
    folder.mkdir()
    return folder


def test_lines_become_paragraphs_and_divided_words_whole(texts):
    first = ['Two mathematicians', *wrap(ADA), *wrap(BYRON, 60)]
    second = [
        'The work of Irène Joliot-Curie and of others is told in an encyclo-',
        'pedia of the sciences, and that of the physicist Irène Joliot-',
        'Curie of 1914–1918 is told - as all of it is - by them.',
    ]
    (texts / 'a.pdf').write_bytes(pdf(first, second))
    told = ' '.join(second).replace('encyclo- ', 'encyclo').replace('Joliot- ', 'Joliot-')
    expected = '\n\n'.join(['Two mathematicians', ADA, BYRON, told])
    assert read_pdf(texts / 'a.pdf') == (None, expected)


def test_what_pages_repeat_at_their_edges_is_left_out(texts):
    body = [f'Ada Lovelace wrote the note {n} on the Analytical Engine of Babbage.' for n in 'ABCD']
    pages = [[f'Notes {n}', 'A Journal', body[n], 'A Journal', f'- {n + 1} -'] for n in range(4)]
    # What is on two pages only is text.
    for count, repeated in ((4, 0), (2, 2)):
        (texts / 'a.pdf').write_bytes(pdf(*pages[:count]))
        text = read_pdf(texts / 'a.pdf')[1]
        assert text.count('Notes') == repeated and all(line in text for line in body[:count])


def test_a_year_that_ends_a_page_is_text_and_a_page_may_be_one_paragraph_of_many_lines(texts):
    lines = ['Of all that Ada Lovelace wrote, most was written in the years until', '1843.']
    (texts / 'a.pdf').write_bytes(pdf(lines * 3))
    assert read_pdf(texts / 'a.pdf')[1] == '\n\n'.join([' '.join(lines)] * 3)
    (texts / 'a.pdf').write_bytes(pdf(lines[:1] * 6000))
    assert read_pdf(texts / 'a.pdf')[1] == ' '.join(lines[:1] * 6000)


@pytest.mark.parametrize(
    'metadata, first_line, title',
    [
        ('Microsoft Word - draft2.doc', 'The Countess', 'The Countess'),
        (None, 'Lines by nobody.', 'Charles Babbage'),
        ('Notes on the Engine', 'Notes on\nthe ENGINE', 'Notes on the Engine'),
        ('Ada Lovelace', None, 'Ada Lovelace'),  # in a sentence of the text
        ('English Mathematician', None, 'Charles Babbage'),  # which it does not say as a title
    ],
)
def test_a_pdf_is_called_by_a_title_in_its_text(tmp_path, texts, metadata, first_line, title):
    lines = [*(first_line or '').splitlines(), *wrap(ADA)]
    (texts / 'charles_babbage.pdf').write_bytes(pdf(lines, title=metadata))
    [document] = read(tmp_path, texts)
    found = (document.id, document.title, document.title_entity)
    assert found == ('texts/charles_babbage.pdf', title, title)
    assert document.text.replace('Lines by nobody.\n\n', '') == ADA


GOOD = pdf(wrap(ADA))
DAMAGED = 'cannot be read as PDF: truncated or damaged'
BAD = {
    'empty': (b'', DAMAGED),
    'truncated': (GOOD[: len(GOOD) // 2], DAMAGED),
    'images': (pdf([], []), 'no text in 2 pages: if they are images, .*ocrmypdf'),
    'with a password': (with_password(GOOD, 'secret'),
        'encrypted: take off the password .*qpdf'),
}  # fmt: skip


@pytest.mark.parametrize('name', BAD)
def test_what_has_no_text_is_told_with_its_name_and_counted(tmp_path, texts, name, caplog):
    content, reason = BAD[name]
    (texts / 'bad.PDF').write_bytes(content)
    with pytest.raises(InputError, match=rf'^\S+: texts/bad\.PDF: ({reason})'):
        read(tmp_path, texts)
    write(texts, {'Lord Byron': BYRON})
    (tmp_path / 'rejected.jsonl').unlink()
    [document] = read(tmp_path, texts, max_reject_fraction=0.5)
    assert document.id == 'texts/lord byron.txt'
    assert list(rejected(tmp_path)) == ['texts/bad.PDF']
    assert '1 of 2 files are bad and left out' in caplog.text
    assert not [record for record in caplog.records if record.name.startswith('pypdf')]
    # As a program that uses pypdf itself has it.
    assert logging.getLogger('pypdf').level == logging.NOTSET


def test_no_damage_ends_in_anything_but_a_message(texts):
    path, refused = texts / 'a.pdf', []
    places = range(0, len(GOOD), 13)
    for at in places:
        path.write_bytes(GOOD[:at] + b'%<<' + GOOD[at + 3 :])
        try:
            read_pdf(path)
        except InputError as error:
            assert 'cannot be read as PDF' in str(error) or 'no text in' in str(error)
            refused.append(at)
    assert 0 < len(refused) < len(places)


def test_a_pdf_that_anyone_may_open_is_read_though_it_is_encrypted(texts):
    (texts / 'a.pdf').write_bytes(with_password(GOOD, ''))
    assert read_pdf(texts / 'a.pdf') == (None, ADA)


LEFT = ['The mill of Corran was founded by', 'the engineer Edith Falkner, who then']
LEFT += ['sold it to her brother in', 'the spring of 1866.']
RIGHT = ['The school was founded long after,', 'in the year 1902, by the teacher']
RIGHT += ['Walter Finch. He was the uncle of', 'its first pupil.']
TITLE = Piece(30, 180, 'Corran')


def side_by_side(left, right):
    rows = enumerate(zip(left, right))
    return [Piece(x, 150 - 14 * y, of) for y, row in rows for x, of in zip((30, 220), row)]


def test_columns_of_prose_that_a_page_shows_line_by_line_are_read_one_by_one():
    found = [piece.text for piece in by_columns([TITLE, *side_by_side(LEFT, RIGHT)])]
    assert found == ['Corran', *LEFT, *RIGHT]


def test_tables_and_columns_that_are_read_one_by_one_stay():
    captains = ['Captain', 'Signe Dahl', 'Omar Haddad', 'Lucy Brandt']
    assert by_columns(side_by_side(['Ship', 'Aurora', 'Petrel', 'Kestrel'], captains)) == []
    pieces = sorted(side_by_side(LEFT, RIGHT), key=lambda piece: piece.x)
    assert by_columns(pieces) == [] == by_columns([]) == by_columns([TITLE])
