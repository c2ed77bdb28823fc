"""Writes an encoder as a BERT, MPNet or ModernBERT of `transformers` that computes the same.

Beside its config.json, model.safetensors (float32, without a pooler), model card, and tokenizer
with [CLS] and [SEP] around a text lies projections.safetensors: w_r [2 hidden, d_r] and w_e
[hidden, d_e], float32, for r = [h_R1 ; h_R2] w_r.
"""

import json
import os
from typing import Any

import numpy as np
import safetensors.numpy
from flax import traverse_util
from tokenizers import Tokenizer, processors

from opql_jax.core import files, locks
from opql_jax.core.errors import InputError
from opql_jax.data.tokenizer import exchanged_padding, special_ids
from opql_jax.models.bert import MPNET_BUCKETS
from opql_jax.models.encoder import PAD_ID, RelationEncoder
from opql_jax.models.hugging_face_tensors import layout
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
    tensors = {}
    flat = traverse_util.flatten_dict(params, sep='/')
    for name, stored in layout(encoder).items():
        tensors |= stored.split(np.asarray(flat[name]))
    sizes = {
        'vocab_size': encoder.vocab_size,
        'hidden_size': encoder.hidden_size,
        'num_hidden_layers': encoder.num_layers,
        'num_attention_heads': encoder.num_heads,
        'intermediate_size': encoder.mlp_size,
        'max_position_embeddings': encoder.max_length,
        'pad_token_id': PAD_ID,
    }
    if isinstance(encoder, ModernEncoder):
        config = _modern_bert(encoder)
    elif encoder.relative_buckets:
        config, tensors = _mpnet(encoder, tensors)
    else:
        config = _bert(encoder) | {'type_vocab_size': _SEGMENTS}
        segments = np.zeros((_SEGMENTS, encoder.hidden_size))
        tensors['embeddings.token_type_embeddings.weight'] = segments
    return sizes | config, {name: _array(value) for name, value in tensors.items()}


def _bert(encoder) -> dict[str, Any]:
    return {
        'model_type': 'bert',
        'architectures': ['BertModel'],
        'hidden_act': 'gelu',
        'hidden_dropout_prob': encoder.dropout_rate,
        'attention_probs_dropout_prob': encoder.dropout_rate,
        'layer_norm_eps': encoder.layer_norm_epsilon,
    }


def _mpnet(encoder, tensors):
    """As a BERT, but with a distance bias, and padding of id 1 that takes the first positions."""
    pad = 1
    config = _bert(encoder) | {
        'model_type': 'mpnet',
        'architectures': ['MPNetModel'],
        'relative_attention_num_buckets': MPNET_BUCKETS,
        'max_position_embeddings': encoder.max_length + pad + 1,
        'pad_token_id': pad,
    }
    words, positions = 'embeddings.word_embeddings.weight', 'embeddings.position_embeddings.weight'
    return config, tensors | {
        words: np.concatenate([tensors[words][[pad, PAD_ID]], tensors[words][pad + 1 :]]),
        positions: np.pad(tensors[positions], ((pad + 1, 0), (0, 0))),
    }


def _modern_bert(encoder) -> dict[str, Any]:
    return {
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
