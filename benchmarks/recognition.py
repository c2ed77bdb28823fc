"""How many of the names marked in text are recognised after each rule, and how fast.

Also which are found to be the same.

python benchmarks/recognition.py --json
python benchmarks/recognition.py --documents 60

The names are the mentions of Re-DocRED, spans that must be met exactly: names, dates and numbers.
Recall is the share of them that is recognised, precision the share of what is recognised that they
mark. The line `spacy` is what the rules start from. `persons`, `organisations` and `places` are the
shares of those recognised that have this kind.

`one entity` is about pairs of differently spelt names of a document: recall is the share of those
marked as one that are found to be one, and precision the share of those found to be one that are
marked so. Adjectives are marked as one with their countries, and never found to be.
"""

import collections
import itertools
import time

import pyarrow as pa
from timing import DATA, make_parser, show

from opql_jax.corpus import recognition
from opql_jax.corpus.documents import Document
from opql_jax.corpus.name_resolution import fold, resolve
from opql_jax.corpus.spans import Span
from opql_jax.models.mention_kinds import THING
from opql_jax.training.fit_mention_kinds import KIND_OF_TYPE, read_typed


def main() -> None:
    """Prints a line for each rule, one for names of one entity, and one for the speed."""
    parser = make_parser(__doc__, data=(DATA[0] / 'redocred', 'the folder of documents.json'))
    parser.add_argument('--documents', type=int, help='how many; all if not given')
    options = parser.parse_args()
    documents = read_typed(options.data / 'documents.json')[: options.documents]
    marked = [
        {(m.start, m.end): m.entity for m in document.mentions or ()} for document in documents
    ]
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
    plain = [Document(d.id, d.title, text, None, d.title) for d, text in zip(documents, texts)]
    lines.append(_score_entities(plain, spans, marked))
    words = sum(len(text.split()) for text in texts)
    speed = {'words': words, 'words_per_cpu_second': round(words / spent)}
    for line in [*lines, {'measure': 'speed', **speed}]:
        show(line, options.json)


def _batch(texts: list[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({'text': texts})


def _type(key: str) -> str:
    return key.split(':')[0]


def _score(name: str, spans: list[list[Span]], marked: list[dict]) -> dict:
    found = [{(span.start, span.end): span.kind for span in each} for each in spans]
    # (marked type, recognised kind) of each span that is right.
    right = [
        (_type(b[span]), a[span]) for a, b in zip(found, marked) for span in a.keys() & b.keys()
    ]
    counts, of_type = {'spans': sum(map(len, found)), 'marked': sum(map(len, marked))}, {}
    for type, kind in KIND_OF_TYPE.items():
        if kind != THING:
            kinds = [found for of, found in right if of == type]
            of_type[f'{kind}s'] = round(kinds.count(kind) / max(1, len(kinds)), 3)
    recall, precision = (round(len(right) / counts[of], 3) for of in ('marked', 'spans'))
    return {'measure': name, 'recall': recall, 'precision': precision, **of_type, **counts}


def _score_entities(documents: list[Document], spans: list[list[Span]], marked: list[dict]) -> dict:
    counts: collections.Counter[tuple[bool, bool]] = collections.Counter()
    for document, found, entities in zip(documents, spans, marked):
        _, [resolved] = resolve([document], [found])
        met = {}  # a name by its spelling, its entity as found, and as marked
        for mention in resolved.mentions or ():
            entity = entities.get((mention.start, mention.end))
            if entity is not None and _type(entity) in KIND_OF_TYPE:
                met[fold(document.text[mention.start : mention.end])] = mention.entity, entity
        for one, other in itertools.combinations(met.values(), 2):
            counts[one[0] == other[0], one[1] == other[1]] += 1
    both = counts[True, True]
    return {
        'measure': 'one entity',
        'recall': round(both / max(1, both + counts[False, True]), 3),
        'precision': round(both / max(1, both + counts[True, False]), 3),
        'pairs': both + counts[False, True],
    }


if __name__ == '__main__':
    main()
