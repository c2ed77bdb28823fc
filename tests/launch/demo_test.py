"""The sample articles that `launch/demo.sh` indexes, and what it asks of them."""

import re
import shlex

import pytest

import opql_jax
from opql_jax import cli

from forked_binaries import ROOT

SCRIPT = (ROOT / 'launch' / 'demo.sh').read_text(encoding='utf-8')
RIGHT = [(1, 'Edith Marlowe'), (2, 'Port Ansel'), (3, 'Marrow Bay')]


@pytest.fixture(scope='module')
def kb(tmp_path_factory):
    (index,) = re.findall(r'^opql (index .+)', SCRIPT, re.M)
    folder = tmp_path_factory.mktemp('demo') / 'sample.kb'
    arguments = [str(folder) if word == '$kb' else word for word in shlex.split(index)]
    cli.main([str(ROOT / word) if word.startswith('opql_jax/') else word for word in arguments])
    return opql_jax.open(folder)


def test_questions_of_one_to_three_hops_are_answered_right(kb):
    questions = [shlex.split(line)[2] for line in re.findall(r'^opql (ask .+)', SCRIPT, re.M)]
    answers = [kb.ask(question) for question in questions]
    assert [(len(answer.hops), kb.vocab.names[answer.entities[0]]) for answer in answers] == RIGHT
    (question,) = re.findall(r"^  opql ask \$kb '(.+)'", SCRIPT, re.M)
    assert kb.vocab.names[kb.ask(question).entities[0]] == 'Pierre Lavalle'
