"""Answers with the reader: it reads what is found, and what it reads is shown as it is."""

import dataclasses
import subprocess
import sys

from opql_jax.kb.answers import format_answer
from opql_jax.kb.prediction_record import prediction_record
from opql_jax.kb.text.evidence_finder import whole_words

from examples import table

FOLDER = 'trios_folder'
QUESTION = 'Who designed the Analytical Engine?'


def test_the_passages_that_are_found_are_read(kb):
    question = kb.question(QUESTION)
    (followed,) = kb.text_answerer.follow([question])
    (evidence,) = kb.read([question], [followed.answer])
    titles = [kb.prepared.passages['title'][number].as_py() for number in evidence.passages]
    assert 'Charles Babbage' in titles and len(evidence.reading.supports) == len(titles)
    for span, text in zip(evidence.reading.spans, evidence.texts):
        if span.end > 0:
            assert text in kb.prepared.passages['text'][evidence.passages[span.passage]].as_py()
    found = sum(span.probability for span in evidence.reading.spans)
    assert found + evidence.reading.unanswered <= 1 + 1e-4


def test_a_first_answer_waits_for_no_import_that_it_does_not_need(trios_folder):
    script = 'import sys, opql_jax; opql_jax.open(sys.argv[1]).ask(sys.argv[2])'
    script += '; print(*sys.modules)'
    command = [sys.executable, '-c', script, trios_folder, QUESTION]
    imported = set(subprocess.check_output(command, text=True).split())
    assert 'opql_jax.models.reader' in imported
    assert not imported & {'jax', 'flax', 'pandas', 'scipy.special', 'spacy', 'starlette', 'gin'}


def test_an_answer_that_was_read_is_shown_with_its_sentence(kb):
    answer = kb.ask(QUESTION)
    read = [entity for entity in answer.entities.tolist() if entity in answer.read]
    assert read and format_answer(answer).count('\n  answers, by probability\n') == 1
    for entity in read:
        facts, texts = [path[-1] for path in answer.paths(entity)], kb.prepared.passages['text']
        assert any(fact.sentence in texts[fact.passage].as_py() for fact in facts)
    answers = prediction_record(answer, 1)['answers']
    assert [one['entity'] for one in answers] == answer.names
    assert [('key' in one) for one in answers] == (answer.entities >= 0).tolist()


def test_what_only_following_found_is_read_too(kb):
    asked, other = kb.question(QUESTION), kb.question('Where was Marie Curie born?')
    (followed,) = kb.text_answerer.follow([other])
    found = kb.answer([other])[0].evidence.passages
    (evidence,) = kb.read([asked], [followed.answer])
    (alone,) = kb.read([asked], [kb.text_answerer.follow([asked])[0].answer])
    rests_on = dataclasses.replace(followed.answer, store=kb.store, question=other)
    rests_on = rests_on.paths(int(rests_on.entities[0]), 1)[0][-1].passage
    assert rests_on in found and rests_on not in alone.passages and rests_on in evidence.passages
    assert len(set(evidence.passages)) == len(evidence.passages) == len(alone.passages)
    assert evidence.passages[0] == alone.passages[0]


def test_the_last_of_several_steps_is_read_as_a_question_of_its_own(kb):
    question = kb.question('Where was the designer of the Analytical Engine born?')
    (followed,) = kb.text_answerer.follow([question])
    assert followed.last.question.text == 'Where was Charles Babbage born?'
    assert 0 < followed.last.share <= 1
    (evidence,) = kb.text_answerer.read([question], [followed], kb.read)
    titles = [kb.prepared.passages['title'][number].as_py() for number in evidence.passages]
    assert 'Charles Babbage' in titles and evidence.step is not None
    assert len(evidence.before) == len(evidence.named) == len(titles)
    assert kb.text_answerer.follow([kb.question(QUESTION)])[0].last is None


@table("""
    text | read | whole
    It has 1,345,596 inhabitants. | 345 | 1,345,596
    some 0.3 °C per decade | 0 | 0.3 °C
    a single-step, 5-cylinder engine | 5 | 5
    the Dutch-born painter | Dutch | Dutch
    CEO Satya Nadella, founder | ya Nadella | Satya Nadella
""")
def test_an_answer_neither_begins_nor_ends_within_a_word(text, read, whole):
    start = text.index(read)
    start, end = whole_words(text, start, start + len(read))
    assert text[start:end] == whole
