"""Examples for the reader: answers stand where they say."""

import collections
import json
import re

import msgspec
import numpy as np
import pytest

from opql_jax.core.errors import InputError
from opql_jax.corpus.documents import Document, Mention
from opql_jax.data import reading_examples
from opql_jax.data.reading_examples import ReadingExample
from opql_jax.data.relation_questions import own_templates
from opql_jax.datasets.docred import AnnotatedDocument

PEOPLE = ['Ann Low', 'José Dee', 'Max Hill', 'Kim Stone', 'Lucy Orr']
WORKS = ['Red River', 'Night Song', 'The Mill', 'Old Bridge']


def rng():
    return np.random.default_rng(0)


def answers(example):
    return {example.passages[passage][start:end] for passage, start, end in example.answers}


SAID = [
    ('doc:1', 'Ann Low wrote Red River.', 'Who wrote Red River?', 'Ann Low'),
    ('doc:2', 'It sold well in York.', 'Where did it sell well?', 'York'),
    ('other:1', 'Max Hill sang.', 'Who sang?', 'Max Hill'),
    ('other:2', 'He died in 1926.', 'When did he die?', 'in 1926'),
    ('other:3', 'She saw him.', 'Whom did she see?', 'him'),
]


def helps_where_it_answers(example):
    passages = {passage for passage, _, _ in example.answers}
    return passages == {i for i, helps in enumerate(example.supports) if helps}


def test_questions_about_sentences_are_answered_within_their_sentence(tmp_path):
    fields = 'source', 'sentence', 'question', 'answers'
    asked = [dict(zip(fields, (*said, [answer]))) for *said, answer in SAID]
    (tmp_path / 'q.jsonl').write_text('\n'.join(map(json.dumps, asked)))
    found = list(reading_examples.from_sentence_questions(tmp_path / 'q.jsonl', rng(), 100))
    right = {question: {answer.removeprefix('in ')} for _, _, question, answer in SAID[:-1]}
    assert {example.question for example in found} == set(right)
    for example in found:
        assert answers(example) in (right[example.question], set())
        assert helps_where_it_answers(example)
    longer = reading_examples.from_sentence_questions(tmp_path / 'q.jsonl', rng(), 100, 4)
    assert {example.question for example in longer} == {q for q in right if len(q.split()) >= 4}


DENIALS = 'never', 'did not', 'denied', 'refused', 'had hoped'


def test_only_who_is_said_to_have_done_it_answers():
    found = list(reading_examples.made(PEOPLE, WORKS, rng(), 400))
    assert len(found) == 400
    for example in found:
        asked = [work for work in WORKS if work in example.question]
        for passage, start, end in example.answers:
            text, name = example.passages[passage], example.passages[passage][start:end]
            sentence = next(p for p in text.split('. ') if name in p and asked[0] in p)
            assert not any(f'{name} {denial}' in sentence for denial in DENIALS)
        assert not (example.verdict and example.answers)
    kinds = {(bool(example.answers), example.verdict) for example in found}
    assert kinds == {(True, ''), (False, ''), (False, 'yes'), (False, 'no')}


GOOD = msgspec.to_builtins(ReadingExample('a', 'Who?', ('Ann Low.',), ((0, 0, 7),), (1,)))


@pytest.mark.parametrize(
    'field, value',
    [
        ('passages', []), ('passages', 'text'), ('answers', [[1, 0, 2]]),
        ('answers', [[0, 3, 3]]), ('answers', [[0, 0, 99]]), ('answers', [[0, True, 2]]),
        ('supports', [1, 0]), ('supports', [2]), ('verdict', 'perhaps'), ('question', ' '),
    ],
)  # fmt: skip
def test_a_bad_example_is_told_with_its_line_and_field(tmp_path, field, value):
    path = tmp_path / 'e.jsonl'
    path.write_text(json.dumps(GOOD))
    assert [msgspec.to_builtins(e) for e in reading_examples.read_examples(path)] == [GOOD]
    path.write_text(json.dumps(GOOD) + '\n' + json.dumps({**GOOD, field: value}))
    with pytest.raises(InputError, match=rf'e\.jsonl:2: {field}(\[\d\])*: '):
        list(reading_examples.read_examples(path))


@pytest.mark.parametrize(
    'answers, text, found',
    [
        (['no'], 'I know. No, no.', ['No', 'no']),
        (['No', 'no deal,'], 'No deal, and no.', ['No deal', 'no']),  # the longest counts
    ],
)
def test_an_answer_is_found_in_whole_words_wherever_it_stands(answers, text, found):
    places = reading_examples.occurrences(answers, ['', text, text], among=[1])
    assert [(passage, text[a:b]) for passage, a, b in places] == [(1, said) for said in found]


def test_where_only_answers_are_known_they_count_beside_the_topic_or_as_a_title():
    passages = [('Red River', 'Ann Low wrote it.'), ('Kim Stone', 'Kim Stone sings.')]
    passages += [('Night Song', 'By Max Hill and Kim Stone.')]
    asked = [
        ('who sang with max hill', 'Max Hill', ['Kim Stone']),
        ('which works are there', 'The Mill', ['Red River', 'Max Hill']),
        ('who left', 'Max Hill', ['Lucy Orr']),
    ]
    sang, works, left = reading_examples.from_known_answers('films', asked, [passages] * 3, rng())
    title = lambda example, number: example.passages[number].partition(':')[0]
    where = lambda e: {(title(e, n), e.passages[n][a:b]) for n, a, b in e.answers}
    assert where(sang) == {('Night Song', 'Kim Stone'), ('Kim Stone', 'Kim Stone')}
    assert where(works) == {('Red River', 'Red River')}  # "Max Hill" stands beside no topic
    assert not left.answers and set(left.supports) == {reading_examples.UNKNOWN}


def annotated(title, text, facts, apart):
    called = sorted({name for head, _, tail in (*facts, *apart) for name in (head, tail)})
    found = ((m, name) for name in called for m in re.finditer(name, text))
    mentions = tuple(Mention(m.start(), m.end(), f'X:{name}') for m, name in found)
    keyed = lambda of: [(f'X:{head}', relation, f'X:{tail}') for head, relation, tail in of]
    names = {m.entity: (m.entity[2:], collections.Counter()) for m in mentions}
    document = Document(title, title, text, mentions)
    return AnnotatedDocument(document, names, keyed(facts), keyed(apart))


def test_a_document_answers_what_is_labelled_and_nothing_else():
    names = {'P19': 'place of birth', 'P20': 'place of death', 'P50': 'author'}
    low = [('Ann Low', 'P19', 'York')], [('Max Hill', 'P19', 'Bath')]
    hill = [('Max Hill', 'P20', 'Oslo')], [('The Mill', 'P50', 'Kim Stone')]
    documents = [
        annotated('Low', 'Ann Low came from York.\nMax Hill came from Bath.', *low),
        annotated('Hill', 'Max Hill died in Oslo.\nThe Mill is by Kim Stone.', *hill),
    ]
    stated = {fact[:2]: fact[2] for facts in (*low, *hill) for fact in facts}
    asked = {
        pattern.replace('{}', name).lower(): stated.get((name, relation))
        for name in ('Ann Low', 'Max Hill', 'The Mill')
        for relation in names
        for pattern in own_templates(names[relation]).about
    }
    found = list(reading_examples.from_documents(documents, names, rng(), 200))
    assert len(found) == 200 and {len(example.passages) for example in found} == {1, 2}
    unstated = 0
    for example in found:
        right = asked[example.question.lower().removesuffix('?')]
        is_here = right in ' '.join(example.passages) if right else False
        assert answers(example) == ({right} if is_here else set())
        assert helps_where_it_answers(example)
        unstated += not is_here
    assert 50 < unstated < 150


def test_a_step_of_a_question_is_answered_by_what_the_next_is_about():
    documents = {
        'a': ('Red River', 'Red River was written by Ann Low.'),
        'b': ('Ann Low (writer)', 'She was born in York.'),
        'c': ('Max Hill', 'Max Hill sang.'),
    }
    question = {
        'answer': 'York',
        'aliases': [],
        'supporting': ['a', 'b'],
        'decomposition': ['Who wrote Red River ?', 'where was #1 born?'],
    }
    unknown = question | {'decomposition': ['Red River >> author', 'Who met #3?']}
    read = reading_examples.from_sub_questions([question, unknown], documents, rng())
    found = collections.defaultdict(set)
    for example in read:
        found[example.question] |= answers(example)
    assert found == {'Who wrote Red River?': {'Ann Low'}, 'Where was Ann Low born?': {'York'}}


def test_an_article_answers_in_the_paragraph_most_like_the_question():
    paragraphs = ['Ann Low lived in York.', 'Her grave, where she was buried, is in York.']
    asked = [
        ('where is the grave in which ann low was buried', 'Ann Low', ['York']),
        ('where in the north did ann low live', 'Ann Low', ['York']),
        ('who did ann low marry', 'Ann Low', ['Max Hill']),
    ]
    (found,) = reading_examples.from_articles(asked, {'Ann Low': paragraphs}, rng())
    assert found.question.startswith('Where is the grave') and answers(found) == {'York'}
    ((passage, *_),) = found.answers
    assert found.passages[passage] == f'Ann Low: {paragraphs[1]}'
