"""How many of the names marked in text are recognised after each rule.

python benchmarks/recognition.py --json
python benchmarks/recognition.py --documents 60

The names are the mentions of Re-DocRED, spans that must be met exactly: names, dates and numbers.
Recall is the share of them that is recognised, precision the share of what is recognised that they
mark. The line `spacy` is what the rules start from. `persons`, `organisations` and `places` are the
shares of those recognised that have this kind.
"""

import argparse
from collections.abc import Iterator

import pyarrow as pa
from timing import DATA, run

from opql_jax.corpus import recognition
from opql_jax.corpus.spans import Span
from opql_jax.models.mention_kinds import THING
from opql_jax.training.fit_mention_kinds import KIND_OF_TYPE, read_typed


def measure(options: argparse.Namespace) -> Iterator[dict]:
    """A line for what the rules start from, and for each rule."""
    documents = read_typed(options.data / 'documents.json')[: options.documents]
    # The type of each mention, which its entity begins with.
    marked = [
        {(m.start, m.end): m.entity.split(':')[0] for m in document.mentions or ()}
        for document in documents
    ]
    # The reader puts every sentence on a line of its own, which is no English typography.
    texts = [document.text.replace('\n', ' ') for document in documents]
    batch = pa.RecordBatch.from_pydict({'text': texts})
    recognised = recognition.recognise_batch(batch, rules=())
    spans = [[Span(**span) for span in row] for row in recognised['spans'].to_pylist()]
    yield score('spacy', spans, marked)
    for rule in recognition.RULES:
        spans = [recognition.refine(text, found, [rule]) for text, found in zip(texts, spans)]
        yield score(rule.__name__, spans, marked)


def score(name: str, spans: list[list[Span]], marked: list[dict]) -> dict:
    """What is printed of the spans of each text, by the types that are marked in it."""
    # (marked type, recognised kind) of each span that is right.
    right = [
        (types[span.start, span.end], span.kind)
        for found, types in zip(spans, marked)
        for span in found
        if (span.start, span.end) in types
    ]
    counts, of_type = {'spans': sum(map(len, spans)), 'marked': sum(map(len, marked))}, {}
    for type, kind in KIND_OF_TYPE.items():
        if kind != THING:
            kinds = [found for of, found in right if of == type]
            of_type[f'{kind}s'] = round(kinds.count(kind) / max(1, len(kinds)), 3)
    recall, precision = (round(len(right) / counts[of], 3) for of in ('marked', 'spans'))
    return {'measure': name, 'recall': recall, 'precision': precision, **of_type, **counts}


if __name__ == '__main__':
    run(__doc__, measure, data=DATA / 'redocred', documents=int)
