"""Whatever a question or query repeats, at the greatest length it is read in time."""

import itertools
import time

import pytest

from opql_jax.core.errors import InputError
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.question_linking import QuestionLinker, near_spellings, written_as_names
from opql_jax.corpus.questions import LONGEST
from opql_jax.kb.paths import words_between
from opql_jax.kb.sets.query import quoted
from opql_jax.kb.sets.query_language import MAX_LENGTH, is_query, parse
from opql_jax.kb.text import question_plans
from opql_jax.kb.text.wanted import wanted_by

UNITS = [*' aA1."()[^_\n’é', '  ', ' . ', ' .', '\\', '\\"', "'s ", ' & ', '- ']
WORDS = 'the/The/of/which/what/who/and/top/first/or/year/it/is/in/Ada/how/top 1/Ada and'
UNITS += [f'{word} ' for word in WORDS.split('/')]
PAIRED = [' ', 'A', '"', '\\', "'s ", 'the ', 'which ']
UNITS += map(''.join, itertools.permutations(PAIRED, 2))
VOCAB = EntityVocab.from_names(['Ada Lovelace', 'The Who', 'Is', 'A' * 50, 'The ' * 20 + 'Ada'])
LINKER = QuestionLinker(VOCAB)


def plans(text):
    middle = len(text) // 2
    return question_plans.plans(text, (middle, middle + 3))


def parsed(text):
    try:
        return parse(text)
    except InputError:
        return None


READERS = {
    'is_query': (is_query, MAX_LENGTH),
    'parse': (parsed, MAX_LENGTH),
    'quoted': (quoted, MAX_LENGTH),
    'names': (written_as_names, LONGEST),
    'near names': (lambda text: near_spellings(text, VOCAB), LONGEST),
    'linked names': (LINKER.link, LONGEST),
    'plans': (plans, LONGEST),
    'what is asked for': (wanted_by, LONGEST),
    'what is out of reach': (question_plans.out_of_reach, LONGEST),
    'whether it asks': (question_plans.is_question, LONGEST),
    'wording': (words_between, LONGEST),
}


@pytest.mark.parametrize('name', READERS)
def test_no_text_takes_long_to_read(name):
    """At most half a second of this thread, of which a quadratic search takes several."""
    read, length = READERS[name]
    for number, unit in enumerate(UNITS):
        text = (['', '"', 'What ', 'A . '][number % 4] + unit * (length // len(unit)))[:length]
        began = time.thread_time()
        read(text)
        taken = time.thread_time() - began
        assert taken < 0.5, (unit, taken)
