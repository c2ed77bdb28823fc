"""Text that cannot be prepared: `prepare` says in one line which file, which line and which field, and exits with status 1."""

import json
import re

import pytest

from opql_jax.data.prepared import Prepared

import tiny_docred
from complaints import cases, complaint
from documents_of import documents
from question_records import question_record

QUESTION = question_record('q', 'who made [Film1]', 'x')


class Folder:
    """A folder of inputs, and commands that prepare them into `out`."""

    def __init__(self, root):
        self.root, self.out = root, root / 'out'

    def file(self, name, *lines):
        """A text file; lines that are no strings become JSON."""
        return self.bytes(name, ''.join((x if isinstance(x, str) else json.dumps(x)) + '\n' for x in lines).encode())

    def bytes(self, name, content):
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        return path

    def jsonl(self, *lines, **flags):
        """Prepares JSON Lines: these, or a good corpus."""
        flags = {'CORPUS': self.file('my.jsonl', *(lines or documents())), 'KB': self.out.parent, 'TEXT': self.out.name} | flags
        return ['prepare', '--gin_file=gin/data/jsonl.gin', *(f'--gin.{name}={value}' for name, value in flags.items())]

    def with_entities(self, *first):
        """A good corpus with a file of its entities, which starts with these."""
        names = [f'Film{i}' for i in range(30)] + [f'Person{i}' for i in range(7)]
        return self.jsonl(ENTITIES=self.file('e.jsonl', *first, *({'id': name} for name in names)))

    def with_questions(self, *lines):
        return self.jsonl(QUESTION_FOLDER=self.file('questions/train.jsonl', *lines).parent)

    def slot_filling(self, *documents, **flags):
        """Prepares documents in the form of DocRED."""
        self.file('rel_info.json', tiny_docred.RELATIONS)
        file = self.file('documents.json', list(documents))
        flags = {
            'DOCUMENTS': file,
            'REL_INFO': self.root / 'rel_info.json',
            'KB': self.out.parent,
            'TEXT': self.out.name,
        } | flags
        return ['prepare', '--gin_file=gin/data/slot_filling.gin', *(f'--gin.{name}={value}' for name, value in flags.items())]

    def reader(self, name):
        """Prepares the folder itself as MetaQA's or Wikispeedia's."""
        return [
            'prepare',
            f'--gin_file=gin/data/{name}.gin',
            f'--gin.DATA_DIR={self.root}',
            f'--gin.KB={self.out.parent}',
            f'--gin.TEXT={self.out.name}',
        ]


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


def three_bad_documents():
    """The same with an offset past the text, overlapping mentions and an unknown entity in lines 2 to 4."""
    records = list(documents())
    records[1]['mentions'][1]['end'] = 99
    records[2]['mentions'][1]['start'] = 3
    records[3]['mentions'][1]['entity'] = 'Nobody'
    return records


REASONS = [
    'mentions[1].end: 99 is past the text of 26 code points',
    'mentions[1]: [3, 25) overlaps mentions[0] [0, 5)',
    "mentions[1].entity: unknown entity id 'Nobody'",
]


def test_bad_records_stop_the_run_naming_file_line_and_field(binaries, folder):
    command = folder.with_entities()
    folder.file('my.jsonl', *three_bad_documents())
    said = complaint(binaries(*command))
    assert f'{folder.root}/my.jsonl: 3 of 30 lines are bad' in said
    assert '; '.join(f'line {number}: {reason}' for number, reason in enumerate(REASONS, 2)) in said
    rejected = [json.loads(line) for line in (folder.out / 'rejected.jsonl').read_text().splitlines()]
    assert [(row['line'], row['reason']) for row in rejected] == list(enumerate(REASONS, 2))
    assert [row['record'] for row in rejected] == three_bad_documents()[1:4]
    assert sorted(path.name for path in folder.out.iterdir()) == ['plan.json', 'rejected.jsonl']


def test_few_enough_bad_records_are_left_out_and_listed(binaries, folder):
    command = folder.with_entities()
    folder.file('my.jsonl', *three_bad_documents())
    done = binaries(*command, '--gin.jsonl.JsonLines.max_reject_fraction=0.1')
    assert done.returncode == 0, done.stderr
    prepared = Prepared(folder.out)
    assert prepared.passages['doc_id'].to_pylist() == ['d0', *(f'd{i}' for i in range(4, 30))]
    assert len((folder.out / 'rejected.jsonl').read_text().splitlines()) == 3
    assert 'rejected.jsonl' in prepared.manifest.files


def test_a_corrected_corpus_is_prepared_into_the_folder_where_it_was_refused(binaries, folder):
    assert binaries(*folder.jsonl('{')).returncode == 1
    assert binaries(*folder.jsonl()).returncode == 0
    assert len(Prepared(folder.out).passages) == 30 and (folder.out / 'rejected.jsonl').read_text() == ''


def test_hostile_records_are_left_out_one_by_one(binaries, folder):
    hostile = [
        '[' * 100_000,
        {'id': 'long', 'title': 'x', 'text': 'y' * 3000, 'mentions': [{'start': 0, 'end': 2000, 'entity': 'Film1'}]},
        {'id': 'nul', 'title': 'x', 'text': 'a\0b'},
        {'id': 'half', 'title': 'x', 'text': '\ud83c'},
    ]
    lines = [line if isinstance(line, str) else json.dumps(line) for line in [*documents(), *hostile]]
    content = b'\xef\xbb\xbf' + '\n'.join(lines).encode() + b'\n{"id": "\xff"}\n'
    command = folder.jsonl(CORPUS=folder.bytes('odd.jsonl', content))
    done = binaries(*command, '--gin.jsonl.JsonLines.max_reject_fraction=0.2')
    assert done.returncode == 0, done.stderr
    assert sorted(set(Prepared(folder.out).passages['doc_id'].to_pylist())) == sorted(f'd{i}' for i in range(30))
    rows = [json.loads(line) for line in (folder.out / 'rejected.jsonl').read_text().splitlines()]
    assert [(row['file'], row['line']) for row in rows] == [('odd.jsonl', number) for number in range(31, 36)]


def test_names_longer_than_a_passage_do_not_stop_the_run(binaries, folder):
    # Without links titles are the entities.
    name = 'very ' * 400 + 'long'
    pages = [{'id': i, 'title': title, 'text': f'{title} met Bob.'} for i, title in enumerate(['Ann', name, 'Bob'])]
    assert binaries(*folder.jsonl(*pages)).returncode == 0
    prepared = Prepared(folder.out)
    found = {row['text'][m['start'] : m['end']] for row in prepared.passages.to_pylist() for m in row['mentions']}
    assert found == {'Ann', 'Bob'}
    assert ''.join(prepared.passages['text'].to_pylist()).count('very') == 400


@cases(
    a_file_that_is_not_there=(lambda f: f.jsonl(CORPUS='/none/my.jsonl'), 'error: /none/my.jsonl: no such file'),
    a_folder=(lambda f: f.jsonl(CORPUS=f.root), r'[Ii]s a (directory|folder)'),
    an_empty_file=(lambda f: f.jsonl(CORPUS=f.file('empty.jsonl')), r'empty\.jsonl: empty corpus'),
    blank_lines=(lambda f: f.jsonl('', ' '), r'my\.jsonl: empty corpus'),
    a_cut_line=(lambda f: f.jsonl(*documents(), '{"id":'), r'my\.jsonl: 1 of 31 lines are bad.* line 31: not a JSON value'),
    not_UTF8=(lambda f: f.jsonl(CORPUS=f.bytes('latin', b'{"id": "\xe9"}')), 'latin: line 1: not UTF-8 .* position 8'),
    an_id_used_twice=(lambda f: f.jsonl(*documents(), *documents()), "line 31: id: 'd0' was already used in line 1"),
    no_pair=(lambda f: f.jsonl({'id': 1, 'title': 'A', 'text': 'A b.'}), 'no pair in 1 documents'),
    entities_that_are_not_there=(lambda f: f.jsonl(ENTITIES='/none/e.jsonl'), 'error: /none/e.jsonl: no such file'),
    an_entity_without_id=(lambda f: f.with_entities({'id': 'a'}, {'name': 'b'}), r'e\.jsonl: .* line 2: id: expected a string'),
    an_entity_twice=(lambda f: f.with_entities({'id': 'Film0'}), r"e\.jsonl: .* line 2: id: 'Film0' is already that of line 1"),
    a_name_that_is_a_number=(
        lambda f: f.with_entities({'id': 'x', 'name': 5}),
        r'e\.jsonl: .* line 1: name: expected a string .*found 5',
    ),
    aliases_that_are_a_string=(
        lambda f: f.with_entities({'id': 'x', 'aliases': 'up'}),
        r'e\.jsonl: .* line 1: aliases: expected a list of strings',
    ),
    no_question_files=(lambda f: f.jsonl(QUESTION_FOLDER='/none'), '/none: no question file such as /none/train.jsonl'),
    a_question_with_a_topic_past_its_end=(
        lambda f: f.with_questions({**QUESTION, 'id': 'p'}, {**QUESTION, 'topics': [[9, 99]]}),
        r'questions/train\.jsonl: .* line 2: topics\[0\]: \[9, 99\) marks no text',
    ),
    a_cut_question=(
        lambda f: f.with_questions(QUESTION, '', '{"id": 7, "question": "who'),
        r'questions/train\.jsonl: .* line 3: not a JSON value',
    ),
    a_question_nested_deeply=(
        lambda f: f.with_questions(QUESTION, '[' * 100_000),
        r'questions/train\.jsonl: .* line 2: not a JSON value that can be read \(nested too deeply\)',
    ),
    an_undecodable_question=(
        lambda f: f.jsonl(QUESTION_FOLDER=f.bytes('questions/train.jsonl', b'{"id": 1, "question": "who \xff"}').parent),
        r'questions/train\.jsonl: line 1: not UTF-8',
    ),
    half_a_character_in_a_question=(
        lambda f: f.with_questions({'id': 1, 'question': 'who \ud83c'}),
        r'questions/train\.jsonl: line 1: question: code point 4 is half of a surrogate pair',
    ),
    questions_in_UTF16=(
        lambda f: f.jsonl(QUESTION_FOLDER=f.bytes('questions/train.jsonl', '{}'.encode('utf-16')).parent),
        r'questions/train\.jsonl: this is UTF-16: convert it \(iconv',
    ),
    entities_in_UTF16=(
        lambda f: f.jsonl(ENTITIES=f.bytes('e.jsonl', '{}'.encode('utf-16'))),
        r'e\.jsonl: this is UTF-16: convert it \(iconv',
    ),
    no_question=(lambda f: f.with_questions(''), r'train\.jsonl: no question in the file'),
    no_tokenizer=(lambda f: f.jsonl(TOKENIZER=f.file('t.json', 'x')), r't\.json: not a tokenizer file'),
    no_pair_mode=(lambda f: f.jsonl(**{'prepare.prepare.pair_mode': 'some'}), "'some' is not one of title, all"),
    an_output_that_is_a_file=(
        lambda f: f.jsonl(TEXT=f.file('mine.txt', 'x')),
        r'/mine\.txt is a file, or lies in one: give a folder',
    ),
    an_output_with_other_files=(
        lambda f: f.jsonl(TEXT=f.file('mine/notes.txt', 'x').parent),
        '/mine holds other files and nothing prepared: give a new or empty folder',
    ),
    passages_longer_than_training_takes=(
        lambda f: f.jsonl(**{'prepare.prepare.max_tokens': 137}),
        'max_tokens: 137, but rows with their markup have 7 to 136 tokens',
    ),
    no_number_of_tokens=(
        lambda f: f.jsonl(**{'prepare.prepare.max_tokens': 'many'}),
        "prepare.max_tokens is 'many', expected int",
    ),
    no_metaqa_entities=(lambda f: f.file('passages.jsonl', 'x') and f.reader('metaqa'), r'/entities\.txt: no such file'),
    no_metaqa_passages=(lambda f: f.file('entities.txt', 'a') and f.reader('metaqa'), r'/passages\.jsonl: no such file'),
    metaqa_entities_that_are_not_UTF8=(
        lambda f: f.file('passages.jsonl', 'x') and f.bytes('entities.txt', b'\xe9\n') and f.reader('metaqa'),
        r'/entities\.txt:1: not UTF-8 .*0xe9',
    ),
    no_documents_file=(lambda f: f.slot_filling(DOCUMENTS='/none/d.json'), 'error: /none/d.json: no such file'),
    no_documents=(lambda f: f.slot_filling(), r'/documents\.json: expected a JSON list of documents, found an empty one'),
    bad_slot_filling_documents=(
        lambda f: f.slot_filling(*tiny_docred.world(3), {'title': 'Last', 'sents': 'none'}),
        r"1 of 7 documents are bad, .* document 7: sents: expected a list of sentences, found 'none'\. All are listed in",
    ),
    no_relation_names=(
        lambda f: f.slot_filling(*tiny_docred.world(3), REL_INFO=f.file('r.json', [])),
        r'/r\.json: expected a JSON object with a name for each relation id',
    ),
    no_supported_fact=(
        lambda f: f.slot_filling(tiny_docred.document('One', '<0 LOC Rome> fell to <1 LOC Gaul> .')),
        "no fact of the part 'all' is supported by a sentence",
    ),
    no_wikispeedia_articles=(lambda f: f.reader('wikispeedia'), r'/articles\.jsonl\.gz: no such file'),
)
def test_what_cannot_be_prepared_is_named(binaries, folder, command, said):
    line = complaint(binaries(*command(folder)))
    assert re.search(said, line), line
    assert not (folder.out / 'manifest.json').exists()


@cases(
    settings=(lambda f: f.jsonl(**{'prepare.prepare.max_tokens': 50}), 'max_tokens'),
    text=(lambda f: f.jsonl(*documents(), {'id': 'x', 'title': 'x', 'text': 'x'}), 'file corpus'),
)
def test_a_folder_prepared_from_something_else_is_left_as_it_is(binaries, folder, command, said):
    assert binaries(*folder.jsonl()).returncode == 0
    before = {path: path.stat().st_mtime_ns for path in folder.out.iterdir()}
    line = complaint(binaries(*command(folder)))
    assert f'{folder.out} was prepared with another {said}: delete it or choose another folder' in line
    assert {path: path.stat().st_mtime_ns for path in folder.out.iterdir()} == before
