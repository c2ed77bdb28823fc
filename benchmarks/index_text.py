"""CPU seconds of each stage of `opql index`, and the peak memory after it.

python benchmarks/index_text.py --passages 10000 --data ../shared/data/multihop --json
python benchmarks/index_text.py --passages 5000,10000,20000 --json

The text is that of the corpora `*_corpus.jsonl` in a folder (`{id, title, text}` a line), or
generated; where there are fewer documents than passages asked for, further copies say which they
are, so that none is left out as one that was read before. All stages run in one process and one
after another. CPU seconds are those of all its threads, which other work on the machine hardly
changes; recognition, splitting, tokenising and encoding are done by `--engine spark`, or several
processes, at the same cost, divided among them.
"""

import collections
import contextlib
import itertools
import multiprocessing
import pathlib
import resource
import tempfile
import time
from collections.abc import Iterator
from unittest import mock

from timing import make_parser, show

from opql_jax.corpus.json_lines import read_json_lines, write_json_lines
from opql_jax.datasets.synthetic import pages, world
from opql_jax.kb.text import index_text as index_lib

# How stages are called here, by the function that does them.
STAGES = {
    'recognise_batch': 'recognition',
    'split_batch': 'splitting',
    'tokenise_batch': 'tokenising',
    'encode_batch': 'encoding',
}


def main() -> None:
    """Prints a line for each stage, and one for all."""
    parser = make_parser(__doc__, passages=([1000], 'documents of about a passage each'))
    parser.add_argument(
        '--data', type=pathlib.Path, help='a folder of *_corpus.jsonl; generated text if left out'
    )
    options = parser.parse_args()
    for count in options.passages:
        with tempfile.TemporaryDirectory() as folder:
            corpus = pathlib.Path(folder, 'corpus.jsonl')
            texts = enumerate(itertools.islice(_texts(options.data), count))
            write_json_lines(
                corpus, ({'id': i, 'title': title, 'text': text} for i, (title, text) in texts)
            )
            # In a process of its own, whose peak memory is that of this run alone.
            with multiprocessing.get_context('spawn').Pool(1) as pool:
                lines = pool.apply(_measure, (corpus, pathlib.Path(folder, 'kb')))
        for line in lines:
            show({'passages': count, **line}, options.json)


def _texts(data: pathlib.Path | None) -> Iterator[tuple[str, str]]:
    """Titles and texts without end."""
    if data is None:
        documents = [(one.title, one.text) for one in pages.documents(world.generate(0, 2000))]
    else:
        files = sorted(data.glob('*_corpus.jsonl'))
        records = (record for file in files for _, record in read_json_lines(file))
        documents = [(record['title'], record['text']) for record in records]
    for copy in itertools.count():
        for title, text in documents:
            yield (f'{title} ({copy})', f'{text} This is copy {copy}.') if copy else (title, text)


def _measure(corpus: pathlib.Path, kb: pathlib.Path) -> list[dict]:
    spent: dict[str, float] = collections.defaultdict(float)
    peak: dict[str, float] = {}

    @contextlib.contextmanager
    def stage(name):
        """Counts what is spent, without what stages inside of it count."""
        start, inside = time.process_time(), sum(spent.values())
        try:
            yield
        finally:
            spent[name] += time.process_time() - start - (sum(spent.values()) - inside)
            peak[name] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6

    def counted(function, name):
        def call(*arguments, **named):
            with stage(name):
                return function(*arguments, **named)

        return call

    def map_batches(function, batches):
        return map(counted(function, STAGES[function.func.__name__]), batches)

    with contextlib.ExitStack() as stack:
        for module, name, told in (
            (index_lib, 'prepare', 'names, pairs and files'),
            (index_lib.build_lib, 'build', 'memory'),
            (index_lib, 'index_passages', 'retrieval index'),
        ):
            function = counted(getattr(module, name), told)
            stack.enter_context(mock.patch.object(module, name, function))
        with stage('all else'):
            index_lib.index_text([corpus], kb, map_batches=map_batches)
    total = sum(spent.values())
    lines = [
        {
            'stage': name,
            'cpu_seconds': round(seconds, 1),
            'share': round(seconds / total, 3),
            'peak_gb': round(peak[name], 2),
        }
        for name, seconds in spent.items()
    ]
    size = sum(path.stat().st_size for path in kb.rglob('*') if path.is_file())
    documents = sum(1 for _ in read_json_lines(corpus))
    whole = {'stage': 'whole', 'cpu_seconds': round(total, 1)}
    whole['documents_per_cpu_second'] = round(documents / total, 1)
    whole['peak_gb'] = max(line['peak_gb'] for line in lines)
    return [*lines, whole | {'folder_gb': round(size / 1e9, 3)}]


if __name__ == '__main__':
    main()
