"""From text to pairs: how fast a core reads a dump, splits and tokenises its articles, and what mining pairs costs.

python benchmarks/corpus.py --json
python benchmarks/corpus.py --documents 3000 --mentions 1000000,10000000 --pair_modes all --json
python benchmarks/corpus.py --mentions 100000000 --pair_modes title --memory 4GB --numpy_mentions 0 --json

The dump is the generated world with templates, tables, notes and redirects. Its pages are short, so there are more pages and links
per megabyte than in Wikipedia. Rates per core use CPU seconds, which other work on the machine hardly changes. The reader is
compared with the parser's own tree (`mwparserfromhell.parse`, its links and `strip_code`), pair mining with one sort of all pairs
in numpy, each over the same text and mentions. Pairs are mined from Arrow to a Parquet file in a process of its own, whose
peak memory (Linux) includes `input_gb`, the passages.

The last line projects the time for English Wikipedia, whose size is given by flags: parts are read, split and tokenised on all
cores, and the rest (passes over the articles, training a tokenizer, mining) runs in one process. Mining is assumed to grow with
n log n, without what it writes to disk when memory is short.
"""

import concurrent.futures
import functools
import math
import multiprocessing
import pathlib
import re
import tempfile
import time
from collections.abc import Callable
from typing import Any

import mwparserfromhell
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from command_line import integers, make_parser, show

from opql_jax.corpus import pairs, tables
from opql_jax.corpus.linking import link_documents
from opql_jax.corpus.pairs import MODES
from opql_jax.corpus.splitting import split_batch
from opql_jax.data import passage_records
from opql_jax.data.tokenizer import token_counter, train_wordpiece
from opql_jax.datasets.synthetic.world import generate
from opql_jax.datasets.wikipedia import dump
from opql_jax.datasets.wikipedia.reader import Wikipedia
from opql_jax.datasets.wikipedia.titles import Site
from opql_jax.datasets.wikipedia.wikitext import Converter

from dump_writer import write_world

MENTIONS_PER_PASSAGE = 8
MAX_TOKENS = 122  # 128 with room for the markup
# Passes of `prepare` over the articles: counting, training a tokenizer, checking ids, linking.
PASSES = 4


def cpu_seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """The CPU time of a call, and its result."""
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def text_stages(options, folder: pathlib.Path) -> tuple[dict, dict]:
    """The lines of the dump reader and of the stages that its articles go through."""
    part = write_world(folder / 'world.xml.bz2', generate(0, options.documents))
    reader = Wikipedia(str(part), str(folder / 'work'), processes=1, min_links=0)
    skip = dump.SkipPatterns(reader.skip_titles, reader.skip_templates)
    texts = [page.text for _, page in dump.pages(part)]
    size = sum(len(text.encode()) for text in texts) / 1e6
    spent, (pages,) = cpu_seconds(lambda: dump.read_parts([part], folder / 'work', skip, processes=1))
    links = sum(map(len, pq.read_table(pages, columns=['links'])['links'].to_pylist()))
    some = [text for text in texts if text and not text.startswith('#')][: options.tree_pages]
    converter = Converter(Site())
    converted, _ = cpu_seconds(lambda: [converter.convert(text) for text in some])
    tree, _ = cpu_seconds(lambda: [by_tree(text) for text in some])
    reading = {
        'stage': 'dump',
        'wikitext_mb': round(size, 2),
        'pages': len(texts),
        'links': links,
        'mb_per_core_second': round(size / spent, 3),
        'tree_over_converter': round(tree / converted, 2),
    }

    _, (vocab, documents) = cpu_seconds(lambda: reader.read(folder / 'rejected.jsonl'))
    iterating, documents = cpu_seconds(lambda: list(documents))
    mentions = sum(len(document.mentions) for document in documents)
    training, tokenizer = cpu_seconds(lambda: train_wordpiece((document.text for document in documents), options.wordpieces))
    linking, linked = cpu_seconds(lambda: list(link_documents(documents, vocab)[0]))
    split = functools.partial(split_batch, count_tokens=token_counter(tokenizer), max_tokens=MAX_TOKENS)
    splitting, cut = cpu_seconds(lambda: list(map(split, linked)))
    tokenising, _ = cpu_seconds(lambda: [passage_records.tokenise_batch(batch, tokenizer) for batch in cut])
    prose = sum(len(document.text.encode()) for document in documents) / 1e6
    return reading, {
        'stage': 'passages',
        'prose_mb': round(prose, 2),
        'mentions': mentions,
        'pass_us_a_mention': round(1e6 * iterating / mentions, 2),
        'link_us_a_mention': round(1e6 * linking / mentions, 2),
        'train_tokenizer_mb_per_core_second': round(prose / training, 3),
        'split_mb_per_core_second': round(prose / splitting, 3),
        'tokenise_mb_per_core_second': round(prose / tokenising, 3),
    }


def by_tree(text: str) -> tuple[str, list]:
    """The text and the links of a page from the parser's tree."""
    tree = mwparserfromhell.parse(text)
    return tree.strip_code(), tree.filter_wikilinks()


def passages_of(mentions: int) -> pa.Table:
    """Passages with about this many mentions in all, of entities with skewed frequencies; the first mention is the title's."""
    rng = np.random.default_rng(0)
    counts = 1 + rng.poisson(MENTIONS_PER_PASSAGE - 1, max(1, mentions // MENTIONS_PER_PASSAGE))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    # As in English Wikipedia, where a million entities have 93.5 M mentions.
    entity = (max(100, min(1_000_000, mentions // 90)) * rng.random(offsets[-1]) ** 3).astype(np.int32)
    start = (10 * (np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts))).astype(np.int32)
    columns = [pa.array(column) for column in (start, start + 5, entity)]
    items = pa.StructArray.from_arrays(columns, fields=list(tables.MENTION))
    lists = pa.ListArray.from_arrays(pa.array(offsets), items)
    return pa.table({'title_entity': entity[offsets[:-1]], 'mentions': lists})


def mine(mentions: int, stage: str, settings: dict) -> dict:
    """The line of mining pairs ('title', 'all') or of 'mutual_information'; call it in a new process."""
    pairs.DUCKDB_SETTINGS.update(settings)
    passages = passages_of(mentions)
    before, wall, cpu = _memory('VmRSS'), time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        if stage in MODES:
            rows = tables.write_table(pathlib.Path(folder, 'pairs.parquet'), pairs.mine_pairs(passages, stage), tables.PAIRS)
        else:
            rows = len(pairs.mutual_information(passages, min_passages=5)['pmi'])
    return {
        'stage': stage,
        'mentions': len(passages['mentions'].combine_chunks().flatten()),
        'passages': len(passages),
        'rows': rows,
        'seconds': round(time.perf_counter() - wall, 2),
        'cpu_seconds': round(time.process_time() - cpu, 2),
        'input_gb': round(before, 2),
        'peak_gb': round(_memory('VmHWM'), 2),
    }


def mine_by_numpy(mentions: int, mode: str) -> dict:
    """CPU time and number of the same pairs, made and sorted all at once."""
    table, _ = pairs.mention_tables(passages_of(mentions))
    passage, mention, entity = (table[name].to_numpy() for name in ('passage', 'mention', 'entity'))
    start = time.process_time()
    sizes = np.bincount(passage)[passage]
    first = np.repeat(np.arange(len(passage)), sizes)
    second = np.arange(len(first)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + first - mention[first]
    kept = entity[first] != entity[second]
    if mode == 'title':
        kept &= (mention[first] == 0) | (mention[second] == 0)
    first, second = first[kept], second[kept]
    order = np.lexsort((mention[second], mention[first], passage[first], entity[second], entity[first]))
    first, second = first[order], second[order]
    title = (mention[first] == 0) | (mention[second] == 0)
    columns = [entity[first], entity[second], passage[first], mention[first], mention[second], title]
    with tempfile.TemporaryDirectory() as folder:
        sorted_rows = pa.table(columns, schema=tables.PAIRS)
        tables.write_table(pathlib.Path(folder, 'pairs.parquet'), sorted_rows.to_batches(pairs.BATCH_ROWS), tables.PAIRS)
    return {'numpy_cpu_seconds': round(time.process_time() - start, 2), 'rows': len(first)}


def _memory(field: str) -> float:
    """A field of /proc/self/status, in gigabytes."""
    return int(re.search(rf'{field}:\s+(\d+) kB', pathlib.Path('/proc/self/status').read_text())[1]) / 1e6


def in_new_process(function, *arguments):
    """Calls a function in a new process."""
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context('spawn')) as pool:
        return pool.submit(function, *arguments).result()


def projection(options, reading: dict, cutting: dict, mined: list[dict]) -> dict:
    """Hours of each part of `prepare` for a corpus of the stated size."""
    prose, mentions = 1000 * options.prose_gb, options.wikipedia_mentions
    seconds = {
        'read': 1000 * options.wikitext_gb / reading['mb_per_core_second'] / options.cores,
        'passes': mentions * (PASSES * cutting['pass_us_a_mention'] + cutting['link_us_a_mention']) / 1e6,
        'train_tokenizer': prose / cutting['train_tokenizer_mb_per_core_second'],
        'split': prose / cutting['split_mb_per_core_second'] / options.cores,
        'tokenise': prose / cutting['tokenise_mb_per_core_second'] / options.cores,
    }
    for line in mined:  # the largest of each stage comes last
        growth = mentions * math.log(mentions) / (line['mentions'] * math.log(line['mentions']))
        seconds[line['stage']] = growth * line['cpu_seconds'] / pairs.DUCKDB_SETTINGS['threads']
    # A corpus is mined in one of the modes.
    total = sum(seconds.values()) - min(seconds.get(mode, 0) for mode in MODES)
    return {
        'stage': 'projection',
        'wikitext_gb': options.wikitext_gb,
        'prose_gb': options.prose_gb,
        'mentions': int(mentions),
        'cores': options.cores,
        'hours_of': {name: round(value / 3600, 3) for name, value in seconds.items()},
        'hours': round(total / 3600, 2),
    }


def main():
    """Prints a line for each stage, and the projection."""
    parser = make_parser(__doc__)
    parser.add_argument('--documents', type=int, default=3000, help='of the generated dump')
    parser.add_argument('--tree_pages', type=int, default=300, help="pages given to the parser's tree")
    parser.add_argument('--wordpieces', type=int, default=4000)
    parser.add_argument('--mentions', type=integers, default='1000000', help='mention rows to mine pairs from, increasing')
    parser.add_argument('--pair_modes', default='title,all')
    parser.add_argument('--numpy_mentions', type=int, default=1_000_000, help='numpy sorts up to this many')
    parser.add_argument('--memory', help="DuckDB's limit, such as 4GB; by default most of the machine's")
    parser.add_argument('--wikitext_gb', type=float, default=90, help='of the projection: all text of the dump')
    parser.add_argument('--prose_gb', type=float, default=20, help='of the projection: the text that is kept')
    parser.add_argument('--wikipedia_mentions', type=float, default=93.5e6, help='of the projection')
    parser.add_argument('--cores', type=int, default=16, help='of the projection')
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        reading, cutting = text_stages(options, pathlib.Path(folder))
    show(reading, options.json)
    show(cutting, options.json)
    mined, settings = [], {'memory_limit': options.memory} if options.memory else {}
    for mentions in options.mentions:
        for stage in (*options.pair_modes.split(','), 'mutual_information'):
            line = in_new_process(mine, mentions, stage, settings)
            if stage in MODES and mentions <= options.numpy_mentions:
                other = in_new_process(mine_by_numpy, mentions, stage)
                if other['rows'] != line['rows']:
                    raise RuntimeError(f'numpy found {other["rows"]} rows, DuckDB {line["rows"]}')
                line['numpy_over_duckdb'] = round(other['numpy_cpu_seconds'] / line['cpu_seconds'], 2)
            mined.append(line)
            show(line, options.json)
    show(projection(options, reading, cutting, mined), options.json)


if __name__ == '__main__':
    main()
