"""Pairs encoded per second by `MarkedPairEncoder`, in batches of similar lengths and padded to 128 tokens.

python benchmarks/build_memory.py --model tiny --rows 16384 --json
python benchmarks/build_memory.py --kb KB

Without a knowledge base the corpus is a generated one and the weights are random, which changes no time. `ratio` is the time of the padded
batches over that of the others. Rates in GFLOP/s are compared with a product of two 2048 x 2048 matrices in the same run.
"""

import functools
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
from command_line import add_timing, make_parser, show
from inputs import generated_corpus, make_encoder
from timing import medians

from opql_jax.data import markup
from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.pair_selection import select_pair_rows
from opql_jax.data.prepared import Prepared
from opql_jax.kb.build_memory import entry_table
from opql_jax.memory.build import EntryTable
from opql_jax.models.bulk_encoding import Batching, MarkedPairEncoder
from opql_jax.models.encoder import RelationEncoder
from opql_jax.models.flops import encoder_flops
from opql_jax.training import model_config
from opql_jax.training.state import init_params

PADDED_LENGTH, MATRIX = 128, 2048


def open_inputs(options, folder: str) -> tuple[Prepared, RelationEncoder, dict]:
    """The corpus, the encoder and its parameters."""
    if options.kb:
        kb = KBFolder(options.kb)
        prepared, (encoder, params, *_) = Prepared(kb.part('text')), model_config.load(kb.part('align'))
    else:
        prepared = generated_corpus(folder, options.documents, max_tokens=40)
        encoder = make_encoder(options.model, prepared.tokenizer.get_vocab_size())
        params = init_params(encoder, 1, seed=0)
    return prepared, encoder, params['encoder']


def measure(options, prepared, encoder, params) -> dict:
    """Rates, padding and work with both kinds of batches, and the limits to compare them with."""
    rows = select_pair_rows(prepared)
    rows = rows[in_order(entry_table(prepared, rows))[: options.rows]]
    lengths = lengths_of(prepared, rows)
    longest = max(PADDED_LENGTH, int(lengths.max()))
    batchings = {
        'bucketed': Batching(tokens_per_device=options.tokens_per_device),
        'padded': Batching((longest,), options.tokens_per_device),
    }
    encoders = {name: MarkedPairEncoder(encoder, params, prepared, options) for name, options in batchings.items()}
    matrix = jnp.ones((MATRIX, MATRIX))
    functions: dict = {name: functools.partial(encode, rows) for name, encode in encoders.items()}
    functions['product'] = functools.partial(jax.jit(lambda m: m @ m), matrix)
    seconds = medians(functions, options.calls, options.limit)
    peak = 2 * MATRIX**3 / seconds['product'] / 1e9
    flops_per_pair = float(np.mean([encoder_flops(encoder, (1, int(length))) for length in lengths]))
    line = {
        'rows': len(rows),
        'devices': f'{jax.device_count()} {jax.devices()[0].platform}',
        'mean_tokens': round(float(lengths.mean()), 1),
        'longest': int(lengths.max()),
        'product_gflops': round(peak, 1),
        'mflop_per_pair': round(flops_per_pair / 1e6, 2),
        'limit_pairs_per_s': round(peak * 1e9 / flops_per_pair),
        'ratio_of_tokens': round(longest / float(lengths.mean()), 2),
        'ratio_of_flops': round(encoder_flops(encoder, (1, longest)) / flops_per_pair, 2),
        'padded_to': longest,
    }
    for name, encode in encoders.items():
        shapes = [(size, length) for _, size, length in encode.batched.plan(lengths)]
        executed = sum(encoder_flops(encoder, shape) for shape in shapes)
        line[name] = {
            'pairs_per_s': round(len(rows) / seconds[name]),
            'share_of_padding': round(1 - float(lengths.sum()) / sum(size * length for size, length in shapes), 3),
            'gflops': round(executed / seconds[name] / 1e9, 1),
            'of_product': round(executed / seconds[name] / 1e9 / peak, 3),
            'needed_of_product': round(flops_per_pair * len(rows) / seconds[name] / 1e9 / peak, 3),
        }
    line['ratio'] = round(seconds['padded'] / seconds['bucketed'], 2)
    return line


def in_order(entries: EntryTable) -> np.ndarray:
    """The order in which a memory stores the rows, whose first ones are then like a shard."""
    return np.lexsort((entries.target_start, entries.topic_start, entries.passage, entries.target, entries.topic))


def lengths_of(prepared, rows) -> np.ndarray:
    """[n] tokens of each marked row."""
    passages, passage = np.unique(prepared.pairs['passage'][rows], return_inverse=True)
    mentions = prepared.pairs['topic_mention'][rows], prepared.pairs['target_mention'][rows]
    return markup.MarkedPairs(prepared.records.read(passages), passage, *mentions, prepared.special).lengths


def main():
    """Prints one line."""
    parser = make_parser(__doc__)
    parser.add_argument('--rows', type=int, default=16384, help='pair rows, the first of the memory')
    parser.add_argument('--model', default='tiny', help='a size in gin/models')
    parser.add_argument('--documents', type=int, default=2000, help='of the generated corpus')
    parser.add_argument('--kb', help='a knowledge base, whose model align encodes its text')
    parser.add_argument('--tokens_per_device', type=int, help='of a batch; by default what MarkedPairEncoder chooses')
    add_timing(parser, calls=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        line = measure(options, *open_inputs(options, folder))
    show(line, options.json)


if __name__ == '__main__':
    main()
