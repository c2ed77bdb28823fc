"""Writes an encoder as a BERT, MPNet or ModernBERT of `transformers` that computes the same.

The folder:

    config.json              of that model
    model.safetensors        the transformer, float32, by the names of the model; it has no pooler
    tokenizer.json           with [CLS] and [SEP] around a text, and the markers as special tokens
    tokenizer_config.json    which token is which
    projections.safetensors  w_r [2 hidden, d_r] and w_e [hidden, d_e], float32, for r = [h_R1 ;
                             h_R2] w_r
    README.md                the model card
"""

import json
import os
from typing import Any

import numpy as np
import safetensors.numpy
from tokenizers import Tokenizer, processors

from opql_jax.core import files, locks
from opql_jax.core.errors import InputError
from opql_jax.data.tokenizer import exchanged_padding, special_ids
from opql_jax.models.bert import MPNET_BUCKETS, MPNET_NAMES
from opql_jax.models.encoder import PAD_ID, RelationEncoder
from opql_jax.models.modern_bert import ModernEncoder

# As `models.bert` adds the embedding of the one segment to the positions, segments are zeros.
_SEGMENTS = 2


def write(
    folder: str | os.PathLike, encoder: RelationEncoder, params, tokenizer: Tokenizer, card: str
) -> None:
    """Writes the folder, new or empty; `card` is the model card in Markdown.

    `config.json` comes last, without which `transformers` opens none. InputError: no such model
    computes what the encoder does, or the folder holds something.
    """
    config, tensors = as_checkpoint(encoder, params)
    projections = {name: _array(params[name]['kernel']) for name in ('w_r', 'w_e')}
    stored, named = _tokenizer_files(tokenizer, config['pad_token_id'])
    as_json = lambda value: (json.dumps(value, indent=2) + '\n').encode()
    folder = files.require_local(folder)
    with locks.writer(folder):
        if any(not locks.is_lock(path) for path in folder.iterdir()):
            raise InputError(f'{folder} holds other files: give a new or empty folder')
        for name, content in (
            ('model.safetensors', safetensors.numpy.save(tensors, {'format': 'pt'})),
            ('projections.safetensors', safetensors.numpy.save(projections)),
            ('tokenizer.json', stored.encode()),
            ('tokenizer_config.json', as_json(named | {'model_max_length': encoder.max_length})),
            ('README.md', card.encode()),
            ('config.json', as_json(config)),
        ):
            files.write_bytes(folder / name, content)


def as_checkpoint(encoder: RelationEncoder, params) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """config.json and tensors of the `transformers` model that computes alike, or InputError."""
    if type(encoder) not in (RelationEncoder, ModernEncoder):
        raise InputError(
            f'an encoder of the class {type(encoder).__name__} is no '
            'transformer, which this form needs'
        )
    if encoder.relative_buckets not in (0, MPNET_BUCKETS):
        raise InputError(
            f'relative_buckets={encoder.relative_buckets}: an MPNet has {MPNET_BUCKETS}, so '
            'transformers has no such model'
        )
    kind = _mpnet if encoder.relative_buckets else _bert
    if isinstance(encoder, ModernEncoder):
        kind = _modern_bert
    config, tensors = kind(encoder, params)
    sizes = {
        'vocab_size': encoder.vocab_size,
        'hidden_size': encoder.hidden_size,
        'num_hidden_layers': encoder.num_layers,
        'num_attention_heads': encoder.num_heads,
        'intermediate_size': encoder.mlp_size,
        'max_position_embeddings': encoder.max_length,
        'pad_token_id': PAD_ID,
    }
    return sizes | config, {name: _array(value) for name, value in tensors.items()}


def _bert(encoder, params):
    config = {
        'model_type': 'bert',
        'architectures': ['BertModel'],
        'type_vocab_size': _SEGMENTS,
        'hidden_act': 'gelu',
        'hidden_dropout_prob': encoder.dropout_rate,
        'attention_probs_dropout_prob': encoder.dropout_rate,
        'layer_norm_eps': encoder.layer_norm_epsilon,
    }
    tensors = {
        'embeddings.word_embeddings.weight': params['token_embedding']['embedding'],
        'embeddings.position_embeddings.weight': params['position_embedding']['embedding'],
        'embeddings.token_type_embeddings.weight': np.zeros((_SEGMENTS, encoder.hidden_size)),
        **_norm('embeddings', params['embedding_norm']),
    }
    for i in range(encoder.num_layers):
        tensors |= _layer(f'encoder.layer.{i}', params[f'layers_{i}'], encoder.hidden_size)
    return config, tensors


def _mpnet(encoder, params):
    """As a BERT, but with a distance bias, and padding of id 1 that takes the first positions."""
    config, bert = _bert(encoder, params)
    pad, segments = 1, 'embeddings.token_type_embeddings.weight'
    config |= {
        'model_type': 'mpnet',
        'architectures': ['MPNetModel'],
        'relative_attention_num_buckets': MPNET_BUCKETS,
    }
    config |= {'max_position_embeddings': encoder.max_length + pad + 1, 'pad_token_id': pad}
    del config['type_vocab_size'], bert[segments]
    tensors = {'encoder.relative_attention_bias.weight': params['relative_bias']['embedding']}
    for name, value in bert.items():
        for of_bert, here in MPNET_NAMES.items():
            name = name.replace(of_bert, here)
        tensors[name] = np.asarray(value)
    words, positions = 'embeddings.word_embeddings.weight', 'embeddings.position_embeddings.weight'
    tensors[words] = np.concatenate([tensors[words][[pad, PAD_ID]], tensors[words][pad + 1 :]])
    tensors[positions] = np.pad(tensors[positions], ((pad + 1, 0), (0, 0)))
    return config, tensors


def _modern_bert(encoder, params):
    config = {
        'model_type': 'modernbert',
        'architectures': ['ModernBertModel'],
        'hidden_activation': 'gelu',
        'attention_dropout': encoder.dropout_rate,
        'embedding_dropout': encoder.dropout_rate,
        'mlp_dropout': encoder.dropout_rate,
        'norm_eps': encoder.layer_norm_epsilon,
        'local_attention': 2 * encoder.local_window,
        'global_attn_every_n_layers': encoder.global_every,
        'global_rope_theta': encoder.global_theta,
        'local_rope_theta': encoder.local_theta,
        # It has none of these, and the defaults may exceed its vocabulary.
        **dict.fromkeys(('bos_token_id', 'eos_token_id', 'cls_token_id', 'sep_token_id')),
    }
    hidden = encoder.hidden_size
    tensors = {
        'embeddings.tok_embeddings.weight': params['token_embedding']['embedding'],
        'embeddings.norm.weight': params['embedding_norm']['scale'],
        'final_norm.weight': params['final_norm']['scale'],
    }
    for i in range(encoder.num_layers):
        layer, prefix = params[f'layers_{i}'], f'layers.{i}'
        kernel = lambda name: np.asarray(layer[name]['kernel'])
        tensors[f'{prefix}.attn.Wqkv.weight'] = kernel('qkv').reshape(hidden, 3 * hidden).T
        tensors[f'{prefix}.attn.Wo.weight'] = kernel('attention_out').reshape(hidden, hidden).T
        tensors[f'{prefix}.mlp.Wi.weight'] = kernel('mlp_in').T
        tensors[f'{prefix}.mlp.Wo.weight'] = kernel('mlp_out').T
        tensors[f'{prefix}.mlp_norm.weight'] = layer['mlp_norm']['scale']
        if i:
            tensors[f'{prefix}.attn_norm.weight'] = layer['attention_norm']['scale']
    return config, tensors


def _layer(prefix: str, layer, hidden: int) -> dict[str, np.ndarray]:
    """The tensors of a layer."""
    kernel, bias = (np.asarray(layer['qkv'][name]) for name in ('kernel', 'bias'))
    out = np.asarray(layer['attention_out']['kernel']).reshape(hidden, hidden)
    tensors = _dense(f'{prefix}.attention.output.dense', out, layer['attention_out']['bias'])
    for i, part in enumerate(('query', 'key', 'value')):
        name = f'{prefix}.attention.self.{part}'
        tensors |= _dense(name, kernel[:, i].reshape(hidden, hidden), bias[i].reshape(hidden))
    for name, part in (('intermediate.dense', 'mlp_in'), ('output.dense', 'mlp_out')):
        tensors |= _dense(f'{prefix}.{name}', layer[part]['kernel'], layer[part]['bias'])
    tensors |= _norm(f'{prefix}.attention.output', layer['attention_norm'])
    return tensors | _norm(f'{prefix}.output', layer['mlp_norm'])


def _dense(name: str, kernel, bias) -> dict[str, np.ndarray]:
    """A kernel [inputs, outputs] and a bias as torch stores them, [outputs, inputs]."""
    return {f'{name}.weight': np.asarray(kernel).T, f'{name}.bias': np.asarray(bias)}


def _norm(name: str, norm) -> dict[str, np.ndarray]:
    return {f'{name}.LayerNorm.weight': norm['scale'], f'{name}.LayerNorm.bias': norm['bias']}


def _array(value) -> np.ndarray:
    return np.ascontiguousarray(np.asarray(value, np.float32))


def _tokenizer_files(tokenizer: Tokenizer, pad: int) -> tuple[str, dict[str, Any]]:
    """The content of tokenizer.json, with `pad` as padding's id, and of tokenizer_config.json."""
    token = {
        name: str(tokenizer.id_to_token(number))
        for name, number in special_ids(tokenizer)._asdict().items()
    }
    copy = exchanged_padding(tokenizer, pad)
    cls, sep = token['cls'], token['sep']
    copy.post_processor = processors.TemplateProcessing(
        single=f'{cls} $A {sep}',
        pair=f'{cls} $A {sep} $B:1 {sep}:1',
        special_tokens=[(name, copy.token_to_id(name)) for name in (cls, sep)],
    )
    return copy.to_str(pretty=True), {
        'tokenizer_class': 'PreTrainedTokenizerFast',
        'model_input_names': ['input_ids', 'attention_mask'],
        **{f'{name}_token': token[name] for name in ('pad', 'unk', 'cls', 'sep')},
        'additional_special_tokens': [token[name] for name in ('ent', 'r1', 'r2')],
    }
