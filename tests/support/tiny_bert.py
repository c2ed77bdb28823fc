"""BERT checkpoints of a few numbers, as folders of Hugging Face."""

import json

import numpy as np
import safetensors.numpy

CONFIG = dict(model_type='bert', hidden_act='gelu', layer_norm_eps=1e-12, pad_token_id=0)
CONFIG |= dict(vocab_size=40, max_position_embeddings=20, type_vocab_size=2, hidden_size=8)
CONFIG |= dict(num_hidden_layers=2, num_attention_heads=2, intermediate_size=12)


def fake_tensors(**config):
    """Random tensors of a checkpoint of CONFIG, some fields changed, named as in a BertModel."""
    rng, config = np.random.default_rng(0), CONFIG | config
    hidden, mlp = config['hidden_size'], config['intermediate_size']
    shapes = {
        'embeddings.word_embeddings.weight': (config['vocab_size'], hidden),
        'embeddings.position_embeddings.weight': (config['max_position_embeddings'], hidden),
        'embeddings.token_type_embeddings.weight': (2, hidden),
        'embeddings.LayerNorm.weight': (hidden,),
        'embeddings.LayerNorm.bias': (hidden,),
        'pooler.dense.weight': (hidden, hidden),
    }
    for i in range(config['num_hidden_layers']):
        layer = f'encoder.layer.{i}.'
        square = 'self.query', 'self.key', 'self.value', 'output.dense'
        dense = {f'attention.{name}': (hidden, hidden) for name in square}
        dense |= {'intermediate.dense': (mlp, hidden), 'output.dense': (hidden, mlp)}
        for name, shape in dense.items():
            shapes |= {f'{layer}{name}.weight': shape, f'{layer}{name}.bias': shape[:1]}
        for name in ('attention.output.LayerNorm', 'output.LayerNorm'):
            shapes |= {f'{layer}{name}.weight': (hidden,), f'{layer}{name}.bias': (hidden,)}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def write(folder, tensors, **config):
    folder.mkdir(exist_ok=True)
    (folder / 'config.json').write_text(json.dumps(CONFIG | config))
    safetensors.numpy.save_file(tensors, folder / 'model.safetensors')
    return folder
