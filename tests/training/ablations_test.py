"""What the ablations of a follower leave out is left out where it answers, too."""

import pytest

from opql_jax.kb.open_kb import open_kb
from opql_jax.training import objectives
from opql_jax.training.progress import TrainingError

import tiny_training


@pytest.mark.parametrize('option', [{'filter': False}, {'weigh_topics': False}], ids=str)
def test_an_ablated_follower_answers_as_it_was_trained(world, tmp_path, option):
    own = dict(memory_dir=str(world / 'memory'), splits=('2-hop/train',), questions=8, k=8)
    ablated = objectives.Follow(**own, **option)
    follower = tiny_training.write_untrained(
        world / 'text', tmp_path / 'follow', ablated, spread=8.0
    )
    kb = open_kb(world, model=follower)
    has_filter = option.get('filter', True)
    questions = kb.prepared.questions('2-hop/dev')[:10]
    first_hops = lambda kb: [answer.hops[0].entries.tolist() for answer in kb.answer(questions)]
    for question, answer in zip(questions, kb.answer(questions)):
        assert len(answer.entities) and question.topic_entity not in answer.entities
    filtered = open_kb(world, model=follower, filter=True)
    assert (filtered.identity == kb.identity) == has_filter
    assert (first_hops(filtered) == first_hops(kb)) == has_filter
    with pytest.raises(TrainingError, match=f'{next(iter(option))} was'):
        tiny_training.run(world / 'text', follower, objectives.Follow(**own))
