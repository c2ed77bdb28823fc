"""Language models on questions of a file: how these are split."""

import pytest

from opql_jax.recipes.open_questions import split_fifths

# A separator of lines in Unicode, which is none in JSON Lines.
LINES = [f'{{"id": {i}, "question": "a\u2028b"}}\n'.encode() for i in range(11)]


@pytest.mark.parametrize('seed', range(7))
def test_every_fifth_line_is_for_evaluation_which_one_is_drawn_by_the_seed(seed, tmp_path):
    (tmp_path / 'questions.jsonl').write_bytes(b''.join(LINES))
    split_fifths(str(tmp_path / 'questions.jsonl'), str(tmp_path), seed)
    dev, train = ((tmp_path / f'{name}.jsonl').read_bytes() for name in ('dev', 'train'))
    assert dev == b''.join(line for number, line in enumerate(LINES, 1) if number % 5 == seed % 5)
    assert train == b''.join(line for line in LINES if line not in dev)
