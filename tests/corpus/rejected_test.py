"""Bad lines are added to rejected.jsonl, whatever is in it."""

import json

from opql_jax.corpus.rejected import add_rejected


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
