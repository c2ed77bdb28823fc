"""Pairs encoded per second by `MarkedPairEncoder`, in length buckets and padded to 128 tokens, alternately in one process.

python benchmarks/build_memory.py --model tiny --rows 16384 --json
python benchmarks/build_memory.py --prepared_dir PREPARED --model_dir MODEL

Without folders the corpus is the generated one and the weights are random, which changes no time.
"""

import argparse
import json
import pathlib
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
from timing import medians

import gin
from opql_jax.data import markup
from opql_jax.data.prepare import prepare
from opql_jax.data.prepared import Prepared
from opql_jax.datasets.synthetic.reader import Synthetic
from opql_jax.kb.build_memory import entry_table, select_pair_rows
from opql_jax.memory.build import EntryTable
from opql_jax.models.bulk_encoding import Batching, MarkedPairEncoder
from opql_jax.models.encoder import RelationEncoder
from opql_jax.models.flops import encoder_flops
from opql_jax.training import model_config
from opql_jax.training.state import init_params

PADDED = 128
MODELS = pathlib.Path(__file__).parents[1] / 'gin' / 'models'
# That of gin/data/synthetic.gin.
RECIPE = dict(wordpieces=4000, max_tokens=40, drop_above_rate=1.0)
MATRIX = 2048


def sizes(options, root) -> tuple[Prepared, RelationEncoder, dict]:
    """The corpus, the encoder and its parameters."""
    if not options.prepared_dir:
        reader = Synthetic(num_documents=options.documents, num_train=1, num_eval=1)
        prepare(output_dir=root, reader=reader, **RECIPE)
    prepared = Prepared(options.prepared_dir or root)
    if options.model_dir:
        encoder, params, card, _ = model_config.load(options.model_dir)
        model_config.check_vocabulary(card, prepared, options.model_dir)
    else:
        gin.parse_config_file(str(MODELS / f'{options.model}.gin'))
        encoder = gin.get_configurable(RelationEncoder)(vocab_size=prepared.tokenizer.get_vocab_size())
        params = init_params(encoder, 1, seed=0)
    return prepared, encoder, params['encoder']


def measure(options, prepared, encoder, params) -> dict:
    """Rates, padding and work of both ways, and the limits they are to be held against."""
    rows = select_pair_rows(prepared)
    rows = rows[in_order(entry_table(prepared, rows))[: options.rows]]
    lengths = lengths_of(prepared, rows)
    longest = max(PADDED, int(lengths.max()))
    ways = {
        'bucketed': MarkedPairEncoder(encoder, params, prepared, Batching(tokens_per_device=options.tokens_per_batch)),
        'padded': MarkedPairEncoder(encoder, params, prepared, Batching((longest,), options.tokens_per_batch)),
    }
    matrix = jnp.ones((MATRIX, MATRIX))
    product = jax.jit(lambda m: m @ m)
    calls = {name: lambda encode=encode: encode(rows) for name, encode in ways.items()}
    median = medians(calls | {'product': lambda: product(matrix)}, options.repeats, options.limit)
    peak = 2 * MATRIX**3 / median['product'] / 1e9
    needed = float(np.mean([encoder_flops(encoder, (1, int(length))) for length in lengths]))
    line = {
        'rows': len(rows),
        'devices': f'{jax.device_count()} {jax.devices()[0].platform}',
        'mean_tokens': round(float(lengths.mean()), 1),
        'longest': int(lengths.max()),
        'product_gflops': round(peak, 1),
        'mflop_a_pair': round(needed / 1e6, 2),
        'limit_pairs_per_s': round(peak * 1e9 / needed),
        'ratio_of_tokens': round(longest / float(lengths.mean()), 2),
        'ratio_of_flops': round(encoder_flops(encoder, (1, longest)) / needed, 2),
        'padded_to': longest,
    }
    for name, encode in ways.items():
        shapes = [(places, length) for _, places, length in encode.batched.plan(lengths)]
        executed = sum(encoder_flops(encoder, shape) for shape in shapes)
        line[name] = {
            'pairs_per_s': round(len(rows) / median[name]),
            'share_of_padding': round(1 - float(lengths.sum()) / sum(places * length for places, length in shapes), 3),
            'gflops': round(executed / median[name] / 1e9, 1),
            'of_product': round(executed / median[name] / 1e9 / peak, 3),
            'needed_of_product': round(needed * len(rows) / median[name] / 1e9 / peak, 3),
        }
    line['ratio'] = round(median['padded'] / median['bucketed'], 2)
    return line


def in_order(entries: EntryTable) -> np.ndarray:
    """The rows as a memory stores them, so that the first ones are like those of a shard."""
    return np.lexsort((entries.target_start, entries.topic_start, entries.passage, entries.target, entries.topic))


def lengths_of(prepared, rows) -> np.ndarray:
    """Tokens of every marked row [n]."""
    passages, passage = np.unique(prepared.pairs['passage'][rows], return_inverse=True)
    mentions = prepared.pairs['topic_mention'][rows], prepared.pairs['target_mention'][rows]
    return markup.MarkedPairs(prepared.records.read(passages), passage, *mentions, prepared.special).lengths


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rows', type=int, default=16384, help='pair rows, the first of the memory')
    parser.add_argument('--model', default='tiny', help='a size in gin/models')
    parser.add_argument('--documents', type=int, default=2000, help='of the generated corpus')
    parser.add_argument('--prepared_dir')
    parser.add_argument('--model_dir')
    parser.add_argument('--tokens_per_batch', type=int, help="of both ways; the MarkedPairEncoder's choice by default")
    parser.add_argument('--repeats', type=int, default=5, help='calls of each way, at most')
    parser.add_argument('--limit', type=float, default=120, help='seconds after which no further round of calls begins')
    parser.add_argument('--json', action='store_true')
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        line = measure(options, *sizes(options, root))
    print(json.dumps(line) if options.json else json.dumps(line, indent=1))


if __name__ == '__main__':
    main()
