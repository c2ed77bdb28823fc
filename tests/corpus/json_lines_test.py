"""JSON Lines are written whole or not at all, and bad ones are added to rejected.jsonl."""

import json

import pytest

from opql_jax.corpus import json_lines
from opql_jax.corpus.rejected import add_rejected


def test_what_is_written_is_read_again_and_a_failure_leaves_the_file_as_it_was(tmp_path):
    path, records = tmp_path / 'a.jsonl', [{'name': 'Ønskebarn\u2028', 'n': [1, None]}, {}]
    json_lines.write_json_lines(path, records)
    assert list(json_lines.read_json_lines(path)) == [(1, records[0]), (2, records[1])]
    with pytest.raises(TypeError):
        json_lines.write_json_lines(path, [{}, {'a': object()}])
    assert list(json_lines.read_json_lines(path)) == [(1, records[0]), (2, records[1])]


def test_what_is_added_comes_after_what_is_there_though_it_be_no_text(tmp_path):
    path = tmp_path / 'rejected.jsonl'
    path.write_bytes(b'\xff\n')
    add_rejected(path, [('a.txt', 'a reason with \ud800')])
    before, added = path.read_bytes().splitlines()
    assert before == b'\xff'
    assert json.loads(added) == {'file': 'a.txt', 'reason': 'a reason with \ud800'}


def test_a_link_is_replaced_and_what_it_leads_to_stays(tmp_path):
    (tmp_path / 'precious').write_text('precious')
    (tmp_path / 'rejected.jsonl').symlink_to(tmp_path / 'precious')
    add_rejected(tmp_path / 'rejected.jsonl', [('a.txt', 'a reason')])
    assert (tmp_path / 'precious').read_text() == 'precious'
    assert not (tmp_path / 'rejected.jsonl').is_symlink()
