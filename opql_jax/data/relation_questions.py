"""Questions made of a relation's name, or of a sentence without its target, to train an encoder."""

import functools
from typing import NamedTuple

import numpy as np

from opql_jax.core.checkout import load_toml
from opql_jax.data.markup import MarkedQuestion, TokenisedPassage
from opql_jax.data.tokenizer import SpecialIds

# For relations without questions of their own; {relation} is their name.
_ABOUT = (
    'what is the {relation} of {}', 'who is the {relation} of {}', 'the {relation} of {}',
    '{} {relation}', 'which {relation} does {} have',
)  # fmt: skip
_INVERSE = ('whose {relation} is {}', 'what has the {relation} {}', '{} is the {relation} of what')
# Tokens kept on either side of the pair.
_AROUND = 3
# Tokens of a question beside those between the pair: [CLS], [ENT] [R1], unknown, [ENT] [R2] [SEP].
MOST_AROUND = 2 * _AROUND + 7


class Templates(NamedTuple):
    """Questions about a relation's subject and object, with {} for the topic."""

    about: tuple[str, ...]
    inverse: tuple[str, ...]


def templates(relation: str) -> Templates:
    """The questions about a relation that is called so."""
    own = own_templates(relation)
    general = lambda patterns: (pattern.replace('{relation}', relation) for pattern in patterns)
    return Templates((*own.about, *general(_ABOUT)), (*own.inverse, *general(_INVERSE)))


def own_templates(relation: str) -> Templates:
    """The questions that were written for a relation, as people ask them; there may be none."""
    own = _templates().get(relation, {})
    return Templates(tuple(own.get('about', ())), tuple(own.get('inverse', ())))


@functools.cache
def _templates() -> dict[str, dict[str, list[str]]]:
    return load_toml('datasets/relation_questions.toml')


def cloze_question(
    passage: TokenisedPassage, i: int, j: int, unknown: int, special: SpecialIds
) -> MarkedQuestion:
    """Turns a passage into a question about mention `i`, its topic, that mention `j` answers.

    'Christopher Nolan directed Inception' becomes 'who directed [Inception]'. The mentions do not
    overlap, and the token `unknown`, such as 'who', stands for the target. The question, marked as
    by `markup.mark_questions`, has what is between them and a little on both sides.
    """
    tokens, starts, ends, _ = passage
    first, second = (i, j) if starts[i] <= starts[j] else (j, i)
    mark = {i: (special.ent, special.r1), j: (unknown,)}
    left = tokens[max(0, starts[first] - _AROUND) : starts[first]]
    between = tokens[ends[first] : starts[second]]
    right = tokens[ends[second] : ends[second] + _AROUND]
    row = [special.cls, *left, *mark[first], *between, *mark[second], *right]
    r1 = row.index(special.r1)
    row += [special.ent, special.r2, special.sep]
    return MarkedQuestion(np.array(row, np.int32), r1, len(row) - 2)
