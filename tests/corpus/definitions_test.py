"""What definitions say a thing is, what they are about, and nouns that are defined: concepts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opql_jax.corpus.concepts import CONCEPT, find_concepts
from opql_jax.corpus.definitions import defined_kind, definition, subject
from opql_jax.corpus.spans import Span

from examples import table


@table("""
    text | words
    Fatso is a 1980 American comedy film written by Anne Bancroft. | 1980 American comedy film
    The Isar is a river in Bavaria. | river
    Ada was an English mathematician and writer, born in London. | English mathematician writer
    It is a |
""")
def test_the_words_of_a_definition_end_where_its_noun_phrase_does(text, words):
    assert ' '.join(text[start:end] for start, end in definition(text)) == words


def test_only_the_beginning_defines():
    assert not list(definition('Much was said of it. ' * 30 + 'It is a river.'))


@table("""
    text | kind
    Laura is a 1944 American film noir. |
    Laura is a 1944 American film. | work
    Oslo is the capital of Norway. | place
    Acme is a company that makes pumps. | organisation
    It rained. |
""")
def test_the_noun_of_a_definition_tells_the_kind_of_the_subject(text, kind):
    assert (defined_kind(text) or '') == kind


@table("""
    text | name
    The Henry Art Gallery (opened 1927) is a museum. | Henry Art Gallery
    ``Hello Goodbye ''is a song by the Beatles. | Hello Goodbye
    Martin Luther King Jr. (1929–1968) was an American minister. | Martin Luther King Jr.
    Star Trek: The Motion Picture is a 1979 film. | Star Trek: The Motion Picture
    Myanmar, also known as Burma, is a country in Asia. | Myanmar
    The Meno (Greek: Μένων (Menōn)) is a dialogue by Plato. | Meno
    "Today" is a song. | Today
    In 1984 it was a hit. |
    casablanca is a film |
    Ada met Mr. B. He is a man. |
    My father was a smith. |
    Today is a holiday. |
    Born in Oslo, Ada was a singer. |
    Although a friend was the first, few knew it. |
""")
def test_the_subject_is_the_name_that_a_text_begins_with_and_defines(text, name):
    assert (subject(text) or '') == name


@given(st.text())
def test_a_subject_is_a_piece_of_the_text_and_begins_with_no_lower_case(text):
    for whole in (text, f'{text} is a river.'):
        if (name := subject(whole)) is not None:
            assert name in whole and name == name.strip() and not name[0].islower()


def concepts_of(*texts, names=None):
    spans = names or [[Span(0, len(text.split()[0]), 'name')] for text in texts]
    found = find_concepts(texts, spans)
    assert all(span.kind == CONCEPT for row in found for span in row)
    return [[text[span.start : span.end] for span in row] for text, row in zip(texts, found)]


FILMS = [f'{name} is a 1979 horror film by Ann.' for name in 'ABCD']
NOVELS = ['A is a science fiction novel.', 'B is a science fiction novel.']
FEW = ['A is a comedy film.', 'B is a drama film.', 'C is a comedy-drama.', 'D is a comedy.']
MANY = [f'N{i} is a {"comedy" if i % 3 else "horror"} film.' for i in range(99)]
CASES = {
    'the nouns of a definition are concepts': (
        ['Ada was an English mathematician and writer, born in London.', 'Isar is a long river.'],
        ['mathematician writer', 'river']),
    'a word before the noun is none if two documents are defined by it': (
        FILMS[:2], ['film', 'film']),
    'and one if three are': (
        [*FILMS[:3], 'E is a film.', 'F is a film.', 'G is a film.'], ['horror film'] * 3),
    'words that mostly define together are one': (
        [*NOVELS, 'C is a science-fiction novel.', 'D is a science book.'],
        [*['science_fiction novel'] * 2, 'science-fiction novel', 'science book']),
    'a compound of concepts is both': (
        [*FEW, 'E is a drama.'], ['comedy film', 'drama film', 'comedy drama']),
    'what defines two thirds of many documents is one': (MANY, ['horror film']),
    'what defines more of them says nothing': ([*MANY, 'N is a film.'], ['horror', '']),
}  # fmt: skip


@pytest.mark.parametrize('rule', CASES)
def test_concepts_are_the_nouns_by_which_texts_define_their_subjects(rule):
    texts, expected = CASES[rule]
    found = [' '.join(name.replace(' ', '_') for name in of) for of in concepts_of(*texts)]
    assert found[: len(expected)] == expected


def test_what_is_named_or_of_a_text_without_names_is_none():
    river = [[Span(0, 4, 'name'), Span(12, 22, 'name')]]
    assert concepts_of('Isar is the River Isar.', names=river) == [[]]
    assert concepts_of('It is a river.', names=[[]]) == [[]]
