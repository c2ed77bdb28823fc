"""Documents to the tables of a prepared directory."""

import weakref

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from opql_jax.core.errors import InputError
from opql_jax.corpus import linking, tables
from opql_jax.corpus.build_tables import build_tables
from opql_jax.corpus.documents import Document, Mention
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.splitting import split_batch

VOCAB = EntityVocab.from_names(['Up', 'Ann Low', 'Bob', 'film', 'Never'])
DOCUMENTS = [
    Document('0', 'Up', 'Up is a film by Ann Low. It stars Bob.', title_entity='Up'),
    Document('1', 'Bob', 'A film with no one.', title_entity='Bob'),
    Document('2', 'Up', 'Bob left.', (Mention(0, 3, 'Bob'),), 'Up'),
]


def count(text):
    return len(text.split())


def write(tmp_path, documents=DOCUMENTS, vocab=VOCAB, **options):
    split = lambda batches: (split_batch(batch, count, 8) for batch in batches)
    return build_tables(tmp_path, documents, vocab, split, **options)


def rows(tmp_path, name, schema):
    return tables.read_table(tmp_path / f'{name}.parquet', schema).to_pylist()


def test_documents_become_passages_pairs_and_counted_entities(tmp_path, monkeypatch):
    monkeypatch.setattr(linking, 'DROP_FROM', 2)
    stated = write(tmp_path, drop_above_rate=0.6)
    passages = rows(tmp_path, 'passages', tables.PASSAGES)
    texts = 'Up is a film by Ann Low.|Up: It stars Bob.|Bob: A film with no one.|Up: Bob left.'
    assert [p['text'] for p in passages] == texts.split('|')
    named = [[VOCAB.names[m['entity']] for m in p['mentions']] for p in passages]
    assert named == [['Up', 'Ann Low'], ['Up', 'Bob'], ['Bob'], ['Up', 'Bob']]
    pairs = [tuple(pair.values()) for pair in rows(tmp_path, 'pairs', tables.PAIRS)]
    one_way = [(0, 1, 0, 0, 1, True), (0, 2, 1, 0, 1, True), (0, 2, 3, 0, 1, True)]
    assert pairs == one_way + [(b, a, passage, j, i, True) for a, b, passage, i, j, _ in one_way]
    assert pq.read_table(tmp_path / 'entities.parquet')['count'].to_pylist() == [3, 1, 3, 0, 0]
    assert stated['dropped_entities'] == {'film': 1.0}
    assert stated['counts'] == {
        'documents': 3, 'documents_without_mentions': 1, 'passages': 4, 'mentions': 7, 'pairs': 4,
        'entities': 5, 'entities_mentioned': 3, 'pair_rows': 6, 'title_pair_rows': 6,
    }  # fmt: skip


def test_documents_come_as_a_stream_and_need_not_be_in_memory_together(tmp_path, monkeypatch):
    monkeypatch.setattr(linking, 'BATCH_DOCUMENTS', 2)
    alive, most = weakref.WeakSet(), []

    class Stream:
        def __len__(self):
            return 50

        def __iter__(self):
            for number in range(50):
                document = Document(str(number), 'Up', 'Up by Bob.', title_entity='Up')
                alive.add(document)
                most.append(len(alive))
                yield document
                del document

    counts = write(tmp_path / 'stream', Stream())['counts']
    assert counts['documents'] == counts['passages'] == 50 and max(most) <= 4


def test_an_unknown_entity_is_named_with_its_document(tmp_path):
    said = r"document '7': mentions\[0\]\.entity: unknown entity id 'Zed'"
    with pytest.raises(InputError, match=said):
        write(tmp_path, [Document('7', 't', 'Zed', (Mention(0, 3, 'Zed'),))])
    with pytest.raises(InputError, match="document '7': title_entity: unknown entity id 'Zed'"):
        write(tmp_path, [Document('7', 't', 'x', title_entity='Zed')])


NOTHING = 'no pair in 1 documents: no passage mentions two entities; [^;]*$'


@pytest.mark.parametrize(
    'documents, options, said',
    [
        ([], {}, 'empty corpus'),
        (DOCUMENTS[:1] * 2, {}, "document id '0' is used more than once"),
        ([Document('0', 't', 'nothing here')], {}, NOTHING),
        (
            [Document(str(i), 't', 'Bob saw a film.') for i in range(linking.DROP_FROM)],
            {'drop_above_rate': 0.5},
            r"too frequent for drop_above_rate: 'Bob' \(100%\), 'film'",
        ),
    ],
)
def test_a_corpus_that_cannot_be_prepared_is_an_error(tmp_path, documents, options, said):
    with pytest.raises(InputError, match=said):
        write(tmp_path, documents, **options)


def test_a_vocabulary_comes_from_the_links_or_without_any_from_the_titles():
    spans = (0, 5, 'Q2'), (11, 13, 'Q1'), (15, 22, 'Q2'), (24, 31, 'Q2')
    mentions = tuple(Mention(*span) for span in spans)
    linked = Document('0', 'Up (film)', 'Annie made Up. Ann Low. Ann\nLow.', mentions, 'Q1')
    vocab = EntityVocab.from_documents([linked])
    assert vocab.keys == ['Q1', 'Q2'] and vocab.names == ['Up (film)', 'Ann Low']
    assert vocab.aliases == [['Up'], ['Annie']]
    titles = [Document(title, title, 'x') for title in ('Up', 'Bob', 'Up')]
    assert EntityVocab.from_documents(titles).keys == ['Up', 'Bob']


SCHEMA = pa.schema([('a', pa.int32()), ('b', pa.list_(pa.string()))])
TABLE = pa.table({'a': [1, 2], 'b': [['x'], []]}, schema=SCHEMA)


def test_names_that_other_writers_give_list_items_do_not_matter(tmp_path):
    lists = pa.array([['x'], []], pa.list_(pa.field('item', pa.string())))
    other = pa.table({'b': lists, 'a': pa.array([1, 2], pa.int32()), 'more': [0, 0]})
    pq.write_table(other, tmp_path / 't.parquet')
    assert tables.read_table(tmp_path / 't.parquet', SCHEMA).equals(TABLE)


def test_what_is_alike_in_many_rows_is_read(tmp_path):
    """As in a memory of few texts: a short name again and again, which is stored once."""
    rows = TABLE.take(np.arange(400_000) % 2)
    pq.write_table(rows, tmp_path / 't.parquet')
    assert tables.read_table(tmp_path / 't.parquet', SCHEMA).equals(rows.combine_chunks())
