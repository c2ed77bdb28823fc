"""The entity vocabulary and linking by its names."""

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opql_jax.core.errors import InputError
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.linking import MentionLinker


def test_keys_come_before_names_and_names_before_aliases():
    vocab = EntityVocab(['x', 'y', 'z'], ['y', 'Zed', 'Zed'], [['Zed'], [], ['x', 'only']])
    assert [vocab.get(s) for s in ('x', 'y', 'Zed', 'only', 'none')] == [0, 1, 1, 2, None]


def test_an_unknown_name_is_an_error_with_suggestions():
    vocab = EntityVocab.from_names(['Christopher Nolan', 'Jonathan Nolan'])
    said = "unknown entity 'Christoper Nolan'; did you mean 'Christopher Nolan'"
    with pytest.raises(InputError, match=said):
        vocab.id('Christoper Nolan')
    with pytest.raises(InputError, match="unknown entity 'zzz'$"):
        vocab.id('zzz')


def test_repeated_keys_and_empty_names_are_errors():
    with pytest.raises(InputError, match="key 'a' is in rows 0 and 2"):
        EntityVocab(['a', 'b', 'a'], ['1', '2', '3'], [[], [], []])
    with pytest.raises(InputError, match='row 1 has an empty key, name or kind'):
        EntityVocab(['a', 'b'], ['A', 'B'], [[], []], ['person', ''])


def test_a_vocabulary_is_known_by_the_hash_of_how_it_begins():
    columns = ['a', 'b', 'c'], ['A', 'B', 'C'], [['x'], [], ['y']]
    vocab = EntityVocab(*columns)
    hashes = [vocab.hash(count) for count in range(4)]
    assert hashes == [EntityVocab(*(c[:count] for c in columns)).hash() for count in range(4)]
    assert len(set(hashes)) == 4 and hashes[3] == vocab.hash()
    assert EntityVocab(['a', 'q', 'c'], ['A', 'B', 'C'], [[], [], []]).hash(2) != hashes[2]


def test_a_vocabulary_is_read_as_it_was_saved_and_kinds_change_no_hash(tmp_path):
    columns = ['a', 'b'], ['A', 'B'], [['x'], []]
    vocab = EntityVocab(*columns, ['person', 'name'])
    vocab.save(tmp_path / 'entities.parquet', counts=[3, 0])
    loaded = EntityVocab.load(tmp_path / 'entities.parquet')
    found = (loaded.keys, loaded.names, loaded.aliases, loaded.kinds)
    assert found == (*columns, ['person', 'name'])
    assert loaded.hash() == EntityVocab(*columns).hash()
    assert pq.read_table(tmp_path / 'entities.parquet')['count'].to_pylist() == [3, 0]
    EntityVocab(*columns).save(tmp_path / 'unknown.parquet')
    assert 'kind' not in pq.read_schema(tmp_path / 'unknown.parquet').names
    assert EntityVocab.load(tmp_path / 'unknown.parquet').kinds == ['name', 'name']


def test_an_entity_in_too_large_a_share_of_a_hundred_texts_is_dropped_but_under_its_own_title():
    vocab = EntityVocab.from_names(['film', 'Ann'])
    linker = MentionLinker(vocab, drop_above_rate=0.5)
    texts, titles = ['film by Ann', 'film', 'film on film'], [-1, -1, 0]
    mentions, dropped = linker.link_all(texts + ['film'] * 97, titles + [-1] * 97)
    assert mentions == [[(8, 11, 1)], [], [(0, 4, 0), (8, 12, 0)], *[[]] * 97]
    assert dropped == {0: 1.0}
    assert linker.link_all(['film'] * 99) == ([[(0, 4, 0)]] * 99, {})
    # Of all texts, those linked before included.
    assert linker.link_all(['film'], base_counts=({0: 99}, 99))[1] == {0: 1.0}
    assert linker.link_all(['film'], base_counts=({0: 99}, 199))[1] == {}


def slow_link(spellings, text, nested=False, within=None):
    """The specification: from the left the longest spelling that stands as words, and inside it."""
    start, last = within or (0, len(text))
    mentions = []
    while start < last:
        for spelling in sorted(spellings, key=len, reverse=True):
            end = start + len(spelling)
            if end > last or (start, end) == within or text[start:end] != spelling:
                continue
            if text[end : end + 1].isalnum() or text[max(start - 1, 0) : start].isalnum():
                continue
            if start > 1 and text[start - 1] in "'\u2019" and text[start - 2].isalpha():
                continue
            mentions.append((start, end, spellings[spelling]))
            if nested and text[start].islower():
                mentions += slow_link(spellings, text, True, (start, end))
            start = end - 1
            break
        start += 1
    return mentions


@given(
    st.lists(st.text("ab' éA1", min_size=1, max_size=5), min_size=1, max_size=8),
    st.text("ab' éA1\u2019", max_size=30),
    st.booleans(),
    st.data(),
)
def test_linking_equals_its_specification(names, text, nested, data):
    # Names made of names, or few would lie in one another.
    joined = st.lists(st.sampled_from(names), min_size=2, max_size=3).map(' '.join)
    names += data.draw(st.lists(joined, max_size=4))
    text += ' '.join(['', *data.draw(st.lists(st.sampled_from(names), max_size=4))])
    vocab = EntityVocab.from_names(names)
    found = MentionLinker(vocab, nested=nested).link(text)
    assert found == slow_link(vocab.spellings, text, nested)
