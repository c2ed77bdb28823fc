"""Labelled sentences, in FewRel's form and as JSON Lines."""

import json

import pytest

from opql_jax.core.errors import InputError
from opql_jax.datasets.labelled_sentences import MISSING, OVERLAPPING, read_labelled


def fewrel(tokens, head, tail):
    return {'tokens': tokens.split(), 'h': ['a name', 'Q1', head], 't': ['another', 'Q2', tail]}


def line(text, topic, target, relation='P1'):
    return {'text': text, 'sub_text': topic, 'obj_text': target, 'rel': relation, 'sub': None}


def read(tmp_path, content, name='a.json'):
    path = tmp_path / name
    lines = [content] if name == 'a.json' else content
    written = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text('\n'.join(written), encoding='utf-8')
    return read_labelled(path)


def shown(sentences):
    """(topic, target, relation) as text."""
    return [(s.text[slice(*s.topic)], s.text[slice(*s.target)], s.relation) for s in sentences]


def test_fewrel_mentions_are_their_tokens_and_those_that_overlap_are_skipped(tmp_path):
    fuji = fewrel('Mount Fuji is in Japan .', [[0, 1]], [[4]])
    emma = fewrel('In Emma , Jane Austen mocks Emma', [[3, 4]], [[1], [6]])
    ulysses, bank = (
        fewrel('Ulysses by Joyce', [[2]], [[0]]),
        fewrel('Bank of Japan', [[0, 2]], [[2]]),
    )
    sentences, skipped = read(tmp_path, {'P17': [fuji, bank], 'P50': [emma, ulysses]})
    fuji, *novels = shown(sentences)
    assert fuji == ('Mount Fuji', 'Japan', 'P17')
    assert novels == [('Jane Austen', 'Emma', 'P50'), ('Joyce', 'Ulysses', 'P50')]
    assert sentences[1].target == (3, 7)  # the first of its two mentions
    assert skipped == {OVERLAPPING: 1}


def test_strings_are_found_as_whole_words_nearest_to_each_other(tmp_path):
    lines = [
        line('Herbert met Ann, then Bo. He married Ann (née Lee).', 'He', 'Ann'),
        line('Acme Inc. was founded by Jo.', 'Acme Inc.', 'Jo'),
        line('Acme Inc. was founded by Joan.', 'Acme Inc.', 'Jo'),
        line('Born in 1950.', None, '1950'),
        line('New York, New York', 'New York', 'York'),
        line('York Minster', 'York Minster', 'York'),
    ]
    sentences, skipped = read(tmp_path, lines, 'a.jsonl')
    found = shown(sentences)
    assert found == [('He', 'Ann', 'P1'), ('Acme Inc.', 'Jo', 'P1'), ('New York', 'York', 'P1')]
    assert (sentences[0].topic, sentences[0].target) == ((26, 28), (37, 40))
    assert skipped == {MISSING: 2, OVERLAPPING: 1}


AB = fewrel('a b', [[0]], [[1]])


@pytest.mark.parametrize(
    'content, said',
    [
        ('{', 'a.json: not a JSON value .*; files of JSON Lines are called'),
        ([1], 'expected a JSON object {relation: '),
        ({'P1': 3}, "relation 'P1': expected a list of sentences"),
        ({'P1': [AB, {'tokens': ['a']}]}, "relation 'P1', sentence 2: .*KeyError: 'h'"),
        ({'P1': [fewrel('a b', [[0]], [[2]])]}, 'sentence 1: .*index 2 of 2 tokens'),
        ({}, 'no sentence with two mentions'),
    ],
)
def test_a_bad_fewrel_file_is_refused_by_place(tmp_path, content, said):
    with pytest.raises(InputError, match=said):
        read(tmp_path, content)
    with pytest.raises(InputError, match='b.json: cannot be read'):
        read_labelled(tmp_path / 'b.json')


@pytest.mark.parametrize(
    'content, said',
    [
        ([line('a b', 'a', 'b'), {'text': 'a b'}], 'a.jsonl:2: sub_text: missing'),
        ([line('a b', 'a', 'b', '')], "a.jsonl:1: rel: expected a string, found ''"),
        ([line('a b', 'c', 'b')], 'no sentence with two mentions .*not in the text'),
    ],
)
def test_a_bad_line_is_named(tmp_path, content, said):
    with pytest.raises(InputError, match=said):
        read(tmp_path, content, 'a.jsonl')
