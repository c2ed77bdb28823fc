"""How many of the names that people marked in text are recognised, after each rule in turn, and how fast.

python benchmarks/recognition.py --json
python benchmarks/recognition.py --documents 60

The names are the mentions of Re-DocRED, spans that must be met exactly: names, dates and numbers. Recall is the share of them that
is recognised, precision the share of what is recognised that they mark. The line `spacy` is what the rules start from.
"""

import pathlib
import tempfile
import time

import pyarrow as pa
from command_line import make_parser, show

from opql_jax.corpus import recognition
from opql_jax.corpus.spans import Span
from opql_jax.datasets import docred


def main() -> None:
    """Prints a line for each rule, and one for the speed."""
    parser = make_parser(__doc__)
    parser.add_argument('--data', type=pathlib.Path, default='../shared/data/redocred', help='documents.json, rel_info.json')
    parser.add_argument('--documents', type=int, help='how many; all if not given')
    options = parser.parse_args()
    relations = docred.read_relations(options.data / 'rel_info.json')
    with tempfile.TemporaryDirectory() as folder:
        read = docred.read_documents(
            options.data / 'documents.json', relations, rejected_path=pathlib.Path(folder) / 'rejected.jsonl'
        )
    documents = [each.document for each in read[: options.documents]]
    marked = [{(m.start, m.end) for m in document.mentions or ()} for document in documents]
    # The reader puts every sentence on a line of its own, which is no English typography.
    texts = [document.text.replace('\n', ' ') for document in documents]
    recognition.load()  # reads the model's files for the first time
    recognition.recognise_batch(_batch(texts[:1]))
    start = time.process_time()
    recognised = recognition.recognise_batch(_batch(texts), rules=())
    spent = time.process_time() - start
    spans = [[Span(**span) for span in row] for row in recognised['spans'].to_pylist()]
    lines = [_score('spacy', spans, marked)]
    for rule in recognition.RULES:
        spans = [recognition.refine(text, found, [rule]) for text, found in zip(texts, spans)]
        lines.append(_score(rule.__name__, spans, marked))
    words = sum(len(text.split()) for text in texts)
    for line in [*lines, {'measure': 'speed', 'words': words, 'words_per_cpu_second': round(words / spent)}]:
        show(line, options.json)


def _batch(texts: list[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({'text': texts})


def _score(name: str, spans: list[list[Span]], marked: list[set]) -> dict:
    found = [{(span.start, span.end) for span in each} for each in spans]
    right, all_marked = sum(len(a & b) for a, b in zip(found, marked)), sum(map(len, marked))
    return {
        'measure': name,
        'recall': round(right / all_marked, 3),
        'precision': round(right / sum(map(len, found)), 3),
        'spans': sum(map(len, found)),
        'marked': all_marked,
    }


if __name__ == '__main__':
    main()
