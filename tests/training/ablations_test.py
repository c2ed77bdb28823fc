"""What the ablations of a follower leave out is left out where it answers, too."""

import jax
import pytest

from opql_jax.data.prepared import Prepared
from opql_jax.kb.open_kb import open_kb
from opql_jax.parallel.mesh import make_mesh
from opql_jax.training import objectives
from opql_jax.training.progress import TrainingError
from opql_jax.training.state import init_params

import tiny_training


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    """(text, an untrained model, its memory) over the generated corpus."""
    kb = tiny_training.write_world(tmp_path_factory.mktemp('trained'))
    return kb / 'text', kb / 'align', kb / 'memory'


def make_follow(memory, **option):
    return objectives.Follow(
        memory_dir=str(memory), splits=('2-hop/train',), questions=8, k=8, **option
    )


@pytest.mark.parametrize('option', [{'filter': False}, {'weigh_topics': False}], ids=str)
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
        task = objectives.Relations(rows=16, entity_weight=weight).build(
            prepared, encoder, make_mesh(1)
        )
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
