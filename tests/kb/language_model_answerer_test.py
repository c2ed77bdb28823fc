"""Training a language model and asking it, from a prepared folder to predictions with traces; and
what is refused.
"""

import dataclasses
import functools
import itertools
import json
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from damage import edit
from flax import traverse_util

from opql_jax.core.errors import InputError
from opql_jax.corpus.questions import read_questions, write_questions
from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.prepared import Prepared
from opql_jax.kb.open_kb import open_kb
from opql_jax.kb.trained.question_sets import evaluate as evaluate_sets
from opql_jax.kb.trained.trained_kb import TrainedKB
from opql_jax.memory import ann_build
from opql_jax.memory.format import Memory
from opql_jax.models.language_model import normalize_entity_table
from opql_jax.parallel.entity_table import Layout
from opql_jax.parallel.mesh import make_mesh
from opql_jax.training import model_config, objectives
from opql_jax.training.checkpoints import CheckpointError

import tiny_training
from ann_memories import with_scann

encoder = functools.partial(tiny_training.encoder, num_layers=2)
OPTIONS = dict(rows=16, k=4, entity_layer=1)
TEXT = dict(text='prepared')


@pytest.fixture(scope='module')
def world(tmp_path_factory):
    """A language model pretrained and finetuned for a few steps over a memory, and one without a
    memory.
    """
    root = tmp_path_factory.mktemp('world')
    folder = tiny_training.write_prepared(root / 'prepared')
    prepared = Prepared(folder)
    start = tiny_training.run(folder, root / 'entities', encoder=encoder, num_steps=2)
    assert start
    memory = tiny_training.write_memory(folder, root / 'entities', root / 'memory')
    asked = [q for hops in (1, 2) for q in prepared.questions(f'{hops}-hop/train')[:8]]
    records = [
        {
            'id': q.id,
            'question': q.text,
            'topics': [list(q.topic)],
            'entities': [prepared.vocab.keys[q.topic_entity]],
            'answers': [prepared.vocab.keys[a] for a in q.answers] or ['Nobody'],
            'hops': q.hops,
        }
        for q in asked
    ]
    write_questions(root / 'asked.jsonl', records)
    run = functools.partial(tiny_training.run, folder, encoder=encoder)
    cloze = objectives.Cloze(memory_dir=str(memory), **OPTIONS)
    run(root / 'cloze', cloze, init_from=str(root / 'entities'))
    asking = objectives.AnswerQuestions(
        memory_dir=str(memory),
        questions=str(root / 'asked.jsonl'),
        text_rows=8,
        name_rows=8,
        filter=True,
        **OPTIONS,
    )
    told = run(root / 'lm', asking, init_from=str(root / 'cloze'))
    run(root / 'eae', objectives.Cloze(**OPTIONS), init_from=str(root / 'entities'))
    return types.SimpleNamespace(
        root=root, folder=folder, prepared=prepared, memory=memory, run=run, told=told
    )


def evaluate(world, model, memory, output, **options):
    return evaluate_sets(
        kb=str(world.root),
        **TEXT,
        model=model,
        memory=memory,
        questions=(str(world.root / 'asked.jsonl'),),
        output_dir=str(output),
        **options,
    )['asked']


def test_predictions_tell_what_was_read_and_metrics_follow_from_them(world, tmp_path):
    found = evaluate(world, 'lm', 'memory', tmp_path)
    assert json.loads((tmp_path / 'metrics.json').read_text())['asked'] == found
    rows = [
        json.loads(line) for line in (tmp_path / 'asked.predictions.jsonl').read_text().splitlines()
    ]
    assert len(rows) == found['questions'] == 16
    cases = [json.loads(line) for line in (tmp_path / 'asked.cases.jsonl').read_text().splitlines()]
    right = [case['answers'][0]['entity'] in case['gold'] for case in cases]
    assert right == [case['right'] for case in cases] == sorted(right)
    assert found['hits@1'] == pytest.approx(np.mean(right))
    assert {case['id']: case['answers'] for case in cases} == {
        row['id']: row['answers'] for row in rows
    }
    pairs = {
        (world.prepared.vocab.names[int(a)], world.prepared.vocab.names[int(b)])
        for a, b in pairs_of(world.memory)
    }
    names = dict(zip(world.prepared.vocab.keys, world.prepared.vocab.names))
    for row, hops in zip(rows, [1] * 8 + [2] * 8):
        (trace,) = row['traces']
        assert row['hops'] == len(trace) == hops
        weights = [answer['weight'] for answer in row['answers']]
        assert weights == sorted(weights, reverse=True) and len(row['without_memory']) == 10
        for hop in trace:
            # A filter gives another order than the search.
            weights = [fact['weight'] for fact in hop['evidence']]
            assert weights == sorted(weights, reverse=True)
            assert 0 <= hop['null']
            assert hop['null'] + sum(weights) <= 1 + 1e-5
            assert names[hop['entities'][0]] == hop['evidence'][0]['target']
            assert {(fact['topic'], fact['target']) for fact in hop['evidence']} <= pairs


@with_scann
@pytest.mark.parametrize('name', ['cloze', 'lm'])
def test_an_index_finds_what_a_search_of_the_memory_finds(world, tmp_path, monkeypatch, name):
    monkeypatch.setattr(ann_build, 'MIN_ENTRIES', 100)
    monkeypatch.setattr(ann_build, 'NUM_QUERIES', 64)
    model = {**TEXT, 'model': name, 'memory': 'memory'}
    kb = open_kb(world.root, **model)
    built = ann_build.build_index(tmp_path / 'index', kb.memory, kb.entity_table, k=16, recall=0.9)
    # Of a model that was hardly trained the queries are far from all entries: it looks everywhere.
    edit(tmp_path / 'index', leaves=built.manifest.num_leaves, depth=16 * len(kb.memory))
    by_index = open_kb(world.root, **model, index=tmp_path / 'index')
    asked = read_questions(world.root / 'asked.jsonl', kb.vocab)
    for whole, found in zip(kb.answer(asked), by_index.answer(asked)):
        hops = zip(itertools.chain(*whole.traces), itertools.chain(*found.traces), strict=True)
        assert all(np.array_equal(a.entries, b.entries) for a, b in hops)
    assert kb.identity != by_index.identity


def pairs_of(directory):
    memory = Memory.open(directory)
    return zip(memory.topic, memory.target)


def test_entities_are_told_apart_by_direction_not_by_length(world):
    """With lengths of E that differ a hundredfold answers and losses are the same, and a sure
    retrieval is the answer.
    """
    model = open_kb(world.root, **TEXT, model='lm', memory='memory')
    asked = read_questions(world.root / 'asked.jsonl', model.vocab)[:5]
    encoder, params, _, meta = model_config.load(world.root / 'lm')
    lengths = np.exp(np.random.default_rng(0).uniform(-2.3, 2.3, (len(model.vocab), 1))).astype(
        np.float32
    )
    longer = params | {'entity_table': params['entity_table'] * lengths}
    stage = objectives.AnswerQuestions.from_lineage(meta['lineage'])
    changed = TrainedKB(model.folder, world.prepared, encoder, longer, model.memory, stage)
    for one, other in zip(model.answer(asked), changed.answer(asked)):
        np.testing.assert_allclose(other.weights, one.weights, rtol=1e-4)
        np.testing.assert_array_equal(other.entities, one.entities)

    task = objectives.Cloze(memory_dir=str(world.memory), **OPTIONS).build(
        world.prepared, encoder, make_mesh(1)
    )
    loss = lambda params: task.loss(params, task.source[0], task.memory, None)[0]
    assert loss(longer) == pytest.approx(float(loss(params)), rel=1e-4)

    table = normalize_entity_table(longer)['entity_table']
    np.testing.assert_array_equal(np.argmax(table @ table.T, axis=1), np.arange(len(table)))
    gradient = jax.grad(lambda params: normalize_entity_table(params)['entity_table'].sum())(
        {'entity_table': np.zeros((2, 3), np.float32)}
    )
    assert np.isfinite(gradient['entity_table']).all()


def test_settings_that_a_language_model_does_not_have_are_refused(world):
    with pytest.raises(
        InputError, match='filter: .*cloze was trained by Cloze, which has no such setting'
    ):
        open_kb(world.root, **TEXT, model='cloze', memory='memory', filter=True)
    assert open_kb(world.root, **TEXT, model='lm', memory='memory', k=2).identity


def test_a_model_without_a_memory_answers_by_itself(world, tmp_path):
    found = evaluate(world, 'eae', None, tmp_path)
    assert 'retrieval_accuracy' not in found and found['questions'] == 16
    row = json.loads((tmp_path / 'asked.predictions.jsonl').read_text().splitlines()[0])
    assert row['traces'] == []
    assert [answer['entity'] for answer in row['answers']] == row['without_memory']


def test_models_and_memories_that_do_not_belong_together_are_refused(world, tmp_path):
    with pytest.raises(CheckpointError, match='was trained without a memory: name none'):
        open_kb(world.root, **TEXT, model='eae', memory='memory')
    with pytest.raises(CheckpointError, match='was trained with a memory: name one'):
        open_kb(world.root, **TEXT, model='lm')
    with pytest.raises(CheckpointError, match='holds no model that answers questions'):
        open_kb(world.root, **TEXT, model='entities', memory='memory')
    other = tiny_training.write_memory(world.folder, world.root / 'cloze', tmp_path / 'other')
    with pytest.raises(CheckpointError, match='built with another encoder'):
        open_kb(world.root, **TEXT, model='lm', memory=other)
    with pytest.raises(
        CheckpointError, match='was not built by the encoder that training starts from'
    ):
        stage = objectives.Cloze(memory_dir=str(other), **OPTIONS)
        world.run(tmp_path / 'new', stage, init_from=str(world.root / 'eae'))
    with pytest.raises(
        CheckpointError, match='starts from has entity_layer=1, not 0: give the same'
    ):
        stage = objectives.Cloze(memory_dir=str(world.memory), **{**OPTIONS, 'entity_layer': 0})
        world.run(tmp_path / 'new', stage, init_from=str(world.root / 'cloze'))
    with pytest.raises(InputError, match='has 2 hops, max_hops is 1'):
        asked = str(world.root / 'asked.jsonl')
        world.run(
            tmp_path / 'new',
            objectives.AnswerQuestions(questions=asked, max_hops=1),
            init_from=str(world.root / 'entities'),
        )
    with pytest.raises(InputError, match='own_prediction=False takes every answer from a memory'):
        world.run(
            tmp_path / 'new',
            objectives.Cloze(own_prediction=False),
            init_from=str(world.root / 'entities'),
        )


def test_relations_stay_those_of_a_model_while_names_are_learnt(world, tmp_path):
    names = objectives.LinkNames(questions=str(world.root / 'asked.jsonl'), **OPTIONS)
    start = str(world.root / 'entities')
    _, before, _, _ = model_config.load(start)
    text = names.source(world.prepared)[0].texts[0].texts

    def changed(name, relations_of):
        """How far the relations of some questions are from those of the start after training, and
        what it told of that.
        """
        stage = dataclasses.replace(names, relations_of=relations_of)
        told = world.run(tmp_path / name, stage, init_from=start, num_steps=40, learning_rate=1e-2)
        encoder, after, _, _ = model_config.load(tmp_path / name)
        layout = Layout(make_mesh(1), len(world.prepared.vocab))
        read = stage.model(encoder).encode(normalize_entity_table(after), layout, [text]).r[:, 0]
        relations = encoder.apply(
            {'params': before['encoder']}, text.tokens, text.r1[:, 0], text.r2
        )
        difference = np.asarray(read - relations, np.float64)[text.used[:, 0]]
        return (difference**2).sum() / (
            np.asarray(relations, np.float64)[text.used[:, 0]] ** 2
        ).sum(), told

    kept, told = changed('kept', start)
    free, told_nothing = changed('free', None)
    assert 'relation_change' not in told_nothing and kept < free / 5
    assert told['loss'] == pytest.approx(
        told['L_el'] + told['L_el_inside'] + 10 * told['relation_change'], rel=1e-5
    )
    with pytest.raises(InputError, match='absent is not a model'):
        changed('none', str(tmp_path / 'absent'))
    with pytest.raises(InputError, match='cloze is a language model'):
        changed('cloze', str(world.root / 'cloze'))
    with pytest.raises(InputError, match='has relations of 8 numbers, the model of 4'):
        stage = dataclasses.replace(names, relations_of=start)
        stage.build(world.prepared, model_config.load(start)[0].clone(relation_dim=4), make_mesh(1))
    assert (
        dataclasses.replace(names, relations_of='entities')
        .located(KBFolder(world.root))
        .relations_of
        == start
    )


def test_names_are_learnt_first(world, tmp_path, monkeypatch):
    """Linking begins with what the encoder reads in names; only linking is trained; and what asks
    the memory goes on from it.
    """
    asked = str(world.root / 'asked.jsonl')
    names = objectives.LinkNames(memory_dir=str(world.memory), questions=asked, **OPTIONS)
    encoder, params, _, _ = model_config.load(world.root / 'entities')
    given = names.init(encoder, params)
    assert (given['follower']['w_q'] == np.eye(16)).all()
    trained = jax.tree.map(jnp.ones_like, given['lm']['w_b'])
    started = names.fit_to_names(
        encoder, names.source(world.prepared), {**given, 'lm': {**given['lm'], 'w_b': trained}}
    )
    flat = functools.partial(traverse_util.flatten_dict, sep='/')
    assert {
        name
        for name, value in flat(started).items()
        if not np.array_equal(value, flat(given)[name])
    } == {
        'entity_table',
        'encoder/w_e/kernel',
        'lm/w_f/kernel',
    }

    def linked(params):
        """How many names of a batch are linked, by L_el's mentions and inside."""
        batch = dataclasses.replace(names, rows=len(world.prepared.vocab)).source(
            world.prepared, seed=1
        )[0]
        _, metrics = names.names_loss(
            encoder,
            Layout(make_mesh(1), len(world.prepared.vocab)),
            None,
            params,
            batch,
            None,
            None,
        )
        return metrics['L_el_accuracy'], metrics['L_el_inside_accuracy']

    told = world.run(tmp_path / 'names', names, init_from=str(world.root / 'entities'))
    assert told['loss'] == pytest.approx(told['L_el'] + told['L_el_inside'], rel=1e-5)
    after = tiny_training.params_of(tmp_path / 'names')
    for name in ('entity_table', 'encoder/w_e/kernel', 'lm/w_f/kernel'):
        # A few steps from where linking begins, and not anywhere else.
        np.testing.assert_allclose(after[name], flat(started)[name], atol=0.1)
        assert (after[name] != flat(started)[name]).any()
    # It was done.
    assert world.run(tmp_path / 'names', names, init_from=str(world.root / 'entities')) == {}
    for name in ('encoder/w_r/kernel', 'follower/w_q', 'follower/w_t', 'lm/w_v', 'lm/r_null'):
        np.testing.assert_array_equal(after[name], flat(started)[name])
    stage = objectives.Cloze(memory_dir=str(world.memory), **OPTIONS)
    world.run(tmp_path / 'lm', stage, init_from=str(tmp_path / 'names'), num_steps=1)


def first_loss(world, stage):
    """The metrics of the first batch without dropout, and the task."""
    encoder, params, _, _ = model_config.load(world.root / 'entities')
    task = stage.build(world.prepared, encoder, make_mesh(1))
    params = task.init(params)
    memory = task.refresh(task.memory, params) if task.refresh else task.memory
    return jax.device_get(
        jax.jit(lambda params: task.loss(params, task.source[0], memory, None)[1])(params)
    ), task


def test_where_embeddings_are_mixed_each_topic_of_a_question_learns_to_retrieve(world, tmp_path):
    asking = objectives.AnswerQuestions(
        memory_dir=str(world.memory),
        questions=str(world.root / 'asked.jsonl'),
        text_rows=0,
        mixing='embeddings',
        **OPTIONS,
    )
    told, task = first_loss(world, asking)
    assert told['L_re_1hop'] > 0.1 and told['reachable_1hop'] > 0
    trained = [name for name in ('lm/w_v', 'lm/e_null', 'lm/r_null') if task.trainable(name)]
    assert trained == ['lm/w_v', 'lm/r_null']
    assert not dataclasses.replace(asking, mixing='distributions').trainable('lm/w_v')
    assert dataclasses.replace(asking, null_entity=False).trainable('lm/e_null')
    with pytest.raises(
        CheckpointError, match="has mixing='distributions', not 'embeddings': give the same"
    ):
        world.run(tmp_path / 'new', asking, init_from=str(world.root / 'cloze'))
