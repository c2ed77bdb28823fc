"""Writes an encoder as a folder that `transformers` opens as a BERT, to the same numbers.

config.json              of a BertModel
model.safetensors        the transformer, float32, by the names of BertModel; it has no pooler
tokenizer.json           with [CLS] and [SEP] around a text, and the markers as special tokens
tokenizer_config.json    which token is which
projections.safetensors  w_r [2 hidden, d_r] and w_e [hidden, d_e], float32, for r = [h_R1 ; h_R2] w_r
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
from opql_jax.data.tokenizer import special_ids
from opql_jax.models.encoder import PAD_ID, RelationEncoder

# As `models.bert` adds the embedding of the one segment to the positions, segments are zeros.
_SEGMENTS = 2


def write(folder: str | os.PathLike, encoder: RelationEncoder, params, tokenizer: Tokenizer, card: str) -> None:
    """Writes the folder; `config.json` comes last, without which `transformers` opens none.

    Args:
        folder: new or empty.
        encoder, params: the encoder and its parameters.
        tokenizer: of the text that it was trained on.
        card: the model card in Markdown.

    Raises:
        InputError: no BERT computes what the encoder does, or the folder holds something.
    """
    config, tensors = as_bert(encoder, params)
    projections = {name: _array(params[name]['kernel']) for name in ('w_r', 'w_e')}
    stored, named = _tokenizer_files(tokenizer)
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
            with files.atomic_path(folder / name) as partial:
                partial.write_bytes(content)


def as_bert(encoder: RelationEncoder, params) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The config.json and the tensors of the BertModel that computes what an encoder does.

    Raises:
        InputError: none does, as the encoder has relative positions.
    """
    if encoder.relative_buckets:
        raise InputError(
            'an encoder that started from an MPNet has relative positions, which no BERT has:'
            ' it cannot be written for transformers'
        )
    config = {
        'model_type': 'bert',
        'architectures': ['BertModel'],
        'vocab_size': encoder.vocab_size,
        'hidden_size': encoder.hidden_size,
        'num_hidden_layers': encoder.num_layers,
        'num_attention_heads': encoder.num_heads,
        'intermediate_size': encoder.mlp_size,
        'max_position_embeddings': encoder.max_length,
        'type_vocab_size': _SEGMENTS,
        'hidden_act': 'gelu',
        'hidden_dropout_prob': encoder.dropout_rate,
        'attention_probs_dropout_prob': encoder.dropout_rate,
        'layer_norm_eps': encoder.layer_norm_epsilon,
        'pad_token_id': PAD_ID,
    }
    tensors = {
        'embeddings.word_embeddings.weight': params['token_embedding']['embedding'],
        'embeddings.position_embeddings.weight': params['position_embedding']['embedding'],
        'embeddings.token_type_embeddings.weight': np.zeros((_SEGMENTS, encoder.hidden_size)),
        **_norm('embeddings', params['embedding_norm']),
    }
    for i in range(encoder.num_layers):
        tensors |= _layer(f'encoder.layer.{i}', params[f'layers_{i}'], encoder.hidden_size)
    return config, {name: _array(value) for name, value in tensors.items()}


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


def _tokenizer_files(tokenizer: Tokenizer) -> tuple[str, dict[str, Any]]:
    """The content of tokenizer.json, and that of tokenizer_config.json."""
    ids = special_ids(tokenizer)
    token = {name: tokenizer.id_to_token(number) for name, number in ids._asdict().items()}
    copy = Tokenizer.from_str(tokenizer.to_str())
    cls, sep = token['cls'], token['sep']
    copy.post_processor = processors.TemplateProcessing(
        single=f'{cls} $A {sep}',
        pair=f'{cls} $A {sep} $B:1 {sep}:1',
        special_tokens=[(cls, ids.cls), (sep, ids.sep)],
    )
    return copy.to_str(pretty=True), {
        'tokenizer_class': 'PreTrainedTokenizerFast',
        **{f'{name}_token': token[name] for name in ('pad', 'unk', 'cls', 'sep')},
        'additional_special_tokens': [token[name] for name in ('ent', 'r1', 'r2')],
    }
