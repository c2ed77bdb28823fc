"""TFDS builders of public data sets over small files: examples are what the core's readers read."""

import hashlib
import importlib.util
import json
import shutil
import tarfile
import zipfile

import pytest

tfds = pytest.importorskip('tensorflow_datasets', reason='TFDS is not installed')
if importlib.util.find_spec('opql_jax_tasks') is None:
    pytest.skip('opql_jax_tasks is not installed: pip install -e .', allow_module_level=True)

from opql_jax.core.errors import InputError
from opql_jax.corpus.entities import EntityVocab
from opql_jax.datasets import complexwebquestions, metaqa, msf, webqsp
from opql_jax.datasets.entity_resolution import EntityResolver
from opql_jax.datasets.jsonl import JsonLines
from opql_jax.datasets.question_records import with_topics
from opql_jax_tasks import public_sets

import tiny_sets

tfds.disable_progress_bar()
NOTHING = EntityVocab([], [], [])


@pytest.fixture
def load(tmp_path):
    """`load(name, split, **options)`: the records of a split, built of files in tmp_path/manual."""

    def load(name, split, config=None, **options):
        options |= {'config': config} if config else {}
        builder = tfds.builder(name, data_dir=tmp_path / 'tfds', **options)
        download = tfds.download.DownloadConfig(manual_dir=tmp_path / 'manual')
        builder.download_and_prepare(download_dir=tmp_path / 'downloads', download_config=download)
        random_access = options.get('file_format') == 'array_record'
        examples = builder.as_data_source(split) if random_access else builder.as_dataset(split)
        return list(public_sets.records(examples))

    return load


@pytest.fixture
def put(tmp_path):
    def put(name, content):
        path = tmp_path / 'manual' / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_text(text, encoding='utf-8')
        return path

    return put


def put_metaqa(put, hops):
    for split in ('train', 'dev', 'test'):
        lines = f'who of {split} made [Kïsmet]\tJoe Ö|Ann\n\nwhat did [Ann Lee] write\tX, Y|Z\n'
        put(f'{hops}-hop/vanilla/qa_{split}.txt', lines)
        put(f'{hops}-hop/qa_{split}_qtype.txt', 'film_to_maker\n\nwriter_to_film\n')


@pytest.mark.parametrize('file_format', ['tfrecord', 'array_record'])
def test_metaqa_is_what_the_corpus_reads(load, put, tmp_path, file_format):
    put_metaqa(put, 2)
    read = load('opql_metaqa/2-hop', 'validation', file_format=file_format)
    expected = metaqa.read_records(tmp_path / 'manual/2-hop/vanilla/qa_dev.txt', NOTHING, 2)
    kinds = ['film_to_maker', 'writer_to_film']
    assert read == [{**record, 'type': kind} for record, kind in zip(expected, kinds, strict=True)]


def test_missing_files_are_named(load, put):
    put('1-hop/readme.txt', '')
    said = '1-hop/vanilla/qa_train.txt: no such file. Download MetaQA .* <hops>-hop/vanil'
    with pytest.raises(InputError, match=said):
        load('opql_metaqa/1-hop', 'train')


WIKI = (
    '1 Kismet\n2 Kismet is a film by Ann Lee.\n3 Ann Lee wrote it.\n\n1 Top Hat\n2 A musical.\n\n'
    '1 Nothing More\n'
)
NAMES = 'Kismet\nkismet\nTop Hat\nAnn Lee\nFire, Fire\nX\n'


@pytest.fixture
def wikimovies_files(put, monkeypatch, tmp_path):
    """The folder of an archive of WikiMovies with other contents, taken for the published one."""
    put('movieqa/knowledge_source/wiki.txt', WIKI)
    put('movieqa/knowledge_source/entities.txt', NAMES)
    for split in ('train', 'dev', 'test'):
        name = f'movieqa/questions/wiki_entities/wiki-entities_qa_{split}.txt'
        put(name, '1 what did Ann Lee write?\tKismet, Fire, Fire, Unknown\n1 what is it?\tX\n')
    folder, archive = tmp_path / 'manual/movieqa', tmp_path / 'manual/wikimovies.tar.gz'
    with tarfile.open(archive, 'w:gz') as file:
        file.add(folder, 'movieqa')
    pretend(monkeypatch, public_sets.OpqlWikimovies, public_sets.WIKIMOVIES, archive)
    return folder


def pretend(monkeypatch, builder, url, path):
    """Lets the checksum of a file be the one that is known for an address."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    known = type(builder.url_infos[url])(path.stat().st_size, digest, path.name)
    monkeypatch.setattr(builder, 'url_infos', {url: known})


def as_corpus(name, tmp_path, split='train'):
    examples = tfds.load(name, split=split, data_dir=tmp_path / 'tfds', download=False)
    public_sets.write_jsonl(examples, tmp_path / 'corpus.jsonl')
    return JsonLines(str(tmp_path / 'corpus.jsonl')).read(tmp_path / 'rejected.jsonl')[1]


def test_wikimovies_has_articles_and_questions(load, wikimovies_files, tmp_path):
    passages = load('opql_wikimovies/passages', 'train')
    assert [(p['title'], p['text'], p['mentions']) for p in passages] == [
        ('Kismet', 'Kismet is a film by Ann Lee. Ann Lee wrote it.', None),
        ('Top Hat', 'A musical.', None),
    ]
    (question,) = load('opql_wikimovies/questions', 'test')
    assert question['answers'] == ['Kismet', 'Fire, Fire', 'Unknown']
    assert question['entities'] == ['Ann Lee']
    documents = as_corpus('opql_wikimovies/passages', tmp_path)
    assert [d.title_entity for d in documents] == ['Kismet', 'Top Hat']


@pytest.fixture
def tables(tmp_path):
    """Writes files of WebQuestionsSP and ComplexWebQuestions; gives the tables that link them."""
    tiny_sets.write_webqsp(tmp_path, [('Ann Lee', 'Bo Ray'), ('Bo Ray', 'Ann Lee')])
    folder = shutil.copytree(tmp_path / 'complexwebquestions', tmp_path / 'manual')
    return {'mid_to_qid': folder / 'mid_to_qid.tsv', 'qid_labels': folder / 'qid_labels.json'}


def test_webqsp_is_linked_as_its_configuration_says(load, tables, monkeypatch, tmp_path):
    archive, files = tmp_path / 'manual/WebQSP.zip', tmp_path / 'webqsp'
    with zipfile.ZipFile(archive, 'w') as file:
        for path in files.iterdir():
            file.write(path, f'WebQSP/data/{path.name}')
    pretend(monkeypatch, public_sets.OpqlWebqsp, public_sets.WEBQSP, archive)
    (named,) = load('opql_webqsp', 'test')
    assert (named['entities'], named['answers']) == (['Bo Ray'], ['Ann Lee'])
    vocab = EntityVocab(['Q1', 'Q2'], ['Ann', 'Bo'], [[], []])
    vocab.save(tmp_path / 'entities.parquet')
    config = public_sets.Linked(entities=tmp_path / 'entities.parquet', **tables)
    (linked,) = load('opql_webqsp', 'test', config=config)
    assert (linked['entities'], linked['answers']) == (['Q2'], ['Q1'])
    read = webqsp.read(files / 'WebQSP.test.json', EntityResolver(vocab, **tables))
    assert [linked] == with_topics(read, vocab)[0]
    assert config.name != public_sets.Linked(**tables).name != 'names'


def test_complexwebq_needs_the_names_of_its_topics(load, tables, tmp_path):
    said = r'no topic is named in any of 2 questions; give config=Linked\('
    with pytest.raises(InputError, match=said):
        load('opql_complexwebq', 'validation')
    read = load('opql_complexwebq', 'validation', config=public_sets.Linked(**tables))
    path = tmp_path / 'manual/ComplexWebQuestions_dev.json'
    expected = complexwebquestions.read(path, EntityResolver(NOTHING, **tables))
    assert read == with_topics(expected, NOTHING)[0] != []


@pytest.mark.parametrize('register_checksums', [False, True])
def test_another_archive_is_refused(put, tmp_path, monkeypatch, register_checksums):
    put('WebQSP.zip', 'not the archive')
    # Where checksums are registered TFDS would write them to its file.
    monkeypatch.setattr(tfds.download.DownloadManager, '_record_url_infos', lambda self: None)
    options = dict(manual_dir=tmp_path / 'manual', register_checksums=register_checksums)
    download = tfds.download.DownloadConfig(**options)
    builder = tfds.builder('opql_webqsp', data_dir=tmp_path / 'tfds')
    said = r'(?s)WebQSP\.zip.*95cb9cd2.*not the published file|not the published file.*95cb9cd2'
    with pytest.raises(InputError, match=said):
        builder.download_and_prepare(download_dir=tmp_path / 'downloads', download_config=download)


def test_msf_has_queries_and_linked_passages(load, tmp_path):
    folder = tiny_sets.write_msf(tmp_path / 'manual') / 'twohop/test'
    assert load('opql_msf/2-hop', 'test') == msf.queries(folder / 'queries.json')
    load('opql_msf/2-passages', 'test')
    documents = as_corpus('opql_msf/2-passages', tmp_path, 'test')
    assert documents == msf.documents(folder / 'paragraphs.json')
