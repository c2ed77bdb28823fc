"""Rules over text take time in proportion to its length, whatever it repeats."""

import re

import pytest

from opql_jax.corpus.casing import Dictionary, cased
from opql_jax.corpus.defined_terms import defined_terms
from opql_jax.corpus.layout import cleaned, unfilled
from opql_jax.corpus.spans import Span
from opql_jax.corpus.speakers import first_persons, turns
from opql_jax.corpus.statements import restated

import linear_time


def define(text):
    defined_terms(text, [Span(*m.span(), 'organisation') for m in re.finditer('A B', text)])


WORDS = Dictionary(frozenset(), frozenset())
# A rule, and what a long text may repeat.
UNITS = {
    'casing': (lambda text: cased([text], lambda: WORDS, lambda texts: [[] for _ in texts]),
        ['A', 'A. ', 'THE CAT ', 'X Y\n', 'a. ', 'the cat ']),
    'defined terms': (define,
        [' ("the A")', '((', ' (AB)', ' (hereinafter,', 'A B (AB) ', '\n', ' (the the the ']),
    'layout': (lambda text: unfilled(cleaned(text)),
        ['a', '\xad\n', '> ', '- ', ' ', '|', 'a: b\n', '=- ', 'x' * 60 + '\n', '\t', ' \n', '#',
            '\x1b[', '12:00 ', '<a', '---\n', '**a:', 'A', 'a Enlarge ']),
    'speakers': (lambda text: list(first_persons(f'I\n{text}wrote:', turns(f'I\n{text}wrote:'))),
        'I am Ana Bo. |> |From: A\nI\n|<|A: I |On 1, |I "|Ana |> I wrote:\n|12:00 |\n>|My name is '
        .split('|')),
    'statements': (restated,
        ['|', 'a\tb\n', 'a,b,c\n', '|a', '|-', '-', '| |\n', '|-|\n', 'a;b;c\n', 'Area: ', 'Born',
            'Born A Died B Area C ', 'Born  ', '\n ', 'Born A\n', 'aaaaaaaaa ']),
}  # fmt: skip


@pytest.mark.parametrize('rule, unit', [(rule, u) for rule, (_, of) in UNITS.items() for u in of])
def test_time_is_linear_in_the_text(rule, unit):
    linear_time.check(UNITS[rule][0], unit * (12_000 // len(unit)) + 'x')
