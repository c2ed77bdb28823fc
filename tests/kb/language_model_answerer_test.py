"""Language models that answer: predictions with traces, how they start, and what is refused."""

import dataclasses
import functools
import json
import types

import jax
import numpy as np
import pytest
from flax import traverse_util

from opql_jax.core.errors import InputError
from opql_jax.corpus.questions import read_questions
from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.prepared import Prepared
from opql_jax.kb.open_kb import open_kb
from opql_jax.kb.trained.question_sets import evaluate
from opql_jax.kb.trained.trained_kb import TrainedKB
from opql_jax.memory.format import Memory
from opql_jax.models.language_model import normalize_entity_table
from opql_jax.parallel.entity_table import Layout
from opql_jax.parallel.mesh import make_mesh
from opql_jax.training import model_config, objectives

import records
import tiny_training
from records import read

encoder = functools.partial(tiny_training.encoder, num_layers=2)
OPTIONS = dict(rows=16, k=4, entity_layer=1)
TEXT = dict(text='prepared')


@pytest.fixture(scope='module')
def world(tmp_path_factory):
    """Untrained language models over a memory and without one, and what they start from."""
    root = tmp_path_factory.mktemp('world')
    folder = tiny_training.write_prepared(root / 'prepared')
    prepared = Prepared(folder)
    write = functools.partial(tiny_training.write_untrained, folder, encoder=encoder)
    write(root / 'entities', objectives.Entities(rows=16))
    memory = tiny_training.write_memory(folder, root / 'entities', root / 'memory')
    records.write_from_splits(prepared, root / 'asked.jsonl')
    cloze = objectives.Cloze(memory_dir=str(memory), **OPTIONS)
    write(root / 'cloze', cloze, seed=1, init_from=str(root / 'entities'))
    files = dict(memory_dir=str(memory), questions=str(root / 'asked.jsonl'))
    asking = objectives.AnswerQuestions(filter=True, **files, text_rows=8, name_rows=8, **OPTIONS)
    write(root / 'lm', asking, seed=2, init_from=str(root / 'cloze'))
    write(root / 'eae', objectives.Cloze(**OPTIONS), init_from=str(root / 'entities'))
    KBFolder(root).write(text='prepared', model='eae', memory=None)
    run = functools.partial(tiny_training.run, folder, encoder=encoder)
    parts = dict(root=root, folder=folder, prepared=prepared, memory=memory)
    return types.SimpleNamespace(**parts, run=run)


def test_predictions_tell_what_was_read_and_metrics_follow_from_them(world, tmp_path):
    asked = dict(questions=(str(world.root / 'asked.jsonl'),), output_dir=str(tmp_path))
    parts = dict(kb=str(world.root), **TEXT, model='lm', memory='memory')
    found = evaluate(**parts, **asked)['asked']
    assert json.loads((tmp_path / 'metrics.json').read_text())['asked'] == found
    rows, cases = (read(tmp_path / f'asked.{name}.jsonl') for name in ('predictions', 'cases'))
    assert len(rows) == found['questions'] == 16
    right = [case['answers'][0]['entity'] in case['gold'] for case in cases]
    assert right == [case['right'] for case in cases] == sorted(right)
    assert found['hits@1'] == pytest.approx(np.mean(right))
    by_id = lambda records: {record['id']: record['answers'] for record in records}
    assert by_id(cases) == by_id(rows)
    memory, vocab = Memory.open(world.memory), world.prepared.vocab
    pairs = {(vocab.names[a], vocab.names[b]) for a, b in zip(memory.topic, memory.target)}
    names = dict(zip(vocab.keys, vocab.names))
    for row, hops in zip(rows, [1] * 8 + [2] * 8):
        (trace,) = row['traces']
        assert row['hops'] == len(trace) == hops
        weights = [answer['weight'] for answer in row['answers']]
        assert weights == sorted(weights, reverse=True) and len(row['without_memory']) == 10
        for hop in trace:
            # A filter gives another order than the search.
            weights = [fact['weight'] for fact in hop['evidence']]
            assert weights == sorted(weights, reverse=True)
            assert 0 <= hop['null'] <= 1 + 1e-5 - sum(weights)
            assert names[hop['entities'][0]] == hop['evidence'][0]['target']
            assert {(fact['topic'], fact['target']) for fact in hop['evidence']} <= pairs


def test_entities_are_told_apart_by_direction_not_by_length(world):
    model = open_kb(world.root, **TEXT, model='lm', memory='memory')
    asked = read_questions(world.root / 'asked.jsonl', model.vocab)[:5]
    encoder, params, _, meta = model_config.load(world.root / 'lm')
    lengths = np.exp(np.random.default_rng(0).uniform(-2.3, 2.3, (len(model.vocab), 1)))
    longer = params | {'entity_table': params['entity_table'] * np.float32(lengths)}
    stage = objectives.AnswerQuestions.from_lineage(meta['lineage'])
    changed = TrainedKB(model.folder, world.prepared, encoder, longer, model.memory, stage)
    for one, other in zip(model.answer(asked), changed.answer(asked)):
        np.testing.assert_allclose(other.weights, one.weights, rtol=1e-4)
        np.testing.assert_array_equal(other.entities, one.entities)
    stage = objectives.Cloze(memory_dir=str(world.memory), **OPTIONS)
    task = stage.build(world.prepared, encoder, make_mesh(1))
    loss = jax.jit(lambda params: task.loss(params, task.source[0], task.memory, None)[0])
    assert loss(longer) == pytest.approx(float(loss(params)), rel=1e-4)


def test_models_and_memories_that_do_not_belong_together_are_refused(world, tmp_path):
    other = tiny_training.write_memory(world.folder, world.root / 'cloze', tmp_path / 'other')
    for parts, said in (
        (dict(model='eae', memory='memory'), 'was trained without a memory'),
        (dict(model='lm'), 'was trained with a memory'),
        (dict(model='entities', memory='memory'), 'holds no model that answers'),
        (dict(model='lm', memory=other), 'built with another encoder'),
    ):
        with pytest.raises(InputError, match=said):
            open_kb(world.root, **TEXT, **parts)
    cloze = functools.partial(objectives.Cloze, **OPTIONS)
    one_hop = objectives.AnswerQuestions(questions=str(world.root / 'asked.jsonl'), max_hops=1)
    lower = dataclasses.replace(cloze(memory_dir=str(world.memory)), entity_layer=0)
    for start, stage, said in (
        ('eae', cloze(memory_dir=str(other)), 'not built by the encoder that training starts from'),
        ('cloze', lower, 'has entity_layer=1, not 0'),
        ('entities', one_hop, 'has 2 hops, max_hops is 1'),
    ):
        with pytest.raises(InputError, match=said):
            world.run(tmp_path / 'new', stage, init_from=str(world.root / start))


def test_relations_stay_those_of_a_model_while_names_are_learnt(world, tmp_path):
    names = objectives.LinkNames(questions=str(world.root / 'asked.jsonl'), **OPTIONS)
    start = str(world.root / 'entities')
    _, before, _, _ = model_config.load(start)
    text = names.source(world.prepared)[0].texts[0].texts

    def changed(name, relations_of):
        stage = dataclasses.replace(names, relations_of=relations_of)
        told = world.run(tmp_path / name, stage, init_from=start, num_steps=40, learning_rate=1e-2)
        encoder, after, _, _ = model_config.load(tmp_path / name)
        layout = Layout(make_mesh(1), len(world.prepared.vocab))
        read = stage.model(encoder).encode(normalize_entity_table(after), layout, [text]).r[:, 0]
        places = text.tokens, text.r1[:, 0], text.r2
        relations = encoder.apply({'params': before['encoder']}, *places)
        squares = lambda x: (np.asarray(x, np.float64)[text.used[:, 0]] ** 2).sum()
        return squares(read - relations) / squares(relations), told

    kept, told = changed('kept', start)
    free, told_nothing = changed('free', None)
    assert 'relation_change' not in told_nothing and kept < free / 5
    total = told['L_el'] + told['L_el_inside'] + 10 * told['relation_change']
    assert told['loss'] == pytest.approx(total, rel=1e-5)
    stage = dataclasses.replace(names, relations_of='entities').located(KBFolder(world.root))
    assert stage.relations_of == start


def test_names_are_learnt_first(world, tmp_path, monkeypatch):
    asked = str(world.root / 'asked.jsonl')
    names = objectives.LinkNames(memory_dir=str(world.memory), questions=asked, **OPTIONS)
    encoder, params, _, _ = model_config.load(world.root / 'entities')
    given = names.init(encoder, params)
    flat = functools.partial(traverse_util.flatten_dict, sep='/')
    started = flat(names.fit_to_names(encoder, names.source(world.prepared), given))
    linking = {'entity_table', 'encoder/w_e/kernel', 'lm/w_f/kernel'}
    assert {name for name, x in flat(given).items() if (started[name] != x).any()} <= linking
    # W_f is of the states below the entity memory, W_e of the last ones.
    assert (started['lm/w_f/kernel'] != started['encoder/w_e/kernel']).any()

    told = world.run(tmp_path / 'names', names, init_from=str(world.root / 'entities'), num_steps=2)
    assert told['loss'] == pytest.approx(told['L_el'] + told['L_el_inside'], rel=1e-5)
    after = tiny_training.params_of(tmp_path / 'names')
    for name in linking:
        # Two steps from where linking begins, and not anywhere else.
        np.testing.assert_allclose(after[name], started[name], atol=0.1)
        assert (after[name] != started[name]).any()
    for name in ('encoder/w_r/kernel', 'follower/w_q', 'follower/w_t', 'lm/w_v', 'lm/r_null'):
        np.testing.assert_array_equal(after[name], started[name])
