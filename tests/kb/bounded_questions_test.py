"""The work of a question is bounded by names, length and time; what is left out is said."""

import itertools
import types

import pytest

from opql_jax.core import time_limit
from opql_jax.core.errors import InputError
from opql_jax.corpus.question_linking import MOST_NAMES
from opql_jax.corpus.questions import LONGEST, read_questions
from opql_jax.kb.text.retrieve import retrieve_file
from opql_jax.kb.trained.train_questions import read_answered

import films
import records

FOLDER, READER = 'films_kb', False
ONCE = 'Who starred in the films directed by Ingrid Solberg?'
CUT = 'the time for an answer is over'


def test_of_many_names_the_first_are_followed_and_the_others_are_told(kb, tmp_path):
    names = [*films.DOCUMENTS, 'Erik Lind', 'Trondheim']
    assert len(names) == MOST_NAMES + 2
    text, others = f'Who directed {", ".join(names)}?', names[MOST_NAMES:]
    question = kb.question(text)
    assert len(question.topics) == MOST_NAMES and list(question.left_out) == others
    note = f'only the first {MOST_NAMES} names are followed, not {", ".join(others)}'
    assert note in kb.ask(text).to_record(3)['note']
    found = kb.retrieve(text, 2)
    assert len(found) == 2 and found.note == note and kb.retrieve(ONCE, 2).note == ''
    asked = [{'id': 1, 'question': text}, {'id': 2, 'question': ONCE}]
    asked = records.write(tmp_path / 'asked.jsonl', asked)
    retrieve_file(kb, asked, tmp_path / 'found.jsonl', 2)
    first, second = records.read(tmp_path / 'found.jsonl')
    assert first['note'] == note and 'note' not in second


def after(times):
    """A clock that says that nobody waits any more after it was looked at a number of times."""
    looks = itertools.count()
    return types.SimpleNamespace(is_set=lambda: next(looks) >= times)


def test_an_answer_that_ends_early_is_a_part_of_the_whole_and_says_so(kb):
    whole = kb.ask(ONCE)
    assert whole.bounds == []
    found = []
    for times in range(200):
        with time_limit.limited(1000, after(times)):
            answer = kb.ask(ONCE)
        if not answer.is_cut:
            break
        assert CUT in '; '.join(answer.bounds)
        found.append(len(answer))
    with time_limit.limited(0):
        early = kb.retrieve(ONCE, 3)
    assert len(early) == 3 and CUT in early.note and not answer.is_cut
    assert answer.names == whole.names
    assert answer.weights.tolist() == pytest.approx(whole.weights.tolist())
    assert found[0] == 0 and any(found) and found == sorted(found) and found[-1] <= len(whole)


def test_what_is_repeated_without_end_is_refused_in_a_line(kb):
    forms = '{}A', 'A . {}b', 'Who directed {}A?'
    units = '(', '[', '"', '{', '\\"', ' ', 'Ada ', 'x'
    for form, unit, times in itertools.product(forms, units, (10_000, 2_500_000)):
        with pytest.raises(InputError) as refused:
            kb.find(form.format(unit * times))
        assert len(str(refused.value)) < 300, (form, unit, times)


def test_a_line_of_ten_megabytes_in_a_question_file_is_refused_by_its_number(kb, tmp_path):
    good = {'id': 'a', 'question': ONCE, 'answers': ['Tomas Lind']}
    long = good | {'id': 'b', 'question': 'Ingrid Solberg ' * (10_000_000 // 15)}
    file = records.write(tmp_path / 'questions.jsonl', [good, long])
    said = f'{file}:2: question has 9,999,990 characters: ask it in at most {LONGEST:,}'
    for read in (
        lambda: read_questions(file, kb.vocab),
        lambda: read_answered(file),
        lambda: retrieve_file(kb, file, tmp_path / 'out', 1),
    ):
        with pytest.raises(InputError) as refused:
            read()
        assert str(refused.value).startswith(said)
