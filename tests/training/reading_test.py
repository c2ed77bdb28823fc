"""The objective of the reader: its loss, row by row, and that it learns to read."""

import json

import jax
import msgspec
import numpy as np
import pytest

from opql_jax.data.prepared import Prepared
from opql_jax.data.reading_examples import ReadingExample
from opql_jax.data.sources.reading import BY_SPANS, SAYS_NO, SAYS_YES, UNANSWERED, ReadingSource
from opql_jax.models import reader as reader_lib
from opql_jax.models.reader import LONGEST, Reader, read_logits
from opql_jax.parallel.mesh import make_mesh
from opql_jax.training import model_config, objectives
from opql_jax.training.state import init_params

import tiny_text_encoder
import tiny_training

ROWS = {24: 6, 48: 2}
THREE = ('Emma saw Lucy again', 'Emma met York', 'song ' * 12)
EXAMPLES = [
    ReadingExample('a', 'who met York', ('Emma: saw Lucy', 'Lucy met York'), ((1, 0, 4),), (0, 1)),
    ReadingExample('a', 'who wrote York', ('Emma saw Lucy',), (), (0,)),
    ReadingExample('a', 'was York built', ('York built',), (), (1,), 'yes'),
    ReadingExample('a', 'was York built', ('York never built',), (), (1,), 'no'),
    ReadingExample('a', 'who saw Lucy', THREE, ((0, 0, 4), (1, 0, 4)), (1, 1, -1)),
]


@pytest.fixture(scope='module')
def text(tmp_path_factory):
    return tiny_text_encoder.write_text(tmp_path_factory.mktemp('text') / 'a')


@pytest.fixture(scope='module')
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp('examples') / 'examples.jsonl'
    lines = [json.dumps(msgspec.structs.asdict(example)) for example in EXAMPLES]
    path.write_text('\n'.join(lines), encoding='utf-8')
    return str(path)


@pytest.fixture(scope='module')
def task_and_params(text, file):
    prepared = Prepared(text)
    vocab_size = prepared.tokenizer.get_vocab_size()
    encoder = tiny_training.encoder(vocab_size=vocab_size, dropout_rate=0.0)
    task = objectives.Reading(examples=file, rows=ROWS).build(prepared, encoder, make_mesh(1))
    return task, task.init(init_params(encoder, len(prepared.vocab), seed=1)), encoder


def test_every_example_comes_once_an_epoch_in_the_shortest_bucket(text, file):
    source = ReadingSource(Prepared(text), objectives.Reading(examples=file, rows={24: 2, 48: 1}))
    buckets = [bucket for step in range(2) for bucket in source[step].inputs]
    verdicts = [verdict for bucket in buckets for verdict in bucket.verdict.tolist()]
    assert sorted(verdicts[:2] + verdicts[3:5]) == [UNANSWERED, SAYS_YES, SAYS_NO, BY_SPANS]
    assert verdicts[2] == verdicts[5] == BY_SPANS  # the long one, again


def test_the_loss_is_that_of_its_rows(task_and_params):
    task, params, encoder = task_and_params
    batch = task.source[0]
    loss, metrics = task.loss(params, batch, None, None)
    spans, supports = [], []
    for bucket in batch.inputs:
        found = read_logits(encoder, params, bucket.tokens, bucket.is_text)
        logits = jax.tree.map(lambda column: np.asarray(column, np.float64), found)
        for row in range(len(bucket.tokens)):
            if bucket.verdict[row] < 0:
                continue
            text = bucket.is_text[row]
            possible = [
                (first, last)
                for first in range(len(text))
                for last in range(first, min(first + LONGEST, len(text)))
                if text[first : last + 1].all()
            ]
            ends = [np.flatnonzero(marks[row]) for marks in (bucket.start, bucket.end)]
            weights = np.exp([logits.spans[row][place] for place in possible])
            verdicts = np.exp(logits.verdicts[row])
            if bucket.verdict[row] == BY_SPANS:
                right = sum(weights[possible.index(place)] for place in zip(*ends))
            else:
                right = verdicts[bucket.verdict[row]]
            spans.append(-np.log(right / (weights.sum() + verdicts.sum())))
            for first, helps in zip(bucket.first[row], bucket.supports[row]):
                if helps >= 0:
                    odds = logits.supports[row, first] * (1 if helps else -1)
                    supports.append(np.log1p(np.exp(-odds)))
    np.testing.assert_allclose(metrics['L_span'], np.mean(spans), rtol=1e-4)
    np.testing.assert_allclose(metrics['L_supports'], np.mean(supports), rtol=1e-4)
    np.testing.assert_allclose(loss, np.mean(spans) + np.mean(supports), rtol=1e-4)


def test_a_few_examples_are_learnt_by_heart_and_read_back(text, file, tmp_path, monkeypatch):
    objective, model = objectives.Reading(examples=file, rows=ROWS), tmp_path / 'kb' / 'reader'
    options = dict(num_steps=400, learning_rate=5e-3, log_every=100)
    tiny_training.run(text, model, objective, **options)
    encoder, params, _, _ = model_config.load(model)
    reader = Reader(encoder, params, Prepared(text).tokenizer)
    readings = reader.read([e.question for e in EXAMPLES], [e.passages for e in EXAMPLES])
    monkeypatch.setattr(reader_lib, '_FEW', 0)  # so that JAX reads
    again = reader.read([e.question for e in EXAMPLES], [e.passages for e in EXAMPLES])
    verdicts = lambda r: [r.unanswered, r.yes, r.no, *r.supports]
    best = []
    for r, by_jax in zip(readings, again):
        np.testing.assert_allclose(verdicts(r), verdicts(by_jax), atol=1e-4)
        probabilities = {span[:3]: span.probability for span in by_jax.spans}
        for span in r.spans[:3]:
            assert abs(span.probability - probabilities.get(span[:3], 0)) < 1e-4
        read = {'': r.unanswered, 'yes': r.yes, 'no': r.no, r.spans[0][:3]: r.spans[0].probability}
        best.append(max(read, key=read.get))
    assert best[0] == (1, 0, 4)
    assert best[1:4] == ['', 'yes', 'no']
    assert best[4] in EXAMPLES[4].answers
