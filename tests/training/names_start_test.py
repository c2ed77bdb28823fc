"""What linking begins with: which states E, W_e and W_f are made of."""

import numpy as np
import pytest

from opql_jax.core.errors import InputError
from opql_jax.corpus.questions import write_questions
from opql_jax.data.prepared import Prepared
from opql_jax.models import entity_names
from opql_jax.models.encoder import init_params
from opql_jax.training import objectives
from opql_jax.training.objectives import lm_names

import tiny_training
from question_records import question_record


@pytest.mark.parametrize('entity_layer', [0, 1])
def test_e_and_w_e_are_of_the_last_states_and_w_f_of_those_below_the_entity_memory(
    tmp_path, monkeypatch, entity_layer
):
    prepared = Prepared(tiny_training.write_prepared(tmp_path / 'prepared'))
    asked = question_record('q', 'who saw [it]', 'Nobody')
    write_questions(tmp_path / 'asked.jsonl', [asked])
    names = objectives.LinkNames(questions=str(tmp_path / 'asked.jsonl'), entity_layer=entity_layer)
    encoder = tiny_training.encoder(vocab_size=prepared.tokenizer.get_vocab_size(), num_layers=2)
    given = names.init(encoder, init_params(encoder, len(prepared.vocab), 0))
    source = names.source(prepared)
    shape = 2, 2 * source.num_entities, encoder.hidden_size
    inside, top = np.float32(np.random.default_rng(0).standard_normal(shape))
    layers = []

    def read_names(encoder, params, tokens, start, num_lower, *more):
        layers.append(num_lower)
        return inside, top

    monkeypatch.setattr(lm_names, 'read_names', read_names)
    fitted = names.fit_to_names(encoder, source, given)
    read = np.tile(np.arange(source.num_entities), 2)
    table = entity_names.rows_of_states(top, read, source.num_entities, encoder.entity_dim)
    np.testing.assert_array_equal(fitted['entity_table'], table)
    reader = entity_names.linear_reader(top, table[read])
    np.testing.assert_array_equal(fitted['encoder']['w_e']['kernel'], reader)
    expected = given['lm']['w_f']['kernel']
    if entity_layer:
        expected = entity_names.linear_reader(inside, table[read])
    np.testing.assert_array_equal(fitted['lm']['w_f']['kernel'], expected)
    assert layers == [entity_layer]
    top[3] = np.nan
    with pytest.raises(InputError, match='is not finite'):
        names.fit_to_names(encoder, source, given)
