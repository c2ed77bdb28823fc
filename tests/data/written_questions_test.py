"""What was written with questions, one text or a set of linked ones, and the examples of it."""

import numpy as np
import pytest

from opql_jax.core.errors import InputError
from opql_jax.data import linked_questions, written_questions
from opql_jax.data.reading import titled
from opql_jax.data.reading_examples import DOES_NOT, HELPS

from examples import table


@pytest.fixture
def file(tmp_path):
    """Writes a text, in which a backslash and an n may stand for a line break; gives its path."""

    def file(text):
        (tmp_path / 'written.txt').write_text(text.replace('\\n', '\n'), encoding='utf-8')
        return tmp_path / 'written.txt'

    return file


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


def test_a_document_has_paragraphs_with_questions(file):
    weir, crows = written_questions.read_written(file(WRITTEN))
    first, second = weir.paragraphs
    assert (weir.title, crows.title) == ('The weir', 'Crows')
    assert first.text == 'Ann Low built the weir\nin 1871, and Bo Orr mended it.'
    assert [question.answers for question in first.questions] == [('Bo Orr', 'Orr'), ()]
    assert [question.verdict for question in second.questions] == ['no']


LINKED = """## Weirs
# Orr Weir
Bo Orr built the weir
in 1871.
# Bo Orr
Orr was born in Ayr.
# Ayr
A town by the sea.
Q: Where was the builder of the weir born?
A: Ayr
F: Orr Weir; Bo Orr
Q: Which of them is by the sea, Ayr or Orr Weir?
A: Ayr
F: Orr Weir; Ayr
Q: Was Bo Orr born inland?
A: no
F: Bo Orr; Ayr
Q: When was the builder of the weir born?
A: -
F: Orr Weir; Bo Orr
"""


def test_a_set_has_documents_and_questions_that_need_some_of_them(file):
    (weirs,) = linked_questions.read_sets(file(LINKED))
    assert weirs.name == 'Weirs' and list(weirs.documents) == ['Orr Weir', 'Bo Orr', 'Ayr']
    assert weirs.documents['Orr Weir'] == 'Bo Orr built the weir\nin 1871.'
    last = [question.needed[-1] for question in weirs.questions]
    assert last == ['Bo Orr', 'Ayr', 'Ayr', 'Bo Orr']
    assert [question.asked.answers for question in weirs.questions] == [('Ayr',), ('Ayr',), (), ()]
    assert [question.asked.verdict for question in weirs.questions] == ['', '', 'no', '']


@table("""
    form | written | problem
    text | Q: Who?\\nA: - | line 1: a question before a paragraph
    text | # A\\nText.\\nA: - | line 3: an answer without a question
    text | # A\\nText.\\nQ: Who?\\nA: Ann | line 4: the answer is not in the paragraph
    text | # A\\nText.\\n\\nMore. | line 3: a paragraph without a question
    text | \\n | no document in the file
    set | # A\\nText. | line 1: a document before a set
    set | ## S\\n# A\\nText.\\nQ: Who?\\nA: -\\nQ: When? | line 6: F: is expected after a question
    set | ## S\\n# A\\nText.\\nQ: Who?\\nA: -\\nF: B | line 6: no document of the set is called 'B'
    set | ## S\\n# A\\nText.\\nQ: Who?\\nA: Ann\\nF: A | line 6: the answer is not in the documents
    set | ## S\\n# A\\nText.\\n# A | line 4: a document after the questions of its set, or twice
""")
def test_a_fault_is_told_with_its_line(form, written, problem, file):
    read = {'text': written_questions.read_written, 'set': linked_questions.read_sets}[form]
    with pytest.raises(InputError, match=problem):
        read(file(written))


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


def test_examples_of_all_sets_answer_only_from_all_that_is_needed():
    sets = linked_questions.linked_sets()
    examples = list(linked_questions.examples(sets, np.random.default_rng(0)))
    asked = [(each, question) for each in sets for question in each.questions]
    assert len(examples) == len(asked) > 1000
    assert len({each.name for each in sets}) == len(sets)
    for example, (each, (question, needed)) in zip(examples, asked):
        assert example.question == question.text
        texts = [titled(*document) for document in each.documents.items()]
        assert set(example.passages) <= set(texts)
        helping = {titled(title, each.documents[title]) for title in needed}
        is_whole = helping <= set(example.passages)
        assert example.verdict == (question.verdict if is_whole else '')
        assert bool(example.answers) == (is_whole and bool(question.answers))
        known = {answer.casefold() for answer in question.answers}
        for passage, start, end in example.answers:
            assert example.passages[passage] in helping
            assert example.passages[passage][start:end].casefold() in known
        for passage, support in zip(example.passages, example.supports):
            assert (support == DOES_NOT) == (passage not in helping)
            assert support != HELPS or question.answers or question.verdict
