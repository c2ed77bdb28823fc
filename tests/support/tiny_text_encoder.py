"""A small encoder of any text, text for it, and float64 readings of its last layer."""

import functools
import pathlib

import jax
import numpy as np

from opql_jax.data.prepare import prepare
from opql_jax.data.tokenizer import train_wordpiece
from opql_jax.datasets.jsonl import JsonLines
from opql_jax.models.text_encoder import TextEncoder
from opql_jax.training.state import init_params

import records
import tiny_training

WORDS = (
    'who what when the of and wrote built saw met near old river city song ship never later first '
    'again with from under'
)
NAMES = ('Ann Low', 'José Dee', 'Max Hill', 'Kim Stone', 'Ålesund', 'York', 'Emma', 'Lucy')
TOKENIZER = train_wordpiece([f'{WORDS} directed by {" and ".join(NAMES)} in 1979 . Go .'] * 2, 200)


def make(tokenizer=TOKENIZER) -> TextEncoder:
    module = tiny_training.encoder(vocab_size=tokenizer.get_vocab_size())
    params = init_params(module, 1, seed=0)['encoder']
    # So large that attention, and with it the padding mask, matters; biases, which begin as 0,
    # matter too.
    rng = np.random.default_rng(0)
    vary = lambda x: (x * 5 if x.ndim > 1 else x) + rng.normal(0, 0.05, x.shape)
    params = jax.tree.map(lambda x: vary(x).astype(np.float32), params)
    return TextEncoder(module, params, tokenizer)


def write_text(folder: pathlib.Path, max_tokens: int = 128, tokenizer=TOKENIZER) -> pathlib.Path:
    """Prepares documents about eight names, one of forty sentences; returns their folder."""
    rng, words = np.random.default_rng(0), WORDS.split()
    sentence = lambda name: _sentence(rng, words, [name, *rng.permutation(NAMES)[:2]])
    texts = {name: ' '.join(sentence(name) for _ in range(9)) for name in NAMES}
    texts['Go'] = 'Emma met York. ' + 'Go. ' * 40 + 'Lucy saw Emma.'
    documents = [{'id': name, 'title': name, 'text': text} for name, text in texts.items()]
    reader = JsonLines(str(records.write(folder / 'corpus.jsonl', documents)))
    tokenizer.save(str(folder / 'tokenizer.json'))
    options = dict(tokenizer=str(folder / 'tokenizer.json'), drop_above_rate=1.0)
    prepare(kb=str(folder / 'kb'), reader=reader, max_tokens=max_tokens, **options)
    return folder / 'kb' / 'text'


def _sentence(rng, words, names):
    between = [' '.join(rng.choice(words, rng.integers(1, 6))) for _ in names]
    return ' '.join(f'{name} {some}' for name, some in zip(names, between)) + '.'


def hidden(encoder: TextEncoder, tokens) -> np.ndarray:
    """The last layer over one row of tokens alone: [tokens, hidden_size] float64."""
    padded = np.zeros((1, 136), np.int32)
    padded[0, : len(tokens)] = tokens
    return np.asarray(_hidden(encoder.module)(encoder.params, padded)[0, : len(tokens)], np.float64)


@functools.cache
def _hidden(module):
    apply = functools.partial(module.apply, method=module.hidden)
    return jax.jit(lambda params, tokens: apply({'params': params}, tokens))


def relation(encoder: TextEncoder, tokens, topic, target) -> np.ndarray:
    """W_r^T [first ; second] of two spans (first, last), each the mean of its ends; halves swapped
    where the topic is second. Tokens are from [CLS] to [SEP].
    """
    states = hidden(encoder, tokens)
    halves = [(states[first] + states[last]) / 2 for first, last in sorted([topic, target])]
    code = unit(np.concatenate(halves) @ np.asarray(encoder.params['w_r']['kernel'], np.float64))
    return np.roll(code, len(code) // 2) if topic > target else code


def unit(vector) -> np.ndarray:
    return vector / np.linalg.norm(vector)
