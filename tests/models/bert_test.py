"""Checkpoints of BERT and its relatives, against the models of transformers."""

import functools
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from opql_jax.core.errors import InputError
from opql_jax.data.tokenizer import load_tokenizer, special_ids, train_wordpiece
from opql_jax.models import bert
from opql_jax.models.encoder import RelationEncoder, check_computes
from opql_jax.models.modern_bert import ModernEncoder

from tiny_bert import CONFIG, fake_tensors, write


def fresh_params(fields, relation_dim=4):
    encoder = bert.encoder_class(fields)(**fields, relation_dim=relation_dim, entity_dim=3)
    one = jnp.ones((1, 2), jnp.int32)
    return encoder, jax.jit(encoder.init)(jax.random.key(0), one, one[:, 0], one[:, 0])['params']


def load(folder):
    fields, loaded = bert.load_bert(folder)
    encoder, fresh = fresh_params(fields)
    return encoder, bert.merge_pretrained(fresh, loaded)


def assert_like_torch(transformers, folder, rows, pad=0):
    """Hidden states of rows, padded and alone, are those of transformers, which pads with `pad`."""
    import torch

    reference = transformers.AutoModel.from_pretrained(folder, attn_implementation='eager').eval()
    encoder, params = load(folder)
    hidden = jax.jit(functools.partial(encoder.apply, method='hidden'))
    longest = max(map(len, rows))
    padded = np.stack([np.pad(row, (0, longest - len(row))) for row in rows])
    for tokens in (padded, rows[0][None]):
        with torch.no_grad():
            mask = torch.tensor((tokens != 0).astype(np.int64))
            theirs = np.select([tokens == 0, tokens == pad], [pad, 0], tokens)
            expected = reference(torch.tensor(theirs), attention_mask=mask).last_hidden_state
        found, there = np.asarray(hidden({'params': params}, tokens)), tokens != 0
        np.testing.assert_allclose(found[there], expected.numpy()[there], atol=1e-4, rtol=0)


def random_rows(vocab_size, lengths):
    rng = np.random.default_rng(1)
    return [rng.integers(1, vocab_size, length) for length in lengths]


# What the sizes of `tiny_bert` are called alike in; the lengths reach the last bucket of distances.
SIZES = {name: value for name, value in CONFIG.items() if name != 'model_type'}
MPNET = dict(pad_token_id=1, layer_norm_eps=1e-5, max_position_embeddings=202)
ROBERTA = MPNET | dict(type_vocab_size=1)
RELATIVES = {
    'bert': dict(max_position_embeddings=200),
    'roberta': ROBERTA,
    'roberta padded with 5': ROBERTA | dict(pad_token_id=5, max_position_embeddings=206),
    'mpnet': MPNET,
}


@pytest.mark.parametrize(
    ('kind', 'head'), zip(RELATIVES, ['Model', 'Model', 'ForMaskedLM', 'ForMaskedLM'])
)
def test_what_transformers_saves_matches_torch(transformers, tmp_path, kind, head):
    family = {'bert': 'Bert', 'roberta': 'Roberta', 'mpnet': 'MPNet'}[kind.split()[0]]
    config = SIZES | RELATIVES[kind] | {'initializer_range': 0.5}
    config_class = getattr(transformers, f'{family}Config')
    getattr(transformers, family + head)(config_class(**config)).save_pretrained(tmp_path)
    rows = random_rows(40, [200, 1, 11, 5])
    assert_like_torch(transformers, tmp_path, rows, pad=config.get('pad_token_id', 0))


# What the configuration of ModernBERT calls otherwise, with windows shorter than the rows.
MODERN = dict(norm_eps=1e-5, pad_token_id=39, local_attention=16, max_position_embeddings=300)
MODERN |= dict(global_attn_every_n_layers=2, global_rope_theta=500.0, local_rope_theta=30.0)


def test_modern_bert_matches_torch(transformers, tmp_path):
    if not hasattr(transformers, 'ModernBertModel'):
        pytest.skip('this transformers has no ModernBERT')
    sizes = dict(vocab_size=40, hidden_size=8, num_hidden_layers=4, num_attention_heads=2)
    sizes |= dict(intermediate_size=12, initializer_range=0.5, cls_token_id=1, sep_token_id=2)
    config = transformers.ModernBertConfig(**sizes, **MODERN)
    transformers.ModernBertForMaskedLM(config).save_pretrained(tmp_path)
    fields, _ = bert.load_bert(tmp_path)
    names = ('global_every', 'local_window', 'global_theta', 'local_theta')
    assert [fields[name] for name in names] == [2, 8, 500, 30]
    rows = [np.where(row == 39, 38, row) for row in random_rows(40, [200, 1, 11, 5])]
    assert_like_torch(transformers, tmp_path, rows, pad=39)


def modern(**fields):
    return ModernEncoder(40, 8, 2, 2, 12, 60, relation_dim=4, entity_dim=3, **fields)


def test_modern_bert_computes_the_last_layer_at_a_few_positions_and_in_parts_alike():
    encoder = modern(local_window=5, dropout_rate=0.0)
    tokens = jnp.asarray(random_rows(40, [50] * 4))
    positions = jnp.array([[3, 40], [49, 0], [1, 2], [7, 7]])
    params = jax.jit(encoder.init)(jax.random.key(0), tokens, *positions.T)
    params = jax.tree.map(lambda x: 10 * x, params)
    hidden = lambda encoder, *at: encoder.apply(params, tokens, not at, *at, method='hidden')
    whole = jnp.take_along_axis(hidden(encoder), positions[:, :, None], axis=1)
    for each in (encoder, encoder.clone(accumulate_steps=2, remat='layers')):
        np.testing.assert_allclose(hidden(each, positions), whole, atol=1e-3, rtol=1e-4)


def test_an_encoder_that_computes_otherwise_than_what_it_starts_from_is_refused():
    # A file from before that field.
    fields = {name: value for name, value in vars(modern()).items() if name != 'local_theta'}
    same = modern(dropout_rate=0.5, dtype='bfloat16', remat='dots')
    check_computes(same, ModernEncoder, fields, 'start')
    others = dict(layer_norm_epsilon=1e-7, local_window=8, global_every=2, global_theta=1e4)
    for name, value in (others | {'local_theta': 1e5}).items():
        said = f'start has {name}={getattr(modern(), name):g}, and .* trained {value:g}: set Moder'
        with pytest.raises(InputError, match=said):
            check_computes(modern(**{name: value}), ModernEncoder, fields, 'start')
    said = 'is of the class RelationEncoder, and the encoder that is trained ModernEncoder: use'
    with pytest.raises(InputError, match=said):
        check_computes(modern(), RelationEncoder, fields, 'start')


def test_a_tokenizer_that_is_not_that_of_the_weights_is_refused(tmp_path):
    tokenizer, other = (train_wordpiece(texts, 40) for texts in (['ab ac ad'], ['xy xz']))
    folder = write(tmp_path / 'model', fake_tensors(), pad_token_id=3)
    tokenizer.save(str(folder / 'tokenizer.json'))
    said = 'pads with the id 0, and config.json says 3: set pad_token_id to 0 there'
    with pytest.raises(InputError, match=f'tokenizer.json {said}'):
        bert.load_bert(folder)
    write(folder, fake_tensors())
    bert.load_bert(folder, tokenizer)
    said = 'tokenizer.json is not the tokenizer of the text: prepare .* it, TOKENIZER=.*model$'
    with pytest.raises(InputError, match=said):
        bert.load_bert(folder, other)


def test_names_of_other_years_give_the_same_parameters(tmp_path):
    old = lambda name: name.replace('LayerNorm.weight', 'LayerNorm.gamma').replace(
        'LayerNorm.bias', 'LayerNorm.beta'
    )
    tensors = fake_tensors()
    renamed = {f'bert.{old(name)}': value for name, value in tensors.items()}
    renamed['cls.predictions.bias'] = np.zeros(40, np.float32)
    _, expected = bert.load_bert(write(tmp_path / 'a', tensors))
    _, loaded = bert.load_bert(write(tmp_path / 'b', renamed))
    jax.tree.map(np.testing.assert_array_equal, loaded, expected)


def test_markers_that_a_bert_lends_start_as_words(tmp_path):
    _, loaded = bert.load_bert(write(tmp_path, fake_tensors()))
    names = '[PAD] [unused1] [unused2] [unused3] [UNK] [CLS] [SEP] [MASK] y entity x other'
    (tmp_path / 'vocab.txt').write_text(names.replace(' ', '\n'))
    tokenizer = load_tokenizer(tmp_path)
    old = loaded['token_embedding']['embedding']
    new = bert.with_marker_words(loaded, tokenizer)['token_embedding']['embedding']
    np.testing.assert_array_equal(new[1:4], old[[9, 10, 8]])
    special = special_ids(tokenizer)
    assert (special.ent, special.r1, special.r2) == (1, 2, 3)
    assert list(bert.MARKER_WORDS.values()) == ['entity', 'x', 'y']
    np.testing.assert_array_equal(np.delete(new, [1, 2, 3], 0), np.delete(old, [1, 2, 3], 0))


def test_missing_or_broken_files_are_named(tmp_path):
    with pytest.raises(InputError, match='config.json: no such file'):
        bert.load_bert(tmp_path)
    write(tmp_path, fake_tensors())
    whole = (tmp_path / 'model.safetensors').read_bytes()
    (tmp_path / 'model.safetensors').write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match='model.safetensors: not a readable safetensors file'):
        bert.load_bert(tmp_path)
    shutil.move(tmp_path / 'model.safetensors', tmp_path / 'pytorch_model.bin')
    said = 'model.safetensors: no such file. Only pytorch_model.bin is there'
    with pytest.raises(InputError, match=said):
        bert.load_bert(tmp_path)
    (tmp_path / 'config.json').write_text('{"model_type": "bert"}')
    said = 'config.json: not the configuration of a BERT: .*missing required field `vocab_size`'
    with pytest.raises(InputError, match=said):
        bert.load_bert(tmp_path)


OF_MODERN = MODERN | {'model_type': 'modernbert'}
LAYERS = ['full_attention', 'full_attention', 'sliding_attention', 'full_attention']


def rope(**fields):
    return OF_MODERN | {'rope_parameters': {'full_attention': fields}}


@pytest.mark.parametrize(
    ('change', 'said'),
    [
        ({'model_type': 't5'}, 'encoders of the types bert, modernbert, mpnet, roberta can be lo'),
        ({'hidden_act': 'relu'}, "config.json: hidden_act is 'relu'"),
        ({'vocab_size': 41}, r"weight' is \[40, 8\], but config.json makes it \[41, 8\]"),
        (OF_MODERN | {'layer_types': LAYERS, 'num_hidden_layers': 4}, 'is no pattern that repeats'),
        (rope(rope_type='yarn'), 'rope_parameters has another rope_type'),
        (np.nan, "model.safetensors: 'encoder.layer.1.output.dense.bias' has numbers that are not"),
        (None, "model.safetensors: has no tensor 'encoder.layer.1.output.dense.bias'"),
    ],
)
def test_a_checkpoint_that_is_no_such_encoder_is_refused(tmp_path, change, said):
    tensors, name = fake_tensors(), 'encoder.layer.1.output.dense.bias'
    if change is None:
        del tensors[name]
    elif not isinstance(change, dict):
        tensors[name][2] = change
    with pytest.raises(InputError, match=said):
        bert.load_bert(write(tmp_path, tensors, **(change if isinstance(change, dict) else {})))
