"""Text that cannot be prepared: `prepare` says in one line which file, which line and which field, and exits with status 1."""

import json

import pytest

from opql_jax.data.prepared import Prepared

import tiny_docred
from documents_of import documents


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


def test_names_longer_than_a_passage_do_not_stop_the_run(binaries, folder):
    # Without links titles are the entities.
    name = 'very ' * 400 + 'long'
    pages = [{'id': i, 'title': title, 'text': f'{title} met Bob.'} for i, title in enumerate(['Ann', name, 'Bob'])]
    assert binaries(*folder.jsonl(*pages)).returncode == 0
    prepared = Prepared(folder.out)
    found = {row['text'][m['start'] : m['end']] for row in prepared.passages.to_pylist() for m in row['mentions']}
    assert found == {'Ann', 'Bob'}
    assert ''.join(prepared.passages['text'].to_pylist()).count('very') == 400
