"""Sentences with relations from corpora of several forms, under one set of names."""

import json

import pytest

from opql_jax.core.errors import InputError
from opql_jax.datasets.labelled_sentences import (
    MISSING,
    NONE,
    OVERLAPPING,
    read_corpora,
    read_labelled,
)

import tiny_sets
from tiny_sets import document


def fewrel(tokens, head, tail):
    return {'tokens': tokens.split(), 'h': ['a name', 'Q1', head], 't': ['another', 'Q2', tail]}


def line(text, topic, target, relation='P1', **more):
    return {'text': text, 'sub_text': topic, 'obj_text': target, 'rel': relation, **more}


TREX_TEXT = 'Emma is a novel by Jane Austen. Austen wrote Emma in Chawton. Emma is long.'
AUSTEN, EMMA = 'Q36322', 'Q223880'


def at(uri, start, end):
    return {'uri': uri, 'boundaries': [start, end], 'surfaceform': TREX_TEXT[start:end]}


def triple(subject, target):
    predicate = {'uri': 'P50', 'surfaceform': 'Author'}
    return {'subject': {'uri': subject}, 'predicate': predicate, 'object': {'uri': target}}


ENTITIES = [at(EMMA, 0, 4), at(AUSTEN, 19, 30), at(AUSTEN, 32, 38), at(EMMA, 45, 49)]
ENTITIES += [at('Q1', 53, 60), at(EMMA, 62, 66)]


def trex(**changes):
    """Of T-REx: two sentences name both Emma and its author, the last one Emma alone."""
    triples = [triple(EMMA, AUSTEN)] * 2
    return {'text': TREX_TEXT, 'entities': ENTITIES, 'triples': triples, **changes}


@pytest.fixture
def written(tmp_path):
    """Writes records, JSON or JSON Lines, and the names of relations; gives the paths."""

    def written(records, name='a.jsonl'):
        (tmp_path / 'names.json').write_text(json.dumps(tiny_sets.RELATIONS), encoding='utf-8')
        lines = map(json.dumps, records if name.endswith('.jsonl') else [records])
        (tmp_path / name).write_text('\n'.join(lines), encoding='utf-8')
        return [str(tmp_path / name)], str(tmp_path / 'names.json')

    return written


def shown(sentences):
    named = lambda s: (s.text[slice(*s.topic)], s.text[slice(*s.target)])
    return [(s.text, *named(s), s.relation) for s in sentences]


def test_fewrel_mentions_are_their_tokens_and_those_that_overlap_are_skipped(written):
    fuji = fewrel('Mount Fuji is in Japan .', [[0, 1]], [[4]])
    emma = fewrel('In Emma , Jane Austen mocks Emma', [[3, 4]], [[1], [6]])
    bank = fewrel('Bank of Japan', [[0, 2]], [[2]])
    (path,), _ = written({'P17': [fuji, bank], 'P50': [emma]}, 'a.json')
    sentences, skipped = read_labelled(path)
    expected = [('Mount Fuji', 'Japan', 'P17'), ('Jane Austen', 'Emma', 'P50')]
    assert [found[1:] for found in shown(sentences)] == expected
    assert sentences[1].target == (3, 7)  # the first of its two mentions
    assert skipped == {OVERLAPPING: 1}


def test_strings_are_found_as_whole_words_nearest_to_each_other(written):
    lines = [
        line('Herbert met Ann, then Bo. He married Ann (née Lee).', 'He', 'Ann'),
        line('Acme Inc. was founded by Jo.', 'Acme Inc.', 'Jo'),
        line('Acme Inc. was founded by Joan.', 'Acme Inc.', 'Jo'),
        line('Born in 1950.', None, '1950'),
        line('New York, New York', 'New York', 'York'),
        line('York Minster', 'York Minster', 'York'),
    ]
    (path,), _ = written(lines)
    sentences, skipped = read_labelled(path)
    names = [found[1:3] for found in shown(sentences)]
    assert names == [('He', 'Ann'), ('Acme Inc.', 'Jo'), ('New York', 'York')]
    assert (sentences[0].topic, sentences[0].target) == ((26, 28), (37, 40))
    assert skipped == {MISSING: 2, OVERLAPPING: 1}


def test_json_lines_may_name_their_relations_themselves(written):
    """The file of names goes before them, and neither case nor underscores tell any apart."""
    lines = [
        line('Alien by Ridley Scott', 'Alien', 'Ridley Scott', 'P57', rel_label='film director'),
        line('Emma by Jane Austen', 'Emma', 'Jane Austen', 'P50', rel_label='Author '),
        line('Lucy by Jane Austen', 'Lucy', 'Jane Austen', 'P50'),
        line('Rome, in Italy', 'Rome', 'Italy', 'Located_In'),
    ]
    relations = [relation for *_, relation in shown(read_corpora(*written(lines)))]
    assert relations == ['director', 'author', 'author', 'located in']
    ids = {'P57': [fewrel('Alien by Ridley Scott', [[0]], [[2, 3]])]}
    assert shown(read_corpora(*written(ids, 'a.json')))[0][-1] == 'director'


def test_trex_states_a_triple_where_a_sentence_names_both(written):
    first, second = 'Emma is a novel by Jane Austen. ', 'Austen wrote Emma in Chawton. '
    # Entities without a place or a URI are left out.
    outside = [at(AUSTEN, 19, 99), at(EMMA, -4, 3), at('', 0, 4)]
    lines = [trex(), trex(entities=outside, triples=[triple('', AUSTEN)])]
    found = shown(read_corpora(*written(lines)))
    assert found == [(first, 'Emma', 'Jane Austen', 'author'), (second, 'Emma', 'Austen', 'author')]


def test_docred_states_its_labels_and_that_other_pairs_are_unrelated(written):
    """The inverse of a label is not unrelated."""
    said = '<0 PER Ann Low> was born in <1 LOC Rome> , <2 LOC Italy> .'
    ann = document('Ann', said, labels=[(0, 'P19', 1), (1, 'P17', 2)])
    assert sorted(found[1:] for found in shown(read_corpora(*written([ann], 'a.json')))) == [
        ('Ann Low', 'Italy', NONE),
        ('Ann Low', 'Rome', 'place of birth'),
        ('Italy', 'Ann Low', NONE),
        ('Rome', 'Italy', 'country'),
    ]


AB = fewrel('a b', [[0]], [[1]])


@pytest.mark.parametrize(
    'name, records, said',
    [
        ('a.json', 3, 'expected a JSON object {relation: '),
        ('a.json', {'P1': [AB, {'tokens': ['a']}]}, "relation 'P1', sentence 2: .*KeyError: 'h'"),
        ('a.json', {'P1': [fewrel('a b', [[0]], [[2]])]}, 'sentence 1: .*index 2 of 2 tokens'),
        ('a.json', {}, 'no sentence with two mentions'),
        ('a.jsonl', [line('a b', 'a', 'b'), {'text': 'a b'}], 'a.jsonl:2: sub_text: missing'),
        ('a.jsonl', [line('a b', 'c', 'b')], 'no sentence with two mentions .*not in the text'),
        ('a.jsonl', [trex(), trex(entities=[at('Q1', 1, 2) | {'boundaries': [1]}])],
            r'a.jsonl:2: entities\[0\].boundaries: expected'),
    ],
)  # fmt: skip
def test_a_bad_record_is_told_with_its_file_and_place(written, name, records, said):
    with pytest.raises(InputError, match=said):
        read_corpora(*written(records, name))
