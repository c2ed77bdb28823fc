"""Questions made from names of relations and from sentences."""

import importlib.resources
import re
import tomllib

import numpy as np
import pytest

from opql_jax.data import markup
from opql_jax.data.relation_questions import MOST_AROUND, cloze_question, templates
from opql_jax.data.tokenizer import special_ids

import tiny_text_encoder

TOKENIZER = tiny_text_encoder.TOKENIZER
SPECIAL = special_ids(TOKENIZER)
FILE = (importlib.resources.files('opql_jax.datasets') / 'relation_questions.toml').read_text(
    'utf-8'
)
TEMPLATES = tomllib.loads(FILE)  # which refuses a relation that is there twice
WHO = TOKENIZER.token_to_id('who')


def ids(text):
    return TOKENIZER.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize('relation', TEMPLATES)
def test_every_question_of_the_file_has_one_topic(relation):
    assert relation == relation.strip().casefold() and relation  # as `name_of` has them
    assert TEMPLATES[relation].keys() <= {'about', 'inverse'} and TEMPLATES[relation]
    for questions in TEMPLATES[relation].values():
        assert questions and len(set(questions)) == len(questions)
        for question in questions:
            assert question.count('{}') == 1 and not re.search(r'[{}]', question.replace('{}', ''))
            assert question == ' '.join(question.split()) and len(question) > 4


def test_a_relation_has_its_own_questions_and_those_with_its_name():
    about, inverse = templates('spouse')
    assert set(TEMPLATES['spouse']['about']) < set(about)
    assert set(TEMPLATES['spouse']['inverse']) < set(inverse)
    assert 'the spouse of {}' in about and 'whose spouse is {}' in inverse
    assert 'what is the tail rotor of {}' in templates('tail rotor').about
    for questions in templates('tail rotor'):
        assert questions and all(q.count('{}') == 1 and 'tail rotor' in q for q in questions)


def passage(text, *names):
    spans = [(text.index(name), text.index(name) + len(name)) for name in names]
    return markup.tokenise_passage(TOKENIZER, text, [(*span, i) for i, span in enumerate(spans)])


@pytest.mark.parametrize('i, j', [(0, 1), (1, 0)])
def test_a_sentence_becomes_a_question_with_its_target_left_out(i, j):
    text = 'never the song of the Emma was directed by Ann Low in York and again'
    found = cloze_question(passage(text, 'Emma', 'Ann Low'), i, j, WHO, SPECIAL)
    first, second = ([SPECIAL.ent, SPECIAL.r1], [WHO])[:: 1 if i == 0 else -1]
    said = *ids('song of the'), *first, *ids('was directed by'), *second, *ids('in York and')
    assert found.tokens.tolist() == [SPECIAL.cls, *said, SPECIAL.ent, SPECIAL.r2, SPECIAL.sep]
    assert found.tokens.dtype == np.int32
    assert found.tokens[found.r1] == SPECIAL.r1 and found.tokens[found.r2] == SPECIAL.r2


@pytest.mark.parametrize('left, between, right', [(0, 0, 0), (1, 4, 2), (9, 30, 9)])
def test_what_a_question_holds_beside_the_words_between_is_bounded(left, between, right):
    text = f'{"never " * left}Emma {"met " * between}Lucy{" again" * right}'
    for i, j in ((0, 1), (1, 0)):
        found = cloze_question(passage(text, 'Emma', 'Lucy'), i, j, WHO, SPECIAL)
        assert len(found.tokens) - between <= MOST_AROUND
        assert found.tokens.tolist().count(ids('met')[0]) == between
