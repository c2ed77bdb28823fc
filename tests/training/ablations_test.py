"""What the ablations of a follower leave out is left out: the filter, a W_t per hop."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from opql_jax.data.prepared import Prepared
from opql_jax.kb.open_kb import open_kb
from opql_jax.memory.sharding import shard_memory
from opql_jax.models.follower import Follower, follow_loss
from opql_jax.parallel import mesh as mesh_lib
from opql_jax.training import objectives
from opql_jax.training.progress import TrainingError
from opql_jax.training.state import init_params

import tiny_training

D_E, D_R, ENTITIES, ROWS, K = 5, 7, 12, 90, 6
MESH = mesh_lib.make_mesh(1)


# Without filter.


@pytest.fixture(scope='module')
def world():
    """(topic, target, relations, E, relation of three questions, their topics, parameters): all
    random.
    """
    rng = np.random.default_rng(0)
    draw = lambda *shape: rng.normal(size=shape).astype(np.float32)
    topic = np.sort(rng.integers(0, ENTITIES, ROWS)).astype(np.int32)
    target = rng.integers(0, ENTITIES, ROWS).astype(np.int32)
    params = {
        name: np.eye(D_E + D_R, dtype=np.float32) + 0.2 * draw(D_E + D_R, D_E + D_R)
        for name in ('w_q', 'w_k')
    }
    params['w_t'] = np.eye(D_R, dtype=np.float32) + 0.2 * draw(3, D_R, D_R)
    return (
        topic,
        target,
        draw(ROWS, D_R),
        draw(ENTITIES, D_E),
        draw(3, D_R),
        np.array([2, 7, 5], np.int32),
        params,
    )


def brute_force(world, hops, exclude_topic, kept=None):
    """Every hop scores every row, in float64: per question and hop ([entries], {entity: weight}).

    Args:
        kept: the entries [question, hop, K] to take instead of the best, so that a gradient can be
            taken numerically.
    """
    topic, target, relations, table, asked, topics, params = (
        jax.tree.map(lambda x: np.asarray(x, np.float64), x) if i > 1 else np.asarray(x)
        for i, x in enumerate(world)
    )
    keys = np.concatenate([table[topic], relations], axis=1) @ params['w_k']
    found = []
    for number, (relation, start) in enumerate(zip(asked, topics.astype(int))):
        x, hops_found = {start: 1.0}, []
        for hop in range(hops):
            centroid = sum(weight * table[entity] for entity, weight in x.items())
            scores = keys @ (
                np.concatenate([centroid, relation @ params['w_t'][hop]]) @ params['w_q']
            )
            if exclude_topic:
                scores[target == start] = -np.inf
            entries = np.argsort(-scores, kind='stable')[:K] if kept is None else kept[number][hop]
            mass = np.exp(scores[entries] - scores[entries].max())
            x = {}
            for entry, beta in zip(entries, mass / mass.sum()):
                x[int(target[entry])] = x.get(int(target[entry]), 0.0) + beta
            hops_found.append((entries, x))
        found.append(hops_found)
    return found


@functools.partial(jax.jit, static_argnames=('hops', 'exclude_topic', 'shared_hops'))
def follow_all(params, relation, topics, table, memory, hops, exclude_topic, shared_hops=False):
    return Follower(relation_dim=D_R, entity_dim=D_E, shared_hops=shared_hops).apply(
        {'params': params},
        relation,
        topics,
        hops=hops,
        memory=memory,
        entity_table=table,
        k=K,
        exclude_topic=exclude_topic,
    )


def arguments(world):
    topic, target, relations, table, asked, topics, params = world
    return params, asked, topics, table, shard_memory(topic, target, relations, MESH)


@pytest.mark.parametrize('exclude_topic', [True, False])
def test_without_filter_a_hop_is_brute_force_over_all_rows(world, exclude_topic):
    topic, target = world[:2]
    hops = follow_all(*arguments(world), hops=3, exclude_topic=exclude_topic)
    elsewhere = returned = 0
    for i, (start, wanted) in enumerate(zip(world[5], brute_force(world, 3, exclude_topic))):
        x = {int(start)}
        for hop, (entries, weights) in zip(hops, wanted, strict=True):
            assert hop.entry_rows[i].tolist() == entries.tolist()
            got = {int(e): float(w) for e, w in zip(hop.entities[i], hop.weights[i]) if e >= 0}
            assert got == pytest.approx(weights, rel=1e-4, abs=1e-7)
            elsewhere += sum(int(t) not in x for t in topic[entries])
            returned += int(start) in got
            x = set(got)
    assert elsewhere  # the filter would have kept these out
    assert (returned == 0) == exclude_topic


def test_without_filter_the_last_hop_trains_all_hops(world):
    """Gradients against differences of the brute force, with the same entries kept."""
    params, *rest = arguments(world)
    found = brute_force(world, 2, False)
    kept = [[entries for entries, _ in hops] for hops in found]
    # Second best.
    answers = np.array([[sorted(hops[-1][1], key=hops[-1][1].get)[-2]] for hops in found])

    def loss(params):
        last = follow_all(params, *rest, hops=2, exclude_topic=False)[-1]
        return follow_loss(last.entities, last.weights, jnp.asarray(answers))[0]

    def slow_loss(params):
        found = brute_force((*world[:6], params), 2, False, kept)
        return np.mean(
            [-np.log(hops[-1][1][answer]) for hops, (answer,) in zip(found, answers.tolist())]
        )

    gradients = jax.jit(jax.grad(loss))(params)
    for name, place in (
        ('w_q', (1, 2)),
        ('w_q', (8, 9)),
        ('w_t', (0, 1, 2)),
        ('w_t', (1, 3, 3)),
        ('w_k', (2, 4)),
    ):
        moved = {}
        for sign in (1, -1):
            change = {key: np.array(value, np.float64) for key, value in params.items()}
            change[name][place] += sign * 1e-5
            moved[sign] = slow_loss(change)
        difference = (moved[1] - moved[-1]) / 2e-5
        assert float(gradients[name][place]) == pytest.approx(difference, rel=1e-3, abs=1e-5), (
            name,
            place,
        )
    assert all(np.abs(gradients['w_t'][hop]).max() > 1e-4 for hop in (0, 1))


def test_without_filter_an_unknown_topic_still_finds_nothing(world):
    params, asked, topics, table, memory = arguments(world)
    for hop in follow_all(
        params, asked, np.array([2, -1, 5], np.int32), table, memory, hops=2, exclude_topic=True
    ):
        assert (hop.entities[1] == -1).all() and (hop.entry_rows[1] == -1).all()
        assert (hop.weights[1] == 0).all() and (hop.beta[1] == 0).all()
        assert (hop.entities[0] >= 0).any()


# One W_t for all hops.


def test_one_w_t_serves_all_hops(world):
    params, *rest = arguments(world)
    follower = Follower(relation_dim=D_R, entity_dim=D_E, shared_hops=True)
    initial = follower.init(
        jax.random.key(0), world[4], np.zeros((3, D_E), np.float32), 0, method=follower.query
    )
    assert initial['params']['w_t'].shape == (1, D_R, D_R)
    run = functools.partial(follow_all, hops=3, exclude_topic=True)
    got = run({**params, 'w_t': params['w_t'][:1]}, *rest, shared_hops=True)
    wanted = run({**params, 'w_t': np.repeat(params['w_t'][:1], 3, axis=0)}, *rest)
    for one, repeated, own in zip(got, wanted, run(params, *rest)):
        np.testing.assert_array_equal(one.entry_rows, repeated.entry_rows)
        np.testing.assert_allclose(one.beta, repeated.beta, rtol=1e-6)
    # With a W_t for each hop the third one weighs differently.
    assert np.abs(one.beta - own.beta).max() > 1e-3


# From training to answers.


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    """(text, an untrained model, its memory) over the generated corpus."""
    kb = tiny_training.write_world(tmp_path_factory.mktemp('trained'))
    return kb / 'text', kb / 'align', kb / 'memory'


def make_follow(memory, **option):
    return objectives.Follow(
        memory_dir=str(memory), splits=('2-hop/train',), questions=8, k=8, **option
    )


@pytest.mark.parametrize(
    'option', [{'filter': False}, {'shared_hops': True}, {'weigh_topics': False}], ids=str
)
def test_an_ablated_follower_answers_as_it_was_trained(trained, tmp_path, option):
    prepared, _, memory = trained
    follower = tiny_training.write_untrained(
        prepared, tmp_path / 'follow', make_follow(memory, **option), spread=8.0
    )
    kb = open_kb(prepared.parent, model=follower)
    has_filter = option.get('filter', True)
    questions = kb.prepared.questions('2-hop/dev')[:10]
    first_hops = lambda kb: [answer.hops[0].entries.tolist() for answer in kb.answer(questions)]
    for question, steps in zip(questions, (answer.hops for answer in kb.answer(questions))):
        assert len(steps[-1].entities) and question.topic_entity not in steps[-1].entities
    filtered = open_kb(prepared.parent, model=follower, filter=True)
    assert (filtered.identity == kb.identity) == has_filter
    assert (first_hops(filtered) == first_hops(kb)) == has_filter
    with pytest.raises(TrainingError, match=f'{next(iter(option))} was'):
        tiny_training.run(prepared, follower, make_follow(memory))


def test_without_weight_the_entity_loss_costs_nothing(trained):
    prepared = Prepared(trained[0])
    encoder = tiny_training.encoder(vocab_size=prepared.tokenizer.get_vocab_size())
    params = init_params(encoder, len(prepared.vocab), seed=0)
    flops, metrics = {}, {}
    for weight in (0.0, 1.0):
        task = objectives.Relations(rows=16, entity_weight=weight).build(prepared, encoder, MESH)
        step = jax.jit(lambda params: task.loss(params, task.source[0], None, jax.random.key(0)))
        flops[weight] = step.lower(params).compile().cost_analysis()['flops']
        metrics[weight] = step(params)
    assert metrics[0.0][1].keys() == {'L_rel', 'relation_accuracy'}
    assert metrics[0.0][0] == metrics[0.0][1]['L_rel'] == metrics[1.0][1]['L_rel']
    assert metrics[1.0][0] == pytest.approx(
        float(metrics[1.0][1]['L_rel'] + metrics[1.0][1]['L_el']), rel=1e-6
    )
    context = 16 * objectives.Relations.max_context
    # Scores of every context mention with every entity are the least that the full loss has more.
    assert flops[1.0] - flops[0.0] > 2 * context * encoder.entity_dim * len(prepared.vocab)
