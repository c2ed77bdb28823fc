"""Any corpus, question file or entity file is prepared, or refused in words.

The strategies make mostly good records with odd ones between them.
"""

import codecs
import json
import pathlib
import tempfile

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from opql_jax.core.errors import InputError
from opql_jax.corpus.linking import link_titles
from opql_jax.data import markup
from opql_jax.data.prepare import prepare
from opql_jax.data.prepared import Prepared
from opql_jax.data.sampling import COLUMNS
from opql_jax.datasets.jsonl import JsonLines

NAMES = [
    'Ann', 'Bob Low', 'Bob', 'Zoë', '黒澤 明', 'nai\u0308ve', 'a', '𝔉 rau', '\u200b', 'x' * 120,
    'İ',
]  # fmt: skip
MARKS = ['...', '!?', '"', "'s", '\n', '\u2028', '\u00ad', '# A', '- b', '[c](d)']
WORDS = [*NAMES, *MARKS, 'met', 'Dr.', 'U.S.', 'ß']
MAX_TOKENS = 14


def mostly(good, odd, times=40):
    """A strategy that is odd once in so many times."""
    return st.integers(0, times - 1).flatmap(lambda n: odd if n == 0 else good)


words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=30)
hostile = st.sampled_from(['', ' ', '\0', '\ud83c', 'x' * 300])
gaps, ends = st.sampled_from([' ', ' ', '', '. ', '\n']), mostly(st.just(''), hostile)
text = st.builds(lambda words, gap, end: gap.join(words) + end, words, gaps, ends)
odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | text,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(['id', 'start', 'x']), inner, max_size=3)
    ),
    max_leaves=5,
)
keys = mostly(st.sampled_from([*NAMES, 'Q1']), hostile)
ends = {name: mostly(st.integers(-1, 60), odd) for name in ('start', 'end')}
mentions = st.lists(st.fixed_dictionaries(ends | {'entity': mostly(keys, odd)}), max_size=6)


def spread(spans):
    bounds = sorted({n for span in spans for n in (span['start'], span['end']) if type(n) is int})
    pairs = zip(spans, bounds[::2], bounds[1::2])
    return [{**span, 'start': start, 'end': end} for span, start, end in pairs]


documents = st.fixed_dictionaries(
    {'id': mostly(st.integers(0, 50), odd), 'title': mostly(keys, odd), 'text': mostly(text, odd)},
    optional={
        'title_entity': mostly(keys, odd),
        'mentions': mostly(mentions | mentions.map(spread), odd),
    },
)
entities = st.fixed_dictionaries(
    {'id': mostly(st.sampled_from(['Q1', *NAMES[2:]]), odd)},
    optional={'name': mostly(keys, odd), 'aliases': mostly(st.lists(keys, max_size=2), odd)},
)
questions = st.fixed_dictionaries(
    {'id': mostly(st.integers(0, 50), odd), 'question': mostly(text, odd)},
    optional={
        'topics': mostly(
            st.lists(st.tuples(st.integers(-1, 20), st.integers(0, 20)), max_size=2), odd
        ),
        'entities': mostly(st.lists(keys | st.none(), max_size=2), odd),
        'answers': mostly(st.lists(keys, max_size=3), odd),
        'hops': mostly(st.integers(1, 3), odd),
        'type': mostly(text, odd),
        'via': mostly(st.lists(st.lists(keys, max_size=2), max_size=2), odd),
    },
)
odd_lines = st.binary(max_size=20) | st.sampled_from(
    [b'', b'{', b'[' * 5000, b'{"a":' * 5000, b'\xff\xfe', b'7' * 5000, b'NaN']
)


def lines_of(records, most, always=()):
    """Files of the lines `always` and of up to so many records."""
    line = mostly(records.map(lambda record: json.dumps(record).encode()), odd_lines)
    mark = st.integers(0, 59).map({0: codecs.BOM_UTF8, 1: codecs.BOM_UTF16_LE}.get)
    joined = lambda mark, lines: (mark or b'') + b'\n'.join([*always, *lines])
    return st.builds(joined, mark, st.lists(line, max_size=most))


def good(title, text, **fields):
    return json.dumps({'id': title, 'title': title, 'text': text, **fields}).encode()


def link(start, end, entity):
    return {'start': start, 'end': end, 'entity': entity}


ALWAYS = [good('Ann', 'Ann met Bob Low.'), good('Bob Low', 'It was a. Bob Low met Ann, Zoë, Q1.')]
ENTITIES = [b'{"id": "Ann"}', b'{"id": "Bob Low", "aliases": ["Bob"]}']
QUESTIONS = [b'{"id": "always", "question": "who met Ann"}']
inputs = {
    'corpus': lines_of(documents, 8, ALWAYS),
    'entity_lines': st.none() | lines_of(entities, 6, ENTITIES),
    'question_lines': st.none() | lines_of(questions, 4, QUESTIONS),
    'title_prefix': st.booleans(),
    'nested': st.booleans(),
}


PLAIN = {'entity_lines': None, 'question_lines': None, 'title_prefix': True, 'nested': False}


def linked(text, *mentions):
    return {'corpus': good('Ann', text, mentions=mentions), **PLAIN}


def check(corpus, entity_lines, question_lines, **options):
    """Prepares a corpus, says whether it could be; what is prepared must fit together."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / 'corpus.jsonl').write_bytes(corpus)
        reader = {'path': str(root / 'corpus.jsonl'), 'max_reject_fraction': 1.0}
        if entity_lines is not None:
            (root / 'entities.jsonl').write_bytes(entity_lines)
            reader['entities'] = str(root / 'entities.jsonl')
        if question_lines is not None:
            (root / 'questions').mkdir()
            (root / 'questions' / 'train.jsonl').write_bytes(question_lines)
            reader['question_folder'] = str(root / 'questions')
        reader = JsonLines(**reader)
        options |= dict(wordpieces=400, max_tokens=MAX_TOKENS)
        try:
            prepare(kb=str(root), text='out', reader=reader, **options)
        except InputError as error:
            assert len(str(error)) < 2000
            return False
        vocab, read = reader.read(root / 'again.jsonl')
        fits_together(Prepared(root / 'out'), link_titles(read, vocab))
        for row in (root / 'out' / 'rejected.jsonl').read_text().splitlines():
            fields = set(json.loads(row, parse_constant=pytest.fail))
            assert fields == {'file', 'line', 'reason', 'record'}
        return True


def fits_together(prepared, read):
    passages, count = prepared.passages.to_pylist(), len(prepared.vocab)
    for row, record in zip(passages, prepared.records.read(range(len(passages))), strict=True):
        spans = [(m['start'], m['end'], m['entity']) for m in row['mentions']]
        assert all(0 <= start < end <= len(row['text']) for start, end, _ in spans)
        assert all(0 <= entity < count for *_, entity in spans)
        assert spans == sorted(spans, key=lambda span: (span[0], -span[1]))
        assert row['sentence_starts'][0] == 0
        assert row['sentence_starts'] == sorted(set(row['sentence_starts']))
        assert row['sentence_starts'][-1] < len(row['text'])
        assert -1 <= row['title_entity'] < count
        assert len(record.tokens) <= MAX_TOKENS - markup.MARKUP_ROOM
        assert len(record.entities) == len(spans)
        assert all(0 <= a <= b <= len(record.tokens) for a, b in zip(record.starts, record.ends))
    # The passages of a document are its text, but for the space between them and titles put before
    # them.
    texts = {document.id: [] for document in read}
    titles = {document.id: f'{document.title}: ' for document in read}
    for row in passages:
        texts[row['doc_id']].append(row['text'])
    joined = lambda parts: ''.join(''.join(parts).split())
    for document in read:
        whole, rest = joined([document.text]), texts[document.id]
        for part in rest:
            shorter = part.removeprefix(titles[document.id])
            assert whole.startswith((joined([part]), joined([shorter])))
            begins = part if whole.startswith(joined([part])) else shorter
            whole = whole.removeprefix(joined([begins]))
        assert not whole
    pairs = prepared.pairs
    for topic, target, passage, i, j in zip(*(pairs[name] for name in COLUMNS)):
        spans = passages[passage]['mentions']
        assert spans[i]['entity'] == topic != target == spans[j]['entity']
        assert spans[i]['end'] <= spans[j]['start'] or spans[j]['end'] <= spans[i]['start']
    for split in prepared.splits:
        for question in prepared.questions(split):
            assert all(0 <= start < end <= len(question.text) for start, end in question.topics)
            assert all(-1 <= entity < count for entity in question.entities)


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(**inputs)
# A mention may end or begin with space, at the end of a sentence too.
@example(**linked('Ann met Bob. ', link(0, 4, 'Ann'), link(8, 13, 'Bob')))
@example(**linked(' Ann met Bob', link(0, 4, 'Ann'), link(8, 12, 'Bob')))
# Names inside words, and a name longer than a passage.
@example(**linked('a' * 40, *(link(i, i + 1, f'e{i % 3}') for i in range(40))))
@example(**linked('Ann met ' + 'Bob ' * 40, link(0, 3, 'Ann'), link(8, 167, 'Bob')))
# Mentions without tokens.
@example(**linked('\u200b ' * 60, *(link(2 * i, 2 * i + 1, f'e{i % 3}') for i in range(60))))
def test_any_input_is_prepared_or_refused_in_words(**given):
    check(**given)


def test_good_records_of_the_strategies_are_prepared():
    corpus = b'\n'.join(good('Ann', f'Ann met {other}.') for other in NAMES[1:])
    assert check(corpus=corpus + b'\n' + good('Bob', 'Bob met Ann.'), **PLAIN)
