"""Questions of a file are split into parts, and no file of a user's is replaced by them."""

import pytest

from opql_jax.core.errors import InputError
from opql_jax.recipes.open_questions import split_fifths

# A separator of lines in Unicode, which is none in JSON Lines.
LINES = [f'{{"id": {i}, "question": "a\u2028b"}}\n'.encode() for i in range(11)]


@pytest.fixture
def source(tmp_path):
    path = tmp_path / 'questions.jsonl'
    path.write_bytes(b''.join(LINES))
    return path


def test_every_fifth_line_is_for_evaluation(source, tmp_path):
    split_fifths(str(source), str(tmp_path / 'parts'))
    dev, train = ((tmp_path / f'parts/{name}.jsonl').read_bytes() for name in ('dev', 'train'))
    assert dev == LINES[4] + LINES[9]
    assert train == b''.join(LINES[:4] + LINES[5:9] + LINES[10:])


def test_a_killed_run_is_completed_by_the_next_and_leaves_nothing(source, tmp_path):
    split_fifths(str(source), str(tmp_path / 'whole'))
    parts = tmp_path / 'parts'
    parts.mkdir()
    (parts / 'train.jsonl').write_bytes((tmp_path / 'whole/train.jsonl').read_bytes())
    (parts / '.dev.jsonl.123.partial').write_bytes(b'half')
    split_fifths(str(source), str(parts))
    assert {p.name: p.read_bytes() for p in parts.iterdir()} == {p.name: p.read_bytes() for p in (tmp_path / 'whole').iterdir()}


def test_files_of_somebody_else_are_neither_replaced_nor_removed(source, tmp_path):
    parts, beside = tmp_path / 'parts', tmp_path / 'parts.partial'
    for folder in (parts, beside):
        folder.mkdir()
        (folder / 'dev.jsonl').write_text('mine')
        (folder / 'notes.txt').write_text('mine')
    with pytest.raises(InputError, match='parts/dev.jsonl is in the way, and no part of .*questions.jsonl: move it elsewhere'):
        split_fifths(str(source), str(parts))
    (parts / 'dev.jsonl').unlink()
    split_fifths(str(source), str(parts))
    assert {path.name for path in parts.iterdir()} == {'dev.jsonl', 'train.jsonl', 'notes.txt'}
    assert {path.name: path.read_text() for path in beside.iterdir()} == {'dev.jsonl': 'mine', 'notes.txt': 'mine'}
