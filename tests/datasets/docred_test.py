"""The reader of DocRED documents: text, mentions, entities and facts; bad records."""

import copy
import functools
import json
import operator

import pytest

from opql_jax.core.errors import InputError
from opql_jax.datasets import docred

import tiny_sets
from tiny_sets import RELATIONS, document

ANN = document(
    'Ann Low',
    '<0 PER Ann " Annie " Low> ( born 3 May 1963 in <1 LOC Rome> ) is <2 LOC Italy> \'s best - '
    'known " film maker " .',
    '<0 PER Low> met <3 PER Sue> at the <4 ORG U.S. Mint> , etc .',
    'In <5 TIME May 2001> <3 PER Sue> left .',
    labels=[(0, 'P19', 1), (1, 'P17', 2), (0, 'P26', 3), (1, 'P26', 3)],
)


@pytest.fixture
def read(tmp_path):
    def read(*documents, **options):
        path, rejected = tiny_sets.write_docred(tmp_path, documents), tmp_path / 'rejected.jsonl'
        found = docred.read_documents(path, RELATIONS, rejected_path=rejected, **options)
        return found, [json.loads(line) for line in rejected.read_text().splitlines()]

    return read


def mentions_of(document):
    return [(document.text[m.start : m.end], m.entity) for m in document.mentions]


def test_tokens_become_readable_lines_and_offsets_name_the_mentions(read):
    (ann,), rejected = read(ANN)
    assert ann.document.text.split('\n') == [
        'Ann "Annie" Low (born 3 May 1963 in Rome) is Italy\'s best-known "film maker".',
        'Low met Sue at the U.S. Mint, etc.',
        'In May 2001 Sue left.',
    ]
    names = ['Ann "Annie" Low', 'Rome', 'Italy', 'Low', 'Sue', 'U.S. Mint', 'May 2001', 'Sue']
    assert [name for name, _ in mentions_of(ann.document)] == names
    ann_low, sue = 'PER:Ann "Annie" Low', 'PER:Sue (Ann Low)'
    keys = [ann_low, 'LOC:Rome', 'LOC:Italy', ann_low, sue, 'ORG:U.S. Mint', 'TIME:May 2001', sue]
    assert [key for _, key in mentions_of(ann.document)] == keys
    assert not rejected
    # Labels whose entities share a sentence are facts.
    assert ann.facts == [
        ('PER:Ann "Annie" Low', 'P19', 'LOC:Rome'),
        ('LOC:Rome', 'P17', 'LOC:Italy'),
        ('PER:Ann "Annie" Low', 'P26', 'PER:Sue (Ann Low)'),
    ]
    assert len(ann.apart) == 1


def test_entities_of_one_name_and_type_are_one_but_people_of_one_word(read):
    said = '<0 PER Sue> saw <1 LOC Rhine> , <2 NUM 1999> and <3 PER Bo Li> , called <3 PER Bo> .'
    (one, two), _ = read(
        document('One', '<0 PER Sue> saw <1 LOC the Rhine> , <2 TIME 1999> and <3 PER Bo Li> .'),
        document('Two', said),
    )
    assert set(one.names) & set(two.names) == {'LOC:Rhine', 'PER:Bo Li'}
    assert two.names['PER:Bo Li'] == ('Bo Li', {'Bo Li': 1, 'Bo': 1})


def mention(sentence, first, end, kind):
    return [{'sent_id': sentence, 'pos': [first, end], 'type': kind}]


def test_of_overlapping_mentions_the_longest_stays_and_a_fact_needs_one_that_stayed(read):
    labels = [(0, 'P17', 1), (0, 'P57', 2)]
    bank = document('Bank', '<0 LOC Rome> has the Bank of Rome .', labels=labels)
    others = (5, 6, 'LOC'), (3, 6, 'ORG'), (3, 6, 'MISC')
    bank['vertexSet'] += [mention(0, *other) for other in others]
    (read_bank,), _ = read(bank)
    found = mentions_of(read_bank.document)
    assert found == [('Rome', 'LOC:Rome'), ('Bank of Rome', 'ORG:Bank of Rome')]
    assert read_bank.facts == [('LOC:Rome', 'P57', 'ORG:Bank of Rome')] and not read_bank.apart


def test_labels_of_unknown_relations_are_left_out_and_listed(read):
    (ann,), rejected = read(other := changed(['labels', 1, 'r'], 'P9999'))
    assert [relation for _, relation, _ in ann.facts] == ['P19', 'P26']
    reason = "labels[1].r: unknown relation 'P9999'"
    assert rejected == [{'document': 1, 'reason': reason, 'record': other['labels'][1]}]


def changed(path, value):
    record = copy.deepcopy(ANN) | {'title': 'Changed'}
    *steps, last = path
    functools.reduce(operator.getitem, steps, record)[last] = value
    return record


@pytest.mark.parametrize(
    'record, reason',
    [
        (['no', 'object'], 'record: expected a JSON object, found'),
        (changed(['sents', 0, 0], '\ud800'), 'text: code point 0 is half a surrogate pair'),
        (changed(['vertexSet', 3, 1, 'pos'], [1, 7]),
            'vertexSet[3][1].pos: expected [first, end] among 6 tokens, found [1, 7]'),
        (changed(['labels', 0, 'h'], 6), 'labels[0].h: expected one of 6 clusters, found 6'),
        (ANN, "title: 'Ann Low' is that of document 1"),
    ],
)  # fmt: skip
def test_bad_documents_are_listed_with_number_and_field(read, tmp_path, record, reason):
    found, (rejected,) = read(ANN, record, document('Last', 'Nothing .'), max_reject_fraction=0.5)
    assert [item.document.title for item in found] == ['Ann Low', 'Last']
    assert rejected['document'] == 2
    assert rejected['reason'].startswith(reason)
    assert rejected['record'] == record
    said = 'documents.json: 1 of 3 documents are bad, more than the fraction 0.2 allowed: doc'
    with pytest.raises(InputError, match=said):
        read(ANN, record, document('Last', 'Nothing .'), max_reject_fraction=0.2)


@pytest.mark.parametrize('content', [b'{"title": "One"}', b'[]', b'[{"title":', b'\xff'])
def test_a_file_that_is_no_list_of_documents_is_named(tmp_path, content):
    path = tmp_path / 'documents.json'
    path.write_bytes(content)
    with pytest.raises(InputError, match=f'{path}: '):
        docred.read_documents(path, RELATIONS, rejected_path=tmp_path / 'rejected.jsonl')
