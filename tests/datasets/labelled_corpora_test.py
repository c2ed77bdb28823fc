"""Sentences with relations from corpora of several forms, under one set of names."""

import json

import pytest

from opql_jax.core.errors import InputError
from opql_jax.datasets.labelled_sentences import NONE, read_corpora

import tiny_docred
from tiny_docred import document


def line(text, topic, target, relation, **more):
    return {'text': text, 'sub_text': topic, 'obj_text': target, 'rel': relation, **more}


TREX_TEXT = 'Emma is a novel by Jane Austen. Austen wrote Emma in Chawton. Emma is long.'
AUSTEN, EMMA = 'Q36322', 'Q223880'


def at(uri, start, end):
    return {'uri': uri, 'boundaries': [start, end], 'surfaceform': TREX_TEXT[start:end]}


def triple(subject, target):
    predicate = {'uri': 'P50', 'surfaceform': 'Author'}
    return {'subject': {'uri': subject}, 'predicate': predicate, 'object': {'uri': target}}


ENTITIES = [
    at(EMMA, 0, 4), at(AUSTEN, 19, 30), at(AUSTEN, 32, 38), at(EMMA, 45, 49),
    at('Q1', 53, 60), at(EMMA, 62, 66),
]  # fmt: skip


def trex(**changes):
    """Of T-REx: two sentences name both Emma and its author, the last one Emma alone."""
    triples = [triple(EMMA, AUSTEN)] * 2
    return {'text': TREX_TEXT, 'entities': ENTITIES, 'triples': triples, **changes}


@pytest.fixture
def read(tmp_path):
    """Reads records and names of relations; (text, topic, target, relation) of each sentence."""

    def read(records, name='a.jsonl', names=tiny_docred.RELATIONS):
        (tmp_path / 'names.json').write_text(json.dumps(names), encoding='utf-8')
        lines = map(json.dumps, records if name.endswith('.jsonl') else [records])
        (tmp_path / name).write_text('\n'.join(lines), encoding='utf-8')
        found = read_corpora([str(tmp_path / name)], str(tmp_path / 'names.json'))
        named = lambda s: (s.text[slice(*s.topic)], s.text[slice(*s.target)])
        return [(s.text, *named(s), s.relation) for s in found]

    return read


def test_json_lines_may_name_their_relations_themselves(read):
    alien = 'Alien by Ridley Scott', 'Alien', 'Ridley Scott'
    found = read(
        [
            line(*alien, 'P57', rel_label='film director'),
            line('Emma by Jane Austen', 'Emma', 'Jane Austen', 'P50', rel_label='Author '),
            line('Lucy by Jane Austen', 'Lucy', 'Jane Austen', 'P50'),
            line('Rome, in Italy', 'Rome', 'Italy', 'Located_In'),
        ]
    )
    # The file of names goes before the names that lines give, which serve all lines; case and
    # underscores do not tell relations apart.
    assert [relation for *_, relation in found] == ['director', 'author', 'author', 'located in']
    assert found[0][:3] == alien
    item = {'tokens': alien[0].split(), 'h': ['', '', [[0]]], 't': ['', '', [[2, 3]]]}
    assert read({'P57': [item]}, 'a.json') == [(*alien, 'director')]  # FewRel has ids


def test_trex_states_a_triple_where_a_sentence_names_both(read):
    first, second = 'Emma is a novel by Jane Austen. ', 'Austen wrote Emma in Chawton. '
    found = read([trex()])
    assert found == [(first, 'Emma', 'Jane Austen', 'author'), (second, 'Emma', 'Austen', 'author')]
    assert {r for *_, r in read([trex()], names={'P50': 'Written By'})} == {'written by'}


def test_entities_of_trex_without_a_place_or_a_uri_are_left_out(read):
    outside = [at(AUSTEN, 19, 99), at(EMMA, -4, 3), at('', 0, 4)]
    triples = [*trex()['triples'], triple('', AUSTEN)]
    assert len(read([trex(), trex(entities=outside, triples=triples)])) == 2


def test_docred_states_its_labels_and_that_other_pairs_are_unrelated(read):
    ann = document(
        'Ann',
        '<0 PER Ann Low> was born in <1 LOC Rome> , <2 LOC Italy> .',
        '<0 PER Ann Low> never saw <3 LOC Ulm> .',
        labels=[(0, 'P19', 1), (1, 'P17', 2), (0, 'P26', 3), (0, 'P57', 3)],
    )
    first, second = 'Ann Low was born in Rome, Italy.', 'Ann Low never saw Ulm.'
    assert sorted(read([ann], 'a.json')) == sorted(
        [
            (first, 'Ann Low', 'Rome', 'place of birth'),
            (first, 'Rome', 'Italy', 'country'),
            # Both directions; the inverse of a label is not unrelated.
            (first, 'Ann Low', 'Italy', NONE),
            (first, 'Italy', 'Ann Low', NONE),
            (second, 'Ann Low', 'Ulm', 'spouse'),
            (second, 'Ann Low', 'Ulm', 'director'),
        ]
    )


@pytest.mark.parametrize(
    'bad, said',
    [
        ([trex(), trex(text=None)], r'a.jsonl:2: text: expected a string, found None'),
        ([trex(entities=[at(3, 0, 4)])], r'a.jsonl:1: entities\[0\].uri: expected a string'),
        ([trex(), trex(entities=[{'uri': 'Q1', 'boundaries': [1, 2, 3]}])],
            r'a.jsonl:2: entities\[0\].boundaries: expected'),
        ([trex(), trex(triples=[triple(EMMA, 'Q1') | {'subject': None}])],
            r'a.jsonl:2: triples\[0\].subject: expected an object, found None'),
        ([line('a b', 'a', 'b', 'P1', rel_label=7)],
            r'a.jsonl:1: rel_label: expected a string, found 7'),
        ([], r'no sentence with two mentions'),
    ],
)  # fmt: skip
def test_a_bad_line_is_told_with_its_file_and_number(read, bad, said):
    with pytest.raises(InputError, match=said):
        read(bad)


@pytest.mark.parametrize('name', ['none.json', 'none.jsonl'])
def test_a_missing_file_is_told(tmp_path, name):
    (tmp_path / 'names.json').write_text('{"P1": "one"}')
    with pytest.raises(InputError, match=rf'{name}: '):
        read_corpora([str(tmp_path / name)], str(tmp_path / 'names.json'))
    with pytest.raises(InputError, match='nonames.json'):
        read_corpora([], str(tmp_path / 'nonames.json'))
