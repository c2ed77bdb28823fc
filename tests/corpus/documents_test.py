"""JSON Lines in: what is accepted, what is rejected and why, when the corpus is refused."""

import codecs
import json

import pytest

from opql_jax.core.errors import InputError
from opql_jax.corpus import json_lines
from opql_jax.corpus.documents import Document, Mention, read_jsonl, stated_date
from opql_jax.corpus.rejected import MAX_REPEATED, add_rejected

GOOD = {
    'id': 'a', 'title': 'Ada', 'text': 'Ada met Bob.', 'title_entity': 'Q1',
    'mentions': [{'start': 0, 'end': 3, 'entity': 'Q1'}, {'start': 8, 'end': 11, 'entity': 'Q2'}],
}  # fmt: skip


@pytest.fixture
def read(tmp_path):
    """Reads bytes, or records one a line; gives the documents and the rows that were rejected."""

    def read(*records, **options):
        texts = (r if isinstance(r, str | bytes) else json.dumps(r) for r in records)
        lines = (text if isinstance(text, bytes) else text.encode() for text in texts)
        path, rejected = tmp_path / 'corpus.jsonl', tmp_path / 'rejected.jsonl'
        path.write_bytes(b'\n'.join(lines) + b'\n')
        documents = read_jsonl(path, rejected_path=rejected, **options)
        rows = rejected.read_text().splitlines()
        return documents, [json.loads(row, parse_constant=pytest.fail) for row in rows]

    return read


def test_a_record_becomes_a_document_whose_links_are_optional_and_id_may_be_a_number(read):
    mentions = Mention(0, 3, 'Q1'), Mention(8, 11, 'Q2')
    assert read(GOOD, {'id': 7, 'title': 't', 'text': 'x', 'year': 2000}) == (
        [Document('a', 'Ada', 'Ada met Bob.', mentions, 'Q1'), Document('7', 't', 'x')],
        [],
    )


def test_offsets_count_code_points_and_only_newlines_end_lines(read):
    record = {**GOOD, 'text': '\U0001f3ac Film\u2028by Bob', 'mentions': [link(10, 13, 'b')]}
    ((document,), _) = read(json.dumps(record, ensure_ascii=False), '')
    mention = document.mentions[0]
    assert document.text[mention.start : mention.end] == 'Bob'


def link(start, end, entity):
    return {'start': start, 'end': end, 'entity': entity}


def with_mentions(*spans, **changes):
    return {**GOOD, 'mentions': [link(*span) for span in spans], **changes}


@pytest.mark.parametrize(
    'record, reason',
    [
        ('{"id": ', 'not a JSON value ('),
        (b'{"id": "\xff"}', "not UTF-8 ('utf-8' codec can't decode byte 0xff in position 8"),
        ([1], 'expected a JSON object, found [1]'),
        ({k: v for k, v in GOOD.items() if k != 'text'}, 'text: missing'),
        ('[' * 100_000, 'not a JSON value that can be read (nested too deeply)'),
        ({**GOOD, 'text': 'Ada\0 met Bob'}, 'text: code point 3 is NUL'),
        ({**GOOD, 'text': 'half \ud83c'}, 'text: code point 5 is half a surrogate pair'),
        (with_mentions((0, 3, 'Q1'), (8, 13, 'Q2')), 'mentions[1].end: 13 is past the text'),
        (with_mentions((3, 5, 'Q1'), text='Ada  met'), 'mentions[0]: [3, 5) is nothing but space'),
        (with_mentions((8, 11, 'Q2'), (0, 9, 'Q1')),
            'mentions[0]: [8, 11) overlaps mentions[1] [0, 9)'),
        (with_mentions((0, 3, 'Q9')), "mentions[0].entity: unknown entity id 'Q9'"),
        (GOOD, "id: 'a' is already that of line 1"),
    ],
)  # fmt: skip
def test_a_bad_line_is_rejected_with_its_number_and_reason(read, record, reason):
    documents, (row,) = read(GOOD, record, max_reject_fraction=0.5, known_entities={'Q1', 'Q2'})
    assert len(documents) == 1
    assert row['file'] == 'corpus.jsonl' and row['line'] == 2
    assert reason in row['reason']
    if not isinstance(record, bytes):
        assert row['record'] == (record[:MAX_REPEATED] if isinstance(record, str) else record)


@pytest.mark.parametrize('encoding', ['UTF-16', 'UTF-32'])
def test_only_a_byte_order_mark_of_utf8_is_dropped(read, encoding):
    line = json.dumps(GOOD)
    assert [d.id for d in read(codecs.BOM_UTF8 + line.encode())[0]] == ['a']
    said = f'corpus.jsonl: this is {encoding}: use iconv -f {encoding} '
    with pytest.raises(InputError, match=said):
        read(line.encode(encoding))


def test_a_line_that_is_too_long_is_rejected_alone(read, monkeypatch):
    monkeypatch.setattr(json_lines, 'MAX_LINE', 200)
    long, other = {**GOOD, 'text': 'x' * 900}, {**GOOD, 'id': 'b'}
    documents, (row,) = read(GOOD, long, other, max_reject_fraction=0.5)
    assert [d.id for d in documents] == ['a', 'b']
    assert row['line'] == 2 and 'the line is longer than' in row['reason']
    assert len(row['record']) == 201


@pytest.mark.parametrize(
    ('text', 'date'),
    [
        ('title: A walk\ndate: 2021-03-04T10:00\ntags:\n  - sea\n\nIt rained.', '2021-03-04'),
        ('From: Ada\nDate: Tue, 3 Mar 2020 10:00:00 +0000\nSubject: x\n\nHello', '2020-03-03'),
        (f'From: Ada\nDate: Mon, 3 Jan 2020 10:00:00 +{"9" * 17}\n\nHello', None),
        ('Place: Hastings\nDate: 14 October 1066\n\nA battle.', None),
        ('title: A walk\n\ndate: 2021-03-04', None),
    ],
)
def test_the_date_of_a_text_is_what_its_front_matter_or_a_mail_states(text, date):
    assert stated_date(text) == date


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
