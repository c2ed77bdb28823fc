"""Answers with the reader: it reads the passages that are found, and what it finds there is shown
as it stands.
"""

import dataclasses
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse

pytest.importorskip('spacy', reason='spaCy is not installed')

import opql_jax
from opql_jax.kb.answers import format_answer
from opql_jax.kb.prediction_record import prediction_record
from opql_jax.kb.text.evidence_finder import EvidenceFinder
from opql_jax.kb.text.index_text import index_text
from opql_jax.models.reader import Reading, Span

from trios import TRIOS, write

QUESTION = 'Who designed the Analytical Engine?'


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp('read')
    for name, trio in TRIOS.items():
        write(root / 'articles' / name, trio.documents)
    index_text([root / 'articles'], root / 'kb', processes=1)
    return root / 'kb'


@pytest.fixture(scope='module')
def kb(folder):
    with opql_jax.open(folder) as opened:
        yield opened


def test_the_passages_that_are_found_are_read(kb):
    question = kb.question(QUESTION)
    (followed,) = kb.text_answerer.follow([question])
    (evidence,) = kb.read([question], [followed.answer])
    titles = [kb.prepared.passages['title'][number].as_py() for number in evidence.passages]
    assert 'Charles Babbage' in titles and len(evidence.reading.supports) == len(titles)
    for span, text in zip(evidence.reading.spans, evidence.texts):
        if span.end > 0:
            assert text in kb.prepared.passages['text'][evidence.passages[span.passage]].as_py()
    assert (
        sum(span.probability for span in evidence.reading.spans) + evidence.reading.unanswered
        <= 1 + 1e-4
    )


def test_a_first_answer_waits_for_no_import_that_it_does_not_need(folder):
    script = (
        'import sys, opql_jax; opql_jax.open(sys.argv[1]).ask(sys.argv[2]); print(*sys.modules)'
    )
    asked = subprocess.run(
        [sys.executable, '-c', script, folder, QUESTION], capture_output=True, text=True, check=True
    )
    imported = set(asked.stdout.split())
    assert 'opql_jax.models.reader' in imported and not imported & {
        'pandas',
        'scipy.optimize',
        'spacy',
        'starlette',
        'gin',
    }


def test_an_answer_that_was_read_is_shown_with_its_sentence(kb):
    answer = kb.ask(QUESTION)
    probabilities = answer.probabilities.tolist()
    assert probabilities == sorted(probabilities, reverse=True) and answer.evidence is not None
    read = [entity for entity in answer.entities.tolist() if entity in answer.read]
    assert read and format_answer(answer).count('\n  read\n') == 1
    for entity in read:
        facts = [path[-1] for path in answer.paths(entity)]
        assert any(
            fact.sentence in kb.prepared.passages['text'][fact.passage].as_py() for fact in facts
        )
    record = prediction_record(answer, 1)
    assert (
        [one['entity'] for one in record['answers']]
        == [member.name for member in answer]
        == answer.names
    )
    assert [('key' in one) for one in record['answers']] == [
        entity >= 0 for entity in answer.entities.tolist()
    ]


@pytest.mark.parametrize(
    'read, shown', [('##', None), ('## Parts\n', 'Parts'), ('**Oak**', 'Oak'), ('C#', 'C#')]
)
def test_marks_of_markdown_neither_begin_nor_end_what_is_read(read, shown):
    text = '## Parts\nThe frame is of **Oak** and the program in C#.'
    row = {'text': text, 'title': '', 'title_entity': -1, 'sentence_starts': [0, 9], 'mentions': []}
    index = SimpleNamespace(
        titles=[''],
        texts=[text],
        entities_of_sentence=scipy.sparse.csr_array((2, 1)),
        first_sentence=[0, 2],
        title_entity=np.array([-1]),
    )
    ranked = SimpleNamespace(passage=0, reason=SimpleNamespace(previous=None))
    start = text.index(read)
    reading = Reading([Span(0, start, start + len(read), 1.0)], 0.0, 0.0, 0.0, np.ones(1))
    finder = EvidenceFinder(
        SimpleNamespace(passages=pa.Table.from_pylist([row])),
        [],
        SimpleNamespace(index=index, rank=lambda asked, most: [[ranked]]),
        SimpleNamespace(read=lambda asked, texts: [reading]),
    )
    followed = SimpleNamespace(entities=np.zeros(0, int))
    (evidence,) = finder.find([SimpleNamespace(text='')], [followed])
    assert list(evidence.texts) == ([] if shown is None else [shown])


def test_what_only_following_found_is_read_too(kb):
    asked, other = kb.question(QUESTION), kb.question('Where was Marie Curie born?')
    (followed,) = kb.text_answerer.follow([other])
    found = kb.answer([other])[0].evidence.passages
    (evidence,) = kb.read([asked], [followed.answer])
    (alone,) = kb.read([asked], [kb.text_answerer.follow([asked])[0].answer])
    rests_on = dataclasses.replace(followed.answer, store=kb.store, question=other)
    rests_on = rests_on.paths(int(rests_on.entities[0]), 1)[0][-1].passage
    assert rests_on in found and rests_on not in alone.passages and rests_on in evidence.passages
    assert (
        len(set(evidence.passages)) == len(evidence.passages) == len(alone.passages)
        and evidence.passages[0] == alone.passages[0]
    )


def test_the_last_of_several_steps_is_read_as_a_question_of_its_own(kb):
    question = kb.question('Where was the designer of the Analytical Engine born?')
    (followed,) = kb.text_answerer.follow([question])
    assert (
        followed.last.question.text == 'Where was Charles Babbage born?'
        and 0 < followed.last.share <= 1
    )
    (evidence,) = kb.text_answerer.read([question], [followed], kb.read)
    titles = [kb.prepared.passages['title'][number].as_py() for number in evidence.passages]
    assert 'Charles Babbage' in titles and evidence.step is not None
    assert len(evidence.before) == len(evidence.named) == len(titles)
    assert kb.text_answerer.follow([kb.question(QUESTION)])[0].last is None


def test_without_the_reader_no_passage_is_read(kb, folder):
    with opql_jax.open(folder, reader=False) as opened:
        answer = opened.ask(QUESTION)
        assert opened.identity != kb.identity
    assert (
        answer.evidence is None
        and not answer.read
        and not answer.phrases
        and (answer.entities >= 0).all()
    )
