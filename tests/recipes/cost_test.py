"""The FLOPs from which a dry run tells hours are those of the losses, by XLA's own count."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from opql_jax.core.errors import InputError
from opql_jax.data.lm_markup import TextBucket, Texts
from opql_jax.data.sources.cloze import ClozeBatch
from opql_jax.memory.sharding import shard_memory
from opql_jax.models.encoder import init_params
from opql_jax.parallel.entity_table import Layout
from opql_jax.parallel.mesh import make_mesh
from opql_jax.recipes import cost
from opql_jax.training.objectives import Cloze

import tiny_encoder

ENTITIES, ENTRIES, ROWS, TOKENS, SOME = 3000, 2000, 16, 32, 4
ENCODER = tiny_encoder.make(**tiny_encoder.WIDER, max_length=TOKENS, entity_dim=64)


def counted(objective, batch, memory=None) -> float:
    loss = functools.partial(objective.loss, ENCODER, Layout(make_mesh(), ENTITIES))
    params = init_params(ENCODER, ENTITIES, 0)
    if hasattr(objective, 'model'):
        params = objective.init(ENCODER, params)
    step = jax.value_and_grad(lambda params: loss(params, batch, memory, None)[0])
    return jax.jit(step).lower(params).cost_analysis()['flops']


def filled(value, *shape, dtype=np.int32):
    return np.full((ROWS, *shape), value, dtype)


@pytest.mark.parametrize('has_memory', [True, False])
def test_the_language_model(has_memory):
    of_topics = lambda value, *more, dtype=np.int32: filled(value, SOME, *more, dtype=dtype)
    words = dict(tokens=filled(9, TOKENS), r2=filled(9), passage=filled(0))
    places = dict(start=of_topics(3), r1=of_topics(4), gold=of_topics(-1, 4))
    texts = Texts(**words, **places, used=of_topics(True, dtype=bool))
    asked = dict(topic=of_topics(1), absent=of_topics(False, dtype=bool), label=filled(2))
    bucket = TextBucket(texts, **asked, answers=filled(2, 1), left_out=filled(0))
    topic, target = np.random.default_rng(0).integers(0, ENTITIES, (2, ENTRIES)).astype(np.int32)
    relations = jnp.ones((ENTRIES, ENCODER.relation_dim))
    how = dict(mode='approx', passages=np.full((ENTRIES, 1), -1, np.int32))
    memory = shard_memory(np.sort(topic), target, relations, make_mesh(), **how)
    given = {'memory_dir': 'memory', 'mode': 'approx'} if has_memory else {}
    given |= dict(entity_layer=1, mixing='embeddings', score_gold=False)
    batch, objective = ClozeBatch((bucket,)), Cloze(rows=ROWS, topics=SOME, **given)
    told = cost.of_language_model(ROWS, TOKENS, SOME)
    assert told.flops(ENCODER, ENTITIES, ENTRIES if has_memory else 0) == pytest.approx(
        counted(objective, batch, memory if has_memory else None), rel=0.1
    )


def test_a_price_replaces_that_of_the_list_and_unknown_machines_are_told():
    assert cost.with_prices(['v5e-16=0.5'])['v5e-16'].dollars == 0.5
    assert cost.with_prices([]) == cost.MACHINES
    for wrong in ('v5e-16', 'v5e-16=0', 'v5e-16=cheap', 'v9=1', 'v5e-16=-1', 'v5e-16=nan'):
        with pytest.raises(InputError, match='give dollars of a device-hour of one of v5e-16'):
            cost.with_prices([wrong])
