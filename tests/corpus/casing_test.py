"""Text in one case, as prose would write it."""

from hypothesis import given
from hypothesis import strategies as st

from opql_jax.corpus.casing import Dictionary, cased, told_case, with_names_in_lower_case
from opql_jax.corpus.spans import Span

from examples import table

NOUNS = frozenset('mayor port house river banker sister crew london'.split())
WORDS = Dictionary(NOUNS, NOUNS | {*'bear born marry work found stand near design good'.split()})


def nobody(texts):
    return [[] for _ in texts]


def prose(*texts, recognise=nobody):
    return cased(texts, lambda: WORDS, recognise)


@table("""
    expected
    The mayor of Port Ellery is Sophie Santino.
    She was born in London. He worked in Velda House.
    The Nra Board (NRA) worked on 3 May 1999 for her.
""")
def test_capitals_are_written_as_prose(expected):
    assert prose(expected.upper()) == [expected]


def test_capitals_beside_other_text_are_those_of_a_line_or_stay():
    heading = 'A heading. THE CREW OF THE KESTREL WORKED.'
    assert prose(heading) == ['A heading. The crew of the Kestrel worked.']
    acronyms = 'NASA and the FBI. GDP IS UP. I AM.'
    assert prose(acronyms) == [acronyms]


def test_names_of_other_text_and_persons_that_are_recognised_are_names_in_capitals():
    found = prose('THE SISTER OF GOOD WORKED HERE.', 'It was Good who came; so did Good.')[0]
    assert found == 'The sister of Good worked here.'
    place = lambda t: (t.index('Ada'), t.index('Ada') + len('Ada Banker'), True)
    recognise = lambda texts: [[place(text)] for text in texts]
    found = prose('THE SISTER OF ADA BANKER WORKED.', recognise=recognise)
    assert found == ['The sister of Ada Banker worked.']


def test_text_without_capitals_has_them_where_other_text_does():
    texts = [
        'Hannah Moss lives in Whitby, and Sun shines.',
        'the mayor met hannah moss in whitby near the sun of the river',
    ]
    spans = [[Span(0, 11, 'person'), Span(21, 27, 'place'), Span(33, 36, 'name')], []]
    words = Dictionary(NOUNS, NOUNS | {'sun'})
    found, placed = with_names_in_lower_case(texts, spans, lambda: words)
    assert found[1] == 'the mayor met Hannah Moss in Whitby near the sun of the river'
    assert [found[1][span.start : span.end] for span in placed[1]] == ['Hannah Moss', 'Whitby']
    assert placed[0] == spans[0]


def test_which_text_is_in_one_case_is_told():
    assert told_case('THE MAYOR OF PORT ELLERY IS SOPHIE SANTINO TODAY') == 'capitals'
    assert told_case('the mayor of port ellery is sophie santino today') == 'lower case'
    assert told_case('The mayor of Port Ellery is Sophie Santino today') == told_case('NASA') == ''


@given(st.lists(st.text(alphabet='AB CdİßÉ.\n’', max_size=60), max_size=3))
def test_no_character_moves(texts):
    found = prose(*texts)
    assert list(map(len, found)) == list(map(len, texts))
    assert [text.lower() for text in found] == [text.lower() for text in texts]
