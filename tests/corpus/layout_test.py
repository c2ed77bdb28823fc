"""Text as it comes: one form of its letters, and line breaks only where something ends."""

import random
import textwrap
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opql_jax.corpus.layout import cleaned, is_statement, unfilled

PARAGRAPH = (
    'The lighthouse of Skerry Point was designed by the engineer Ottilie Brandt of Malmo, who had '
    'built three others along the coast before she came to Eskdale in 1871. It was lit for the '
    'first time on a stormy night in the autumn of 1879 and it was run by the family of the first '
    'keeper, Gustav Ferrin, until the light was made automatic. A well-known painter lived there '
    'for some years.'
)


@pytest.mark.parametrize(
    'text, expected',
    [
        ('Zoe\u0308 Mu\u0308ller', 'Zoë Müller'),
        ('Bei\u00adjing and Hart\u00ad\n  mann', 'Beijing and Hartmann'),
        ('Ada\u200b Love\u200dlace\ufeff \u202bwas\u202c here\u2060', 'Ada Lovelace was here'),
        ('New\u00a0York,\u2009five\u202fmiles', 'New York, five miles'),
        ('one\r\ntwo\rthree\u2028four\x0bfive\fsix', 'one\ntwo\nthree\nfour\nfive\n\nsix'),
        ('the oﬃce of Griﬀ', 'the office of Griff'),
    ],
)
def test_letters_have_one_form_and_nothing_is_invisible(text, expected):
    assert cleaned(text) == expected


@given(st.text())
def test_what_was_cleaned_stays_and_is_nfc(text):
    once = cleaned(text)
    assert cleaned(once) == once
    assert unicodedata.is_normalized('NFC', once)


@pytest.mark.parametrize('width', [60, 72, 79, 100])
@pytest.mark.parametrize('indent', ['', '   '])
def test_a_filled_paragraph_is_one_line(width, indent):
    chosen, words = random.Random(0), PARAGRAPH.replace('Malmo,', 'town,').split()
    drawn = [' '.join(chosen.choices(words, k=chosen.randint(60, 120))) + '.' for _ in range(7)]
    options = {'subsequent_indent': indent, 'break_on_hyphens': False}
    for text in (PARAGRAPH, *drawn):
        filled = textwrap.fill(indent + text, width, **options)
        found = unfilled(f'Skerry Point\n\n{filled}\n\nIts keeper lives in Ely.')
        assert found == f'Skerry Point\n\n{indent}{text}\n\nIts keeper lives in Ely.'


BORDERS = {
    'headings': 'Fleet of the Norvik Line and of all of its daughters in the north\n===\n'
                'The line was founded in Bergen.\n## Ships of the line\nIt has three.',
    'items': '- Ines Duarte, who is the gardener of the house in the winter\n- Karl Weiss\n'
             '1. one of these\n2) another\n* and a third',
    'rows': '| Name | Town |\n|---|---|\n| Ines Duarte | Braga |\nAna\tVarna\nBo\tLinz',
    'chat': '[12:03] ana: I deployed the service to the cluster of the north\n[12:04] bo: thanks\n'
            '12:05 <Eva Dahl> and the tests',
    'labels': 'Founder: Beatrice Lowe of the house of Lowe and its daughters\n'
              'Opened: 1931\nHome Port: Hull',
    'mail': 'I signed the contract with the pumps of Altona and left for home\n'
            '> did you choose the supplier\n>> not yet',
    'front matter': '---\ntitle: The book of the house that stands in the town of Braga\n'
                    'author: ana petrov\n---\nText.',
    'addresses': 'Jane Smith\nAccountant\n12 High Street\nLondon',
    'poems': 'Lowe went up the hill of snow\nand saw the river far below\nand never came back',
    'code': '```\nthis is a line of code that is as long as a paragraph would be and\ngoes on\n```',
    'columns': 'Motto          none of the words that are on the shield of the town\n'
               'Capital        and\nCurrency       euro',
}  # fmt: skip


@pytest.mark.parametrize('kind', BORDERS)
def test_what_ends_a_line_is_a_border(kind):
    assert unfilled(BORDERS[kind]) == BORDERS[kind]


def test_markdown_fills_what_it_does_not_mark():
    filled = '# Bohr\nHe studied at\nCopenhagen.\n\n- an item\n  goes on\n- another\n\n'
    plain = '# Bohr\nHe studied at Copenhagen.\n\n- an item goes on\n- another\n\n'
    same = 'A hard  \nbreak.\n> a quote\n> of two lines'
    assert unfilled(filled + same, is_markdown=True) == plain + same


def test_a_word_that_a_line_divides_keeps_its_hyphen_and_quoted_mail_is_joined_within_its_level():
    first, rest = PARAGRAPH.split('well-known')
    found = unfilled(f'{textwrap.fill(first, 70)} well-\nknown {rest.strip()}').replace('  ', ' ')
    assert found == PARAGRAPH
    quoted = textwrap.fill(PARAGRAPH, 70, initial_indent='> ', subsequent_indent='> ')
    assert unfilled(f'Yes.\n{quoted}\n>> no') == f'Yes.\n> {PARAGRAPH}\n>> no'


@given(st.text(alphabet='ab ,.\n>-|:#\t*1', max_size=200), st.booleans())
def test_only_space_and_marks_of_quotes_change(text, is_markdown):
    words = lambda text: ''.join(text.replace('>', '').split())
    assert words(unfilled(text, is_markdown)) == words(text)


def test_a_statement_is_a_row_or_a_short_label():
    assert is_statement('ship: Kestrel | port: Hull') and is_statement('Founder: Beatrice Lowe')
    assert not is_statement('He said: it rains.') and not is_statement('https://x.org')
