"""OPQL-LM against a slow reference: what memory, null and hops do to an answer."""

import collections
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from opql_jax.models import losses
from opql_jax.models.mixing import Prediction, combine_topics, prediction_loss
from opql_jax.parallel.entity_table import Layout
from opql_jax.parallel.mesh import make_mesh

import eight_devices
import language_model_cases as cases
from language_model_cases import K, Setting


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def reference(setting: Setting, read, hops, passage=None, gold=None, exclude=None):
    """P [n, entities] and, per hop, {(text, topic): [(entry, beta), null]}, in float64."""
    own, topics, relations = (np.asarray(x, np.float64) for x in read[:3])
    f64 = lambda name: np.asarray(setting.params['follower'][name], np.float64)
    null, no_entity, w_v = (
        np.asarray(setting.params['lm'][name], np.float64) for name in ('r_null', 'e_null', 'w_v')
    )
    table, memory = (np.asarray(x, np.float64) for x in (setting.table, setting.relations))
    keys = np.concatenate([table[setting.topic], memory], axis=1) @ f64('w_k')
    model = setting.model
    link = lambda m: softmax(m @ table.T) @ table
    predictions, hop_traces = [], [{} for _ in range(hops)]
    for n in range(len(own)):
        drawn = []
        for t in np.flatnonzero(setting.text.used[n]):
            entity, alpha, origin = link(topics[n, t]), np.ones(len(table)), -1
            for hop in range(hops):
                q = np.concatenate([entity, relations[n, t] @ f64('w_t')[hop]]) @ f64('w_q')
                scores = keys @ q
                barred = np.zeros(len(scores), bool)
                if passage is not None and passage[n] >= 0:
                    barred = (setting.passages == passage[n]).any(axis=1)
                if exclude is not None:
                    barred = barred | np.isin(setting.target, exclude[n])
                barred = barred | (alpha[setting.topic] == 0) | (setting.target == origin)
                order = np.argsort(np.where(barred, np.inf, -scores), kind='stable')
                best = order[: min(K, (~barred).sum())].tolist()
                if gold is not None and hop == hops - 1:
                    new = lambda g: g >= 0 and g not in best and alpha[setting.topic[g]]
                    best += [g for g in gold[n, t] if new(g)]
                of_null = entity if model.null_entity else no_entity
                k_null = np.concatenate([of_null, null]) @ f64('w_k')
                scores = scores + np.log(alpha + 1e-300)[setting.topic]
                logits = np.append(k_null @ q if model.own_prediction else -np.inf, scores[best])
                p = softmax(logits)
                found = p[1:] @ table[setting.target[best]]
                fading = 1 if model.mixing == 'embeddings' else p[0]
                entity = found + (fading * link(own[n]) if model.own_prediction else 0)
                hop_traces[hop][n, int(t)] = dict(zip(best, p[1:])), p[0]
                share = lambda column: np.bincount(column[best], p[1:] / p[1:].sum(), len(table))
                if model.filter:
                    alpha = share(setting.target)
                if model.exclude_topic and not hop:
                    origin = share(setting.topic).argmax()
            by_target = collections.Counter()
            for entry, beta in zip(best, p[1:]):
                by_target[int(setting.target[entry])] += beta
            drawn.append((by_target, p[0]))
        vector = own[n] if model.own_prediction else 0 * own[n]
        if model.mixing == 'embeddings':
            mean = lambda masses: sum(mass * table[target] for target, mass in masses.items())
            e_y = sum((mean(masses) for masses, _ in drawn), np.zeros(table.shape[1]))
            predictions.append(softmax((vector + e_y @ w_v) @ table.T))
        else:
            masses, nothing = cases.combined(drawn)
            predictions.append(nothing * softmax(vector @ table.T))
            for target, mass in masses.items():
                predictions[-1][target] += mass
    return np.array(predictions), hop_traces


def check_prediction(found, expected, several=True):
    """The probabilities of all entities, their ranking, and loss and accuracy are those of the
    distributions [texts, entities].

    Args:
        found: of the model.
        expected: of the reference.
        several: loss and accuracy are of all answers, not of the label.
    """
    np.testing.assert_allclose(found['prediction'], expected, rtol=2e-4, atol=2e-6)
    entities, probabilities = found['best']
    np.testing.assert_array_equal(probabilities, -np.sort(-found['prediction'], axis=1)[:, :3])
    chosen = np.take_along_axis(found['prediction'], entities, axis=1)
    np.testing.assert_array_equal(chosen, probabilities)
    labelled = np.flatnonzero(cases.LABELS >= 0)
    others = cases.ANSWERS if several else cases.LABELS[:, None]
    right = {n: sorted({int(cases.LABELS[n]), *others[n].tolist()} - {-1}) for n in labelled}
    mass = np.array([expected[n, right[n]].sum() for n in labelled])
    assert found['loss'] == pytest.approx(-np.log(mass[mass > 0]).mean(), rel=1e-4)
    hits = [expected[n].argmax() in right[n] for n in labelled]
    assert found['accuracy'] == pytest.approx(np.mean(hits))


# Each setting of the model at least once, and those that meet in one computation together.
@pytest.mark.parametrize(
    ('hops', 'options'),
    [
        (2, {}),
        (2, {'own_prediction': False, 'exclude_topic': True}),
        (2, {'mixing': 'embeddings', 'filter': True}),
        (2, {'mixing': 'embeddings', 'own_prediction': False, 'entity_layer': 1}),
        (2, {'null_entity': False, 'filter': True, 'exclude_topic': True}),
    ],
    ids=str,
)
def test_predictions_and_traces_are_those_of_the_reference(hops, options):
    setting = cases.make(**options)
    found = cases.run(setting, make_mesh(1), hops)
    expected, traces = reference(setting, found['read'], hops)
    check_prediction(found, expected, setting.model.mixing == 'distributions')
    for hop, trace in enumerate(traces):
        for (n, t), (entries, null) in trace.items():
            row = n * cases.TOPICS + t
            probs = np.exp(found['log_probs'][hop][row])
            assert dict(zip(found['entries'][hop][row].tolist(), probs[1:])) == pytest.approx(
                entries, rel=2e-4, abs=1e-6
            )
            assert probs[0] == pytest.approx(null, rel=2e-4, abs=1e-6)


def test_in_training_the_passage_is_barred_and_gold_entries_are_scored():
    setting = cases.make()
    found, text = cases.run(setting, make_mesh(1), 1, train=True), setting.text
    given = dict(passage=text.passage, gold=text.gold, exclude=text.exclude)
    expected, traces = reference(setting, found['read'], 1, **given)
    check_prediction(found, expected)
    assert (text.passage >= 0).any() and (text.exclude >= 0).any()
    for (n, t), (entries, _) in traces[0].items():
        assert set(text.gold[n, t].tolist()) - {-1} <= set(entries)


@pytest.fixture(scope='module')
def on_devices(binaries, tmp_path_factory):
    path = tmp_path_factory.mktemp('lm') / 'found.npz'
    eight_devices.run(binaries, 'language_model_cases.py', path)
    with np.load(path) as found:
        return dict(found)


@pytest.mark.parametrize('devices', cases.MESHES)
def test_devices_agree_on_predictions_retrievals_and_gradients(on_devices, devices):
    names = [name.removeprefix('1/') for name in on_devices if name.startswith('1/')]
    compared = 'prediction', 'entries', 'gradient/entity_table'
    assert {f'distributions/{name}' for name in compared} <= set(names)
    assert on_devices['1/embeddings/gradient/lm/w_v'].any()
    for name in names:
        expected = on_devices[f'1/{name}']
        if name.endswith('entries'):
            np.testing.assert_array_equal(on_devices[f'{devices}/{name}'], expected)
        # Sums in another order: of gradients the large terms leave their rounding in the small
        # sums.
        else:
            near = dict(rtol=1e-3, atol=1e-5 * np.abs(expected).max(), err_msg=name)
            np.testing.assert_allclose(on_devices[f'{devices}/{name}'], expected, **near)


def test_without_a_memory_a_prediction_is_the_models_own():
    setting = cases.make()
    out = cases.run(setting, make_mesh(1), 1, memory=False)
    own = np.asarray(out['read'][0], np.float64)
    check_prediction(out, softmax(own @ setting.table.T.astype(np.float64)), several=False)
    assert not len(out['entries'])


def test_retrieval_loss_prefers_answers_and_null_where_there_is_none():
    rows = [[0.1, 0.6, 0.3], [0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.3, 0.3, 0.4]]
    log_probs = np.log(np.array(rows, np.float32))
    targets = np.array([[4, 5], [4, 4], [6, -1], [5, 9]], np.int32)
    answers = np.array([[5, 7], [9, -1]], np.int32)
    used = np.array([[True, True], [True, True]])
    absent = np.array([[False, True], [False, False]])
    loss, metrics = losses.retrieval_loss(log_probs, targets, answers, used, absent, 2)
    # Topic 1: entry 2 leads to an answer. Topic 2: null is right. Topic 3: nothing found leads
    # to one. Topic 4: entry 2 does.
    assert loss == pytest.approx(-(np.log(0.3) + np.log(0.7) + np.log(0.4)) / 3, rel=1e-5)
    assert metrics['reachable'] == pytest.approx(3 / 4)
    assert metrics['retrieval_accuracy'] == pytest.approx(2 / 3)
    assert metrics['null_absent'] == pytest.approx(0.7)
    assert metrics['null_present'] == pytest.approx((0.1 + 0.3) / 2)
    loss_of = lambda x: losses.retrieval_loss(x, targets, answers, used, absent, 2)[0]
    gradient = jax.grad(loss_of)(log_probs)
    assert np.isfinite(gradient).all() and not gradient[2].any()
    # Were only the first entry found and the other gold, the loss would be the same and topics 1
    # and 4 not reached.
    same, fewer = losses.retrieval_loss(log_probs, targets, answers, used, absent, 1)
    assert same == loss and fewer['reachable'] == pytest.approx(1 / 4)


def test_gradients_of_the_mixed_prediction_are_those_of_its_written_out_distribution():
    """-log of the mass of all answers, with its gradients to the vector, to lambda, beta and E."""
    rng = np.random.default_rng(0)
    layout = Layout(make_mesh(1), cases.ENTITIES)
    used = np.array([[True, True], [True, False], [False, False]])
    shapes = (3, 8), (cases.ENTITIES, 8), (3, 2, 5)
    vector, table, logits = (rng.normal(size=shape).astype(np.float32) for shape in shapes)
    targets = rng.integers(0, cases.ENTITIES, (3, 2, 4)).astype(np.int32)
    labels, answers = np.array([4, 0, 9], np.int32), np.array([[4, 7], [3, -1], [-1, -1]], np.int32)
    right = [[4, 7], [0, 3], [9]]

    def mixed(vector, logits, table):
        log_probs, found = combine_topics(jax.nn.log_softmax(logits), targets, used)
        prediction = Prediction(vector, log_probs[:, 0], log_probs[:, 1:], found)
        return prediction_loss(prediction, labels, answers, table, layout)[0]

    def dense(vector, logits, table):
        log_probs, flat = combine_topics(jax.nn.log_softmax(logits), targets, used)
        own = jnp.exp(log_probs[:, :1]) * jax.nn.softmax(vector @ table.T)
        ends = jax.nn.one_hot(flat, cases.ENTITIES)
        found = jnp.einsum('nk,nky->ny', jnp.exp(log_probs[:, 1:]), ends)
        masses = [(own + found)[n, jnp.array(r)].sum() for n, r in enumerate(right)]
        return -jnp.log(jnp.stack(masses)).mean()

    graded = lambda f: jax.jit(jax.value_and_grad(f, argnums=(0, 1, 2)))(vector, logits, table)
    got, wanted = map(graded, (mixed, dense))
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6), got, wanted)
    assert all(np.abs(gradient).max() > 1e-3 for gradient in got[1])
    assert np.abs(got[1][1][:, :, 0]).max() > 1e-3


def test_combining_topics_that_all_but_exclude_each_other_has_a_gradient():
    # Masses that a float32 cannot hold, and topics without null that found nothing in common.
    log_probs = np.array([[[-1e30, 0, -200], [-1e30, -200, 0]]], np.float32)
    targets, used = np.array([[[4, 5], [6, 5]]], np.int32), np.ones((1, 2), bool)
    right = lambda x: combine_topics(x, targets, used)[0][0, 1 + 2]  # target 5 by topic 1
    value, gradient = jax.value_and_grad(right)(log_probs)
    assert np.isfinite(value) and np.isfinite(gradient).all() and gradient[0, 0, 2] > 0.1
