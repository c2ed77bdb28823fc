"""Sets of linked documents, and the examples that are made of them."""

import numpy as np
import pytest

from opql_jax.core.errors import InputError
from opql_jax.data import linked_questions
from opql_jax.data.reading import titled
from opql_jax.data.reading_examples import DOES_NOT, HELPS

from examples import table

WRITTEN = """## Weirs
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


def test_a_set_has_documents_and_questions_that_need_some_of_them(tmp_path):
    path = tmp_path / 'linked.txt'
    path.write_text(WRITTEN, encoding='utf-8')
    (weirs,) = linked_questions.read_sets(path)
    assert weirs.name == 'Weirs' and list(weirs.documents) == ['Orr Weir', 'Bo Orr', 'Ayr']
    assert weirs.documents['Orr Weir'] == 'Bo Orr built the weir\nin 1871.'
    assert [question.needed[-1] for question in weirs.questions] == [
        'Bo Orr',
        'Ayr',
        'Ayr',
        'Bo Orr',
    ]
    assert [question.asked.answers for question in weirs.questions] == [('Ayr',), ('Ayr',), (), ()]
    assert [question.asked.verdict for question in weirs.questions] == ['', '', 'no', '']


@table("""
    written | problem
    # A\\nText. | line 1: a document before a set
    ## S\\nText. | line 2: a text without a title
    ## S\\n# A\\nText.\\nQ: Who?\\nQ: When? | line 5: A: is expected after a question
    ## S\\n# A\\nText.\\nQ: Who?\\nA: -\\nQ: When? | line 6: F: is expected after a question
    ## S\\n# A\\nText.\\nQ: Who?\\nA: -\\nF: B | line 6: no document of the set is called 'B'
    ## S\\n# A\\nText.\\nQ: Who?\\nA: Ann\\nF: A | line 6: the answer is not in the documents
    ## S\\n# A\\nText.\\n# A | line 4: a document after the questions of its set, or twice
    ## S\\n# A\\nText.\\nQ: Who? | the last question has no answer
    \\n | no set in the file
""")
def test_a_fault_is_told_with_its_line(written, problem, tmp_path):
    path = tmp_path / 'linked.txt'
    path.write_text(written.replace('\\n', '\n'), encoding='utf-8')
    with pytest.raises(InputError, match=problem):
        linked_questions.read_sets(path)


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
