"""JSON Lines are read as they were written, and a file is written whole or not at all."""

import pytest

from opql_jax.corpus import json_lines


def test_what_is_written_is_read_again_and_a_failure_leaves_the_file_as_it_was(tmp_path):
    path, records = tmp_path / 'a.jsonl', [{'name': 'Ønskebarn\u2028', 'n': [1, None]}, {}]
    json_lines.write_json_lines(path, records)
    assert list(json_lines.read_json_lines(path)) == [(1, records[0]), (2, records[1])]
    with pytest.raises(TypeError):
        json_lines.write_json_lines(path, [{}, {'a': object()}])
    assert list(json_lines.read_json_lines(path)) == [(1, records[0]), (2, records[1])]
