"""What the ablations of a follower leave out is left out where it answers, too."""

import pytest

from opql_jax.kb.open_kb import open_kb
from opql_jax.training import objectives
from opql_jax.training.progress import TrainingError

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
