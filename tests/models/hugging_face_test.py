"""An encoder written for transformers has the same states, tokens and relations there."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from opql_jax.data.tokenizer import special_ids, train_wordpiece
from opql_jax.models import hugging_face
from opql_jax.models.encoder import RelationEncoder
from opql_jax.models.modern_bert import ModernEncoder

TEXTS = ['the robot met the engineer in the old town'] * 3


def an_encoder(kind=RelationEncoder, **fields):
    tokenizer = train_wordpiece(TEXTS, 80)
    sizes = dict(hidden_size=8, num_layers=2, num_heads=2, mlp_size=12, max_length=20)
    sizes |= dict(relation_dim=6, entity_dim=3)
    encoder = kind(vocab_size=tokenizer.get_vocab_size(), **sizes | fields)
    one = jnp.ones((1, 2), jnp.int32)
    params = jax.jit(encoder.init)(jax.random.key(0), one, one[:, 0], one[:, 0])['params']
    rng = np.random.default_rng(0)
    params = jax.tree.map(lambda x: rng.normal(size=x.shape).astype(np.float32), params)
    return encoder, params, tokenizer


KINDS = [
    dict(layer_norm_epsilon=1e-12),
    dict(layer_norm_epsilon=0.1),
    dict(relative_buckets=32),
    dict(kind=ModernEncoder, local_window=3, global_every=2, global_theta=500.0, local_theta=30.0),
]


@pytest.mark.parametrize('kind', KINDS)
def test_transformers_gives_the_same_states_tokens_and_relations(transformers, tmp_path, kind):
    import torch

    encoder, params, tokenizer = an_encoder(**kind)
    hugging_face.write(tmp_path / 'bert', encoder, params, tokenizer, '# A card\n')
    their_tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / 'bert')
    model, said = transformers.AutoModel.from_pretrained(
        tmp_path / 'bert', output_loading_info=True, attn_implementation='eager'
    )
    assert not said['unexpected_keys']
    assert all(name.startswith('pooler.') for name in said['missing_keys'])

    texts = ['the [ENT] [R1] met the [ENT] [R2] in the old town', 'the robot']
    batch = their_tokenizer(texts, padding=True, return_tensors='pt')
    theirs = batch['input_ids'].numpy()
    special = special_ids(tokenizer)
    pad = model.config.pad_token_id
    tokens = np.select([theirs == 0, theirs == pad], [pad, 0], theirs)
    words = lambda text: tokenizer.encode(text, add_special_tokens=False).ids
    marked = [*words('the'), special.ent, special.r1, *words('met the'), special.ent, special.r2]
    marked += words('in the old town')
    assert tokens[0].tolist() == [special.cls, *marked, special.sep]
    plain = [special.cls, *words('the robot'), special.sep]
    assert tokens[1].tolist() == plain + [special.pad] * (len(tokens[0]) - len(plain))
    with torch.no_grad():
        states = model.eval()(**batch).last_hidden_state.numpy()
    ours = encoder.apply({'params': params}, tokens, method=encoder.hidden)
    np.testing.assert_allclose(states[tokens != 0], np.asarray(ours)[tokens != 0], atol=1e-5)

    w_r = safetensors.numpy.load_file(tmp_path / 'bert/projections.safetensors')['w_r']
    places = np.array([tokens[0].tolist().index(x) for x in (special.r1, special.r2)], np.int32)
    relation = encoder.apply({'params': params}, tokens[:1], *places[:, None])
    np.testing.assert_allclose(states[0, places].reshape(-1) @ w_r, relation[0], atol=1e-4)
