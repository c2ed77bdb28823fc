"""Questions with answers train a knowledge base of plain text; bad files are refused by line."""

import dataclasses
import shutil

import numpy as np
import pytest

import opql_jax
from opql_jax import cli
from opql_jax.core.errors import InputError
from opql_jax.kb.calibration import log_odds
from opql_jax.kb.text.index_text import index_text
from opql_jax.kb.trained.train_questions import QUESTION_MAP, candidates, train_questions
from opql_jax.kb.verify import verify
from opql_jax.training import fit_question_map
from opql_jax.training.fit_question_map import per_question

from examples import examples
from records import write

PEOPLE = 'Anna Berg/Carl Dorn/Emma Falk/Georg Hahn/Ida Jung/Karl Lang/Maria Nold'
PLACES = ['Vienna', 'Berlin', 'Munich', 'Hamburg', 'Dresden', 'Leipzig', 'Cologne']
NAMES = PEOPLE.split('/')


def rows():
    """Questions in words that nobody uses: 'zorp' is the place of birth."""
    return [
        {'id': f'q{i}', 'question': f'the zorp of {name}', 'answers': [place]}
        for i, (name, place) in enumerate(zip(NAMES, PLACES))
    ]


def documents():
    for i, (name, place) in enumerate(zip(NAMES, PLACES)):
        text = f'{name} was a painter, born in {place} in {1801 + i}. {NAMES[(i + 1) % 7]} was the '
        text += f'teacher of {name}. {name} died in {PLACES[(i + 3) % 7]}.'
        yield {'id': str(i), 'title': name, 'text': text}


@pytest.fixture(scope='module')
def original(tmp_path_factory):
    kb = tmp_path_factory.mktemp('people') / 'kb'
    index_text(list(documents()), kb, processes=1)
    return kb


@pytest.fixture
def kb(original, tmp_path, monkeypatch):
    monkeypatch.setattr(fit_question_map, '_STEPS', 30)
    return shutil.copytree(original, tmp_path / 'kb')


@pytest.fixture(scope='module')
def trained(original, tmp_path_factory):
    root = tmp_path_factory.mktemp('trained')
    kb = shutil.copytree(original, root / 'kb')
    return kb, train_questions(kb, write(root / 'q.jsonl', rows()))


def hits(kb):
    ask = opql_jax.open(kb).ask
    return np.mean([ask(row['question']).names[0] == row['answers'][0] for row in rows()])


def test_what_was_learnt_is_what_answers(original, trained):
    kb, report = trained
    assert report.used == report.read == len(NAMES)
    assert hits(original) < 0.5 < hits(kb)
    assert report.after.hits > report.before.hits
    assert f'learnt from {len(NAMES)} of {len(NAMES)} questions' in str(report)
    assert opql_jax.open(kb).identity != opql_jax.open(original).identity
    assert not verify(kb, lambda _: None)


def test_training_scores_paths_as_the_answerer_does(trained):
    kb, _ = trained
    opened = opql_jax.open(kb)
    learnt = opened.text_answerer.map
    right = lambda row: {opened.vocab.id(row['answers'][0])}
    linked = [(opened.question(row['question']), right(row)) for row in rows()]
    found, reached = candidates(opened.text_answerer, linked)
    assert reached == list(range(len(linked)))
    scores = per_question(learnt, found, np.arange(len(linked)))
    for (question, (right,)), (_, log_weight) in zip(linked, scores):
        (answer,) = opened.answer([question])
        weight = answer.weights[answer.entities == right]
        np.testing.assert_allclose(weight, np.exp(log_weight), rtol=1e-2)


def test_where_answers_follow_no_rule_what_was_right_before_stays(kb, tmp_path):
    others = np.random.default_rng(0).permutation(PLACES).tolist()
    asked = [row | {'answers': [place]} for row, place in zip(rows(), others)]
    report = train_questions(kb, write(tmp_path / 'q.jsonl', asked))
    assert report.after.hits >= report.before.hits


def test_bad_lines_are_named_and_leave_the_knowledge_base_as_it_is(kb, tmp_path):
    for line, message in examples(r"""
        {"id": "a", "question": "x"} | answers: missing
        {"id": "q0", "question": "x", "answers": ["y"]} | 'q0' is already that of line 1
        [] | expected a JSON object
    """):
        path = write(tmp_path / 'q.jsonl', rows()[:1])
        path.write_text(f'{path.read_text()}{line}\n')
        with pytest.raises(InputError, match=rf'q\.jsonl:2: .*{message}'):
            train_questions(kb, path)
    assert not (kb / QUESTION_MAP).exists()


def test_the_command_trains_and_what_was_learnt_stays_until_deleted(original, kb, tmp_path, capsys):
    cli.main(['train', str(kb), str(write(tmp_path / 'q.jsonl', rows()))])
    assert 'untrained' in capsys.readouterr().out
    learnt = opql_jax.open(kb).identity
    index_text(list(documents()), kb, processes=1)
    assert opql_jax.open(kb).identity == learnt
    shutil.rmtree(kb / QUESTION_MAP)
    index_text(list(documents()), kb, processes=1)
    assert opql_jax.open(kb).identity == opql_jax.open(original).identity


def test_probabilities_are_fitted_to_left_out_questions(original, trained, tmp_path, monkeypatch):
    kb, few = trained
    assert few.left_out == 0
    assert 'stay untrained, and may be too low: to fit them takes 30 left-out questions' in str(few)
    assert opql_jax.open(kb).text_answerer.map.log_odds == 0
    others = [row | {'id': row['id'].replace('q', 'o'), 'answers': ['Atlantis']} for row in rows()]
    # Half of which have no right answer in the text.
    questions = write(tmp_path / 'q.jsonl', rows() + others)
    monkeypatch.setattr('opql_jax.kb.trained.train_questions._ENOUGH', 2 * len(NAMES))
    report = train_questions(shutil.copytree(original, tmp_path / 'kb'), questions)
    assert report.left_out == 2 * len(NAMES)
    assert 'are fitted to 14 left-out questions' in str(report)
    opened = opql_jax.open(tmp_path / 'kb')
    answerer = opened.text_answerer
    added, answers = answerer.map.log_odds, [opened.ask(row['question']) for row in rows()]
    answerer.map = dataclasses.replace(answerer.map, log_odds=0.0)
    for answer, row in zip(answers, rows()):
        (before,) = log_odds(opened.ask(row['question']).probabilities[:1])
        assert log_odds(answer.probabilities[:1]) == pytest.approx(before + added, abs=1e-3)
