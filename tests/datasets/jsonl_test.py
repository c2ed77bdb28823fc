"""Your own text: a bad line of any of its files is left out with its reason, up to some share."""

import json
import re

import pytest

from opql_jax.core.errors import InputError
from opql_jax.datasets.jsonl import JsonLines

GOOD = {
    'corpus.jsonl': [
        {'id': n, 'title': name, 'text': 'Ann met Bob.'} for n, name in enumerate(['Ann', 'Bob'])
    ],
    'entities.jsonl': [{'id': 'Ann'}, {'id': 'Bob', 'aliases': ['Bobby']}],
    'train.jsonl': [{'id': n, 'question': 'who met Ann?', 'topics': [[8, 11]]} for n in range(2)],
}
CHANGES = [
    ('corpus.jsonl', {'id': 0}, "id: '0' is already that of line 1"),
    ('entities.jsonl', {'id': 'Ann'}, "id: 'Ann' is already that of line 1"),
    ('entities.jsonl', {'name': '\ud800'}, 'name: code point 0 is half a surrogate pair'),
    ('entities.jsonl', {'aliases': ['x' * 1001]},
        r'aliases\[0\]: more than 1000 code points, which no name has'),
    ('train.jsonl', {'id': 1}, '^id: 1 is already that of line 2$'),
]  # fmt: skip


def write(folder, name=None, line=None, mark=b''):
    """A reader of three files, with a bad line after the good ones of one of them."""
    (folder / 'questions').mkdir()
    for file, records in GOOD.items():
        lines = [json.dumps(r).encode() for r in records] + ([line] if file == name else [])
        path = folder / 'questions' / file if file == 'train.jsonl' else folder / file
        path.write_bytes(mark + b'\n'.join(lines) + b'\n')
    paths = [str(folder / name) for name in ('corpus.jsonl', 'entities.jsonl', 'questions')]
    return lambda share: JsonLines(*paths, max_reject_fraction=share)


def read(reader, rejected):
    vocab, documents = reader.read(rejected)
    (questions,) = reader.questions(vocab, rejected).values()
    return len(vocab), len(documents), len(questions)


@pytest.mark.parametrize(('name', 'change', 'reason'), CHANGES)
def test_a_record_with_a_bad_field_is_left_out(tmp_path, name, change, reason):
    line = json.dumps(GOOD[name][1] | {'id': 'new'} | change).encode()
    reader, rejected = write(tmp_path, name, line), tmp_path / 'rejected.jsonl'
    assert read(reader(0.5), rejected) == (2, 2, 2)
    (row,) = map(json.loads, rejected.read_text().splitlines())
    assert (row['file'], row['line']) == (name, 3)
    assert re.search(reason, row['reason']), row['reason']
    rejected.unlink()
    with pytest.raises(InputError, match=rf'{name}: 1 of 3 lines are bad, .*line 3: .*rejected'):
        read(reader(0.3), rejected)
    assert json.loads(rejected.read_text()) == row


def test_bad_lines_of_all_files_are_listed_together(tmp_path):
    reader, rejected = write(tmp_path, 'corpus.jsonl', b'x'), tmp_path / 'rejected.jsonl'
    for path in (tmp_path / 'entities.jsonl', tmp_path / 'questions' / 'train.jsonl'):
        path.write_bytes(path.read_bytes() + b'y\n')
    assert read(reader(0.5), rejected) == (2, 2, 2)
    files = [json.loads(line)['file'] for line in rejected.read_text().splitlines()]
    assert files == ['entities.jsonl', 'corpus.jsonl', 'train.jsonl']
