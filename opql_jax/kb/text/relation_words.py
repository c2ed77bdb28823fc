"""Whether a sentence has a word for the relation that a question asks for.

'Low worked in York' has none for where he was born. `relation_words.toml` has the words.
"""

import functools
import re

from opql_jax.core.checkout import load_toml
from opql_jax.corpus.concepts import CONCEPT
from opql_jax.kb.text.wanted import wanted_by
from opql_jax.kb.text.word_lists import FORMS, LISTS, stems
from opql_jax.retrieval.words import words_of

# Kinds of answers that say by themselves what they are: 'a 1993 comedy'.
_SAID_OTHERWISE = frozenset((CONCEPT, 'group', 'language'))
# Words of a question that texts say in many ways.
_SAY_LITTLE = stems(LISTS['say_little'])
# What asks at the end of a question, and the words before it that say of what: in 'founded by a man
# who died in what year' not of the founding.
_ASKS_LAST = re.compile(
    r'((?:[\w-]+ ){1,3})(?:(?:in|on|at|to|for|from|of|by|with) )?(?:what|which|whom) ?[\w ]*\?*$'
)
# The first characters that forms of a word share: of 'partner' and 'partnership'.
_ROOT = 5


def says(question: str, sentence: str, passage: str = '') -> bool:
    """Whether a sentence has a word for a relation that the question asks for.

    For other relations the sentence, or its passage, has to have a word of the question; True if
    that has none, or asks what kind of thing it is, which no word says.
    """
    if not _SAID_OTHERWISE.isdisjoint(wanted_by(question).kinds[:1]):
        return True
    last = _ASKS_LAST.search(question.strip())
    for asking in (last[1] if last else '', question):
        if asked := [said for asks, said in _relations() if asks.search(asking)]:
            return any(said.search(sentence) for said in asked)
    words = set(words_of(question)) - wanted_by(question).nouns - _SAY_LITTLE
    found = set(words_of(f'{sentence} {passage}'))
    return not words or any(
        word in found
        or any(not forms.isdisjoint(found) for forms in FORMS if word in forms)
        or (len(word) >= _ROOT and any(other.startswith(word[:_ROOT]) for other in found))
        for word in words
    )


@functools.cache
def _relations() -> list[tuple[re.Pattern, re.Pattern]]:
    """What asks for each relation, and what states it."""
    return [
        (
            re.compile(rf'\b(?:{"|".join(words["asks"])})\b', re.IGNORECASE),
            re.compile('|'.join(words['states']), re.IGNORECASE),
        )
        for words in load_toml('kb/text/relation_words.toml')['relations']
    ]
