"""Which common nouns are concepts: those by which texts define their subjects."""

import pytest

from opql_jax.corpus.concepts import CONCEPT, find_concepts
from opql_jax.corpus.spans import Span


def concepts_of(*texts, names=None):
    """The concepts of each text, whose name is its first word."""
    spans = names or [[Span(0, len(text.split()[0]), 'name')] for text in texts]
    found = find_concepts(texts, spans)
    assert all(span.kind == CONCEPT for row in found for span in row)
    return [[text[span.start : span.end] for span in row] for text, row in zip(texts, found)]


def test_the_nouns_of_a_definition_are_concepts():
    found = concepts_of('Ada was an English mathematician and writer, born in London.')
    assert found == [['mathematician', 'writer']]
    assert concepts_of('Isar is a long river in Bavaria.', 'Roth is a man.') == [['river'], ['man']]


def test_a_word_before_the_noun_is_one_if_three_documents_are_defined_by_it():
    films = [f'{name} is a 1979 horror film by Ann.' for name in 'ABCD']
    assert concepts_of(*films[:2]) == [['film']] * 2
    others = ['E is a film.', 'F is a film.', 'G is a film.']
    assert concepts_of(*films[:3], *others)[:3] == [['horror', 'film']] * 3


def test_words_that_mostly_define_together_are_one_concept():
    novels = ['A is a science fiction novel.', 'B is a science fiction novel.']
    *found, hyphen, book = concepts_of(
        *novels, 'C is a science-fiction novel.', 'D is a science book.'
    )
    assert found == [['science fiction', 'novel']] * 2
    assert (hyphen, book) == (['science-fiction', 'novel'], ['science', 'book'])
    assert concepts_of(*novels)[0] == ['novel']  # of two documents one cannot tell


def test_a_compound_of_concepts_is_both():
    texts = [
        'A is a comedy film.', 'B is a drama film.', 'C is a comedy-drama.', 'D is a comedy.',
        'E is a drama.',
    ]  # fmt: skip
    assert concepts_of(*texts)[2] == ['comedy', 'drama']
    assert concepts_of('A is a pick-up.') == [['pick-up']]


def test_what_defines_most_of_many_documents_says_nothing():
    texts = [f'N{i} is a {"comedy" if i % 3 else "horror"} film.' for i in range(99)]
    assert concepts_of(*texts)[0] == ['horror', 'film']
    assert concepts_of(*texts, 'N is a film.')[:2] == [['horror'], []]  # as are two thirds comedies


@pytest.mark.parametrize(
    'text', ['It rained.', 'Ada was the first.', 'Isar is the River Isar.', '']
)
def test_other_words_are_none(text):
    assert concepts_of(text, names=[[Span(0, 1, 'name'), Span(12, 22, 'name')]]) == [[]]
    assert concepts_of('It is a river.', names=[[]]) == [[]]  # a text without names has none
