"""Labelled sentences that an encoder begins with state no relation that is new to it, whatever a
corpus calls it.
"""

import json

import pytest

from opql_jax.core.errors import InputError
from opql_jax.recipes import catalog
from opql_jax.recipes.recipe import Options

import tiny_docred

# Seeds with which each relation is new at times, and at times not.
SEEDS = range(0, 10, 2)


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    """Documents, and sentences labelled with their relations, with other names of two of these, and
    with others.
    """
    folder = tmp_path_factory.mktemp('data sets')
    tiny_docred.write(folder / 'redocred', tiny_docred.world(40))
    names = {**tiny_docred.RELATIONS, 'P26': 'Father', 'P17': 'member_of'}
    (folder / 'redocred/rel_info.json').write_text(json.dumps(names), encoding='utf-8')
    labelled = {
        'wiki64/sentences.jsonl': ['member of', 'capital', 'place of birth', 'employer'],
        'linked_sentences/sentences.jsonl': ['P26', 'child of', 'employer', 'sibling'],
    }
    ann = {'text': 'Ann met Bo .', 'sub_text': 'Ann', 'obj_text': 'Bo'}
    for name, relations in labelled.items():
        lines = [json.dumps(ann | {'rel': relation}) for relation in relations]
        (folder / name).parent.mkdir()
        (folder / name).write_text('\n'.join(lines), encoding='utf-8')
    triple = {'subject': {'uri': 'Q1'}, 'predicate': {'uri': 'P57'}, 'object': {'uri': 'Q2'}}
    entities = [{'uri': 'Q1', 'boundaries': [0, 5]}, {'uri': 'Q2', 'boundaries': [18, 24]}]
    document = {'text': 'Alien was made by Ridley.', 'entities': entities, 'triples': [triple]}
    (folder / 'trex').mkdir()
    (folder / 'trex/documents.jsonl').write_text(json.dumps(document), encoding='utf-8')
    return folder


def options_of(protocol, data, folder, seed=0):
    return Options(folder, data, seed=seed, system='opql-labels', protocol=protocol, share=50)


def steps_of(*chosen):
    steps = catalog.find('slot-filling').steps(options_of(*chosen))
    return {step.name: step.bindings for step in steps}


@pytest.mark.parametrize('seed', SEEDS)
@pytest.mark.parametrize('protocol', ['novel', 'without'])
def test_sentences_that_state_a_new_relation_are_left_out_under_each_of_its_names(
    protocol, seed, data, tmp_path
):
    row = f'opql-labels-{protocol}-50'
    steps = steps_of(protocol, data, tmp_path, seed)
    new = steps[f'results/{row}/novel']['NEEDS']
    assert new
    encoder = steps[steps[f'results/{row}/novel']['MODEL']]['INIT_FROM']
    assert steps[encoder]['HELD_OUT'] == new
    labels = steps[steps[encoder]['INIT_FROM']]
    called = {'P19': {'place of birth'}, 'P36': {'capital'}, 'P57': {'director'}}
    called |= {'P17': {'member of', 'employer'}, 'P26': {'father', 'child of'}}
    assert set(labels['HELD_OUT']) == set().union(*(called[relation] for relation in new))


def test_where_all_relations_are_trained_on_all_sentences_are(data, tmp_path):
    steps = steps_of('seen', data, tmp_path)
    assert steps['labels']['HELD_OUT'] == () and steps['align-opql-labels']['INIT_FROM'] == 'labels'
    assert len(steps['labels']['SENTENCES']) == 3


def test_sentences_that_are_missing_are_all_named(data, tmp_path):
    (tmp_path / 'redocred').symlink_to(data / 'redocred')
    missing = 'wiki64/sentences.jsonl, linked_sentences/sentences.jsonl, trex/documents.jsonl'
    options = options_of('novel', tmp_path, tmp_path / 'runs')
    with pytest.raises(InputError, match=f'lacks {missing}, which slot-filling reads'):
        catalog.build(catalog.find('slot-filling'), options)
