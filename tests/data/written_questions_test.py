"""Documents that were written with questions, and the examples that are made of them."""

import numpy as np
import pytest

from opql_jax.core.errors import InputError
from opql_jax.data import written_questions
from opql_jax.data.reading import titled
from opql_jax.data.reading_examples import HELPS

from examples import table

WRITTEN = """# The weir
Ann Low built the weir
in 1871, and Bo Orr mended it.
Q: Who mended it?
A: Bo Orr | Orr
Q: Who paid for it?
A: -

It is not open.
Q: Is it open?
A: no
# Crows
Crows eat worms.
Q: What do they eat?
A: worms
"""


def test_a_document_has_paragraphs_with_questions(tmp_path):
    path = tmp_path / 'written.txt'
    path.write_text(WRITTEN, encoding='utf-8')
    weir, crows = written_questions.read_written(path)
    first, second = weir.paragraphs
    assert (weir.title, crows.title) == ('The weir', 'Crows')
    assert first.text == 'Ann Low built the weir\nin 1871, and Bo Orr mended it.'
    assert [question.answers for question in first.questions] == [('Bo Orr', 'Orr'), ()]
    assert [question.verdict for question in second.questions] == ['no']


@table("""
    written | problem
    Q: Who?\\nA: - | line 1: a question before a paragraph
    # A\\nText.\\nQ: Who?\\nQ: When?\\nA: - | line 4: a question without an answer
    # A\\nText.\\nA: - | line 3: an answer without a question
    # A\\nText.\\nQ: Who?\\nA: Ann | line 4: the answer is not in the paragraph
    # A\\nText.\\n\\nMore. | line 3: a paragraph without a question
    # A\\nText. | line 3: a paragraph without a question
    # A\\nText.\\n# B | line 3: a paragraph without a question
    Text. | line 1: a paragraph without a title
    \\n | no document in the file
""")
def test_a_fault_is_told_with_its_line(written, problem, tmp_path):
    path = tmp_path / 'written.txt'
    path.write_text(written.replace('\\n', '\n'), encoding='utf-8')
    with pytest.raises(InputError, match=problem):
        written_questions.read_written(path)


def test_examples_of_all_documents_mark_what_was_written_as_the_answer():
    documents = written_questions.documents()
    examples = list(written_questions.examples(documents, np.random.default_rng(0)))
    asked = [
        (document.title, paragraph.text, question)
        for document in documents
        for paragraph in document.paragraphs
        for question in paragraph.questions
    ]
    assert len(examples) == len(asked) > 1000
    assert len({document.title for document in documents}) == len(documents)
    for example, (title, text, question) in zip(examples, asked):
        assert example.question == question.text
        helping = [p for p, helps in zip(example.passages, example.supports) if helps == HELPS]
        assert set(helping) <= {text, titled(title, text)} and len(helping) <= 1
        said = {example.passages[p][start:end] for p, start, end in example.answers}
        known = {answer.casefold() for answer in question.answers}
        assert {answer.casefold() for answer in said} <= known
        assert bool(said) == bool(helping and known) and example.verdict in ('', question.verdict)
    unanswered = np.mean([not (each.answers or each.verdict) for each in examples])
    assert 0.2 < unanswered < 0.45
