"""Which common nouns are concepts: those by which texts define their subjects."""

import pytest

from opql_jax.corpus.concepts import CONCEPT, find_concepts
from opql_jax.corpus.spans import Span


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
    'of two documents one cannot tell': (NOVELS, ['novel', 'novel']),
    'a compound of concepts is both': (
        [*FEW, 'E is a drama.'], ['comedy film', 'drama film', 'comedy drama']),
    'another compound is one': (['A is a pick-up.'], ['pick-up']),
    'what defines two thirds of many documents is one': (MANY, ['horror film']),
    'what defines more of them says nothing': ([*MANY, 'N is a film.'], ['horror', '']),
    'other words are none': (['It rained.', 'Ada was the first.'], ['', '']),
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
