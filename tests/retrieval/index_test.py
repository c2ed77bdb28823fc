"""The index holds what it was built from, whole or not at all; damage is told."""

import collections
import dataclasses
import itertools
import math
import pathlib

import numpy as np
import pytest
from tiny_retrieval import corpus_of

from opql_jax.core.errors import InputError
from opql_jax.core.manifest import ManifestError
from opql_jax.retrieval.index import RetrievalIndex, build
from opql_jax.retrieval.inner_names import inner_names
from opql_jax.retrieval.words import words_of

from examples import table


def test_what_was_built_is_read_again(tmp_path):
    texts = {'Ada': 'Ada met [Babbage]. He built [Engine]s.', 'Babbage': 'A man.'}
    built = build(tmp_path / 'index', corpus_of(texts))
    opened = RetrievalIndex.open(tmp_path / 'index')
    for index in (built, opened):
        assert index.ids == ['ada', 'babbage'] and index.titles == ['Ada', 'Babbage']
        assert index.texts == ['Ada met Babbage. He built Engines.', 'A man.']
        assert [index.sentence(row) for row in range(3)] == [(0, 17), (17, 34), (0, 6)]
        # Entities: Ada 0, Babbage 1, Engine 2.
        assert index.entities_of_sentence.toarray().tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
        assert index.passages_of_entity.toarray().tolist() == [[1, 1, 1], [0, 1, 0]]
        assert index.passages_titled.toarray().tolist() == [[1, 0, 0], [0, 1, 0]]
        assert index.passages_naming.toarray().tolist() == [[0, 1, 1], [0, 0, 0]]
        np.testing.assert_allclose(np.linalg.norm(index.vectors, axis=1), 1, rtol=1e-6)


def test_word_scores_are_those_of_bm25(tmp_path):
    texts = {'Red fox': 'The fox runs. Foxes ran away.', 'Dog': 'A dog sleeps near a fox'}
    texts['Empty'] = 'The of.'
    index = build(tmp_path / 'index', corpus_of(texts))
    bags = [words_of(title) * 2 + words_of(text) for title, text in texts.items()]
    mean = sum(map(len, bags)) / len(bags)
    for word, column in index.word_ids.items():
        having = sum(word in bag for bag in bags)
        for row, bag in enumerate(bags):
            times = collections.Counter(bag)[word]
            idf = math.log(1 + (len(bags) - having + 0.5) / (having + 0.5))
            expected = idf * times / (times + 1.2 * (1 - 0.75 + 0.75 * len(bag) / mean))
            assert index.words[row, column] == pytest.approx(expected, rel=1e-5)
    assert set(index.word_ids) == {word for bag in bags for word in bag}


def test_vectors_that_are_not_finite_and_folders_of_others_are_refused_and_left_alone(tmp_path):
    corpus = corpus_of({'Ada': 'Met [Babbage].', 'Babbage': 'A man.'})
    bad = dataclasses.replace(corpus, passage_vectors=np.full((2, 64), np.nan))
    with pytest.raises(InputError, match='vector 0 is not finite'):
        build(tmp_path / 'index', bad)
    (tmp_path / 'mine').write_text('kept')
    with pytest.raises(InputError, match='exists; name a new folder'):
        build(tmp_path, corpus)
    assert [file.read_text() for file in tmp_path.iterdir()] == ['kept']


@pytest.mark.parametrize('written', [0, 4, 8, 11])
def test_a_build_that_fails_is_completed_by_the_next(tmp_path, monkeypatch, written):
    content = lambda folder: {path.name: path.read_bytes() for path in folder.iterdir()}
    corpus = corpus_of({'Ada': 'Met [Babbage].'})
    write = pathlib.Path.write_bytes
    count = itertools.count()
    build(tmp_path / 'whole', corpus)

    def full(path, data):
        if next(count) >= written:
            raise OSError(28, 'No space left on device')
        return write(path, data)

    with monkeypatch.context() as patch, pytest.raises(OSError, match='No space left'):
        patch.setattr(pathlib.Path, 'write_bytes', full)
        build(tmp_path / 'index', corpus)
    with pytest.raises(ManifestError, match='manifest.json: no such file'):
        RetrievalIndex.open(tmp_path / 'index')
    build(tmp_path / 'index', corpus)
    assert content(tmp_path / 'index') == content(tmp_path / 'whole')


def test_vectors_keep_their_directions_whatever_their_length(tmp_path):
    corpus = corpus_of({'Ada': 'Ada met [Babbage]. He built [Engine]s.', 'Of': 'The of.'})
    given = np.concatenate([corpus.passage_vectors, corpus.sentence_vectors])
    long = dataclasses.replace(corpus, passage_vectors=corpus.passage_vectors * 1e6)
    build(tmp_path / 'index', long)
    vectors = RetrievalIndex.open(tmp_path / 'index').vectors
    has_words = given.any(axis=1)
    assert has_words.tolist() == [True, False, True, True, False]
    unit = given / np.maximum(np.linalg.norm(given, axis=1, keepdims=True), 1e-9)
    np.testing.assert_allclose(vectors, unit, atol=1 / 253)
    assert (vectors * unit).sum(axis=1)[has_words].min() > 0.9999
    assert not vectors[~has_words].any()


@table("""
    words | stems
    directed directing directs director | 1
    Aschenbrödel aschenbrodel | 1
    stopped stop | 1
    king kin | 2
    red r | 2
    1995 1996 | 2
""")
def test_forms_of_a_word_have_one_stem_but_short_words_keep_their_ends(words, stems):
    assert len(set(words_of(words))) == int(stems)


def test_function_words_and_punctuation_are_left_out_and_order_kept():
    assert words_of('Who was the king of Spain, in 1500?') == ['king', 'spain', '1500']
    assert words_of('') == words_of('the of…') == []


NAMES = 'Daewoo Heavy Industries/Daewoo/History of Mississippi/Mississippi'.split('/')
NAMES += 'Lana, South Tyrol/South Tyrol/Lana/Tyrolean/Heavy/the South/Mississippi'.split('/')


def inside(name: str) -> list[str]:
    return [NAMES[entity] for entity in inner_names(NAMES)[NAMES.index(name)]]


def test_whole_names_within_a_name_are_found():
    assert inside('Daewoo Heavy Industries') == ['Daewoo', 'Heavy']
    assert inside('Lana, South Tyrol') == ['South Tyrol', 'Lana']


def test_all_entities_of_a_spelling_are_meant_and_parts_of_words_are_not():
    assert inner_names(NAMES)[NAMES.index('History of Mississippi')] == (3, 10)
    assert inside('Tyrolean') == inside('Daewoo') == inside('Mississippi') == []
