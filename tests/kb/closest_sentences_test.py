"""Questions whose names lead nowhere are answered by the sentences most like them."""

import itertools

import numpy as np

from opql_jax.kb.prediction_record import prediction_record
from opql_jax.kb.text.closest_sentences import ClosestSentences

from examples import table

DOCUMENTS = {
    'Staff handbook': 'Requests for leave are entered in Perch. This page was last revised on 12 '
    'March 2024. The review talk takes place in the Kiln Room in spring. Laptops are given out by '
    'the Systems Group, whose head is Yusuf Amrani.',
    'untitled': 'In the Brightside trial, 618 adults with at least six attacks a month were given '
    'velotrazine or placebo. The study was coordinated by Paolo Reschi and carried out at eleven '
    'centres. It lasted until 2019. A report on hip fractures comes from Cork. The study of '
    'fractures was paid for by the Larkin Fund.',
}


@table("""
    question | right
    Where does the review talk take place? | Kiln Room
    In which system are requests for leave entered? | Perch
    Who is the head? | Yusuf Amrani
""")
def test_a_question_that_names_nothing_is_answered_by_the_sentence_like_it(kb, question, right):
    answer = kb.ask(question)
    assert answer.question.topics == () and answer.names[0] == right
    (path, *_) = answer.paths(right)
    assert right in path[-1].sentence
    assert prediction_record(answer, evidence=1)['by_sentences']
    assert 'the sentences most like it' in (told := answer.to_text()) and right in told


def test_entries_are_those_of_the_sentences_with_the_highest_cosines(kb, monkeypatch):
    monkeypatch.setattr('opql_jax.kb.text.closest_sentences.SENTENCES', 2)
    question, answerer = 'Where does the review talk take place?', kb.text_answerer
    encoder, index = answerer._encoder, kb._index
    rows, cosines = ClosestSentences(kb.prepared, encoder, kb.memory, index).entries(question)
    sentences = [
        row['text'][start:end]
        for row in kb.prepared.passages.to_pylist()
        for start, end in itertools.pairwise([*row['sentence_starts'], len(row['text'])])
    ]
    vectors = index.load().vectors[len(kb.prepared.passages) :].astype(np.float64)
    scores = vectors @ encoder.encode_texts([question])[0]
    expected = dict(zip(sentences, scores, strict=True))
    best = sorted(expected, key=expected.get)[-2:]
    mentions, texts = kb.memory.mentions(rows), kb.prepared.passages['text'].to_pylist()
    names = ('passage', 'target_sentence_start', 'target_sentence_end')
    columns = (mentions[name].tolist() for name in names)
    said = [texts[passage][start:end] for passage, start, end in zip(*columns)]
    assert said and set(said) <= set(best)
    np.testing.assert_allclose(cosines, [expected[text] for text in said], atol=1e-5)
    names = {kb.vocab.names[entity] for entity in kb.memory.target[rows]}
    assert 'Kiln Room' in names and 'Staff handbook' not in names  # which is the title alone
