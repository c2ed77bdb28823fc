"""How predictions are scored."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opql_jax.core.errors import InputError
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.questions import Question, bracketed
from opql_jax.evaluation.evaluate import evaluate_predictions, format_table

from graph_kb import GraphKB, ask, lines_of

# film 1 - director - film 2, film 1 - actor - film 3, in both directions; nothing is said about the
# country. The last entity leads to every film, which -1, an unknown topic, must not.
FILMS = EntityVocab.from_names(
    ['Film 1', 'Film 3', 'actor', 'director', 'country', 'Film 2', 'DIRECTOR']
)
STATED = [(0, 3), (5, 3), (0, 2), (1, 2)]
FILM_KB = GraphKB(FILMS, STATED + [(b, a) for a, b in STATED])


def evaluate(kb, questions, records, cases_path=None):
    return evaluate_predictions(questions, records, kb.vocab, kb.memory, cases_path)


def prediction(question, answers, hops=None, **more):
    """A prediction without keys of answers, as another program may write it; the weights are 1 / 2,
    1 / 4, ...

    Args:
        question: what it answers.
        answers: names.
        hops: the keys found by each hop but the last.
        more: further fields.
    """
    ranked = [{'entity': name, 'weight': 0.5**place} for place, name in enumerate(answers, 1)]
    traces = {'traces': [[{'entities': keys} for keys in [*hops, []]]]} if hops else {}
    return {'id': question.id, 'question': bracketed(question), 'answers': ranked, **traces, **more}


CASES = [
    ask(FILMS, 'Film 1', ['Film 2'], 1, 'by director'),
    ask(FILMS, 'Film 1', ['Film 3', 'Film 4'], 2, 'by actor'),
    ask(FILMS, 'Film 9', ['Film 1'], 3, 'by actor'),
    ask(FILMS, 'Film 2', ['nobody'], 4),
    ask(FILMS, 'Film 3', ['Film 1'], 5, 'by actor'),
    ask(FILMS, 'director', ['director'], 6, 'by director'),
]
WAY = ['director', 'country']
PREDICTIONS = [
    prediction(CASES[0], ['Film 2', 'Film 3'], [['director', 'actor']]),
    prediction(CASES[1], ['Film 2', 'Film 3'], [['actor']]),
    prediction(CASES[2], [], [[]]),
    prediction(CASES[3], ['Film 1'], [['director']]),
    prediction(CASES[4], 'Film 2,x,y,actor,country,Film 1'.split(','), [WAY], made='elsewhere'),
    prediction(CASES[5], ['DIRECTOR'], [['Film 1']]),  # another spelling of the answer
]
F1 = [2 / 3, 1 / 2, 0, 0, 0, 1]


def test_predictions_made_by_hand_get_the_metrics_they_should(tmp_path):
    found = evaluate(FILM_KB, CASES, PREDICTIONS, tmp_path / 'cases.jsonl')
    assert found.pop('hits@1_by_type') == pytest.approx({'by actor': 0.0, 'by director': 1.0})
    assert found == pytest.approx(
        {
            'hits@1': 2 / 6,
            'hits@5': 3 / 6,
            'hits@10': 4 / 6,
            'mrr': (1 + 1 / 2 + 1 / 6 + 1) / 6,
            'set_f1': sum(F1) / 6,
            'coverage': 4 / 6,  # not of the unknown topic, nor of the unknown answer
            'coverage_of_linked': 4 / 5,
            'hits@1_of_covered': 2 / 4,
            'recall_hop2': (1 + 1 / 2 + 1 + 1) / 6,
            'reach_hop1': 4 / 6,
            'questions': 6,
            'unknown_topics': 1,
            'unknown_answers': 2,
            'unscored': 0,
            'answer_coverage': 5 / 6,
        }
    )
    cases = lines_of(tmp_path / 'cases.jsonl')
    assert [case['id'][-1] for case in cases] == ['2', '3', '4', '5', '1', '6']
    assert [case['right'] for case in cases] == [False] * 4 + [True] * 2
    assert [(case['rank'], case['covered'], case['gold']) for case in cases[:2]] == [
        (2, True, ['Film 3', 'Film 4']),
        (0, False, ['Film 1']),
    ]
    assert cases[3]['made'] == 'elsewhere' and cases[3]['answers'] == PREDICTIONS[4]['answers']


def test_recall_on_the_way_needs_gold_entities_and_the_entities_found_there():
    known = dataclasses.replace(CASES[0], via=((3, 4),))  # director, country
    found = evaluate(FILM_KB, [known, CASES[1]], PREDICTIONS[:2])
    assert (found['recall_hop1'], found['recall_hop2']) == (1 / 2, 3 / 4)
    found = evaluate(FILM_KB, [known], [prediction(known, ['Film 2'])])
    assert found['recall_hop2'] == 1 and not {'recall_hop1', 'reach_hop1'} & found.keys()


def test_questions_without_gold_answers_are_counted_and_left_out():
    open_question = ask(FILMS, 'Film 1', [], 7)
    found = evaluate(
        FILM_KB, [open_question, *CASES], [prediction(open_question, ['Film 2']), *PREDICTIONS]
    )
    assert (found['unscored'], found['questions'], found['hits@1']) == (1, 6, 2 / 6)
    with pytest.raises(InputError, match='no question has gold answers, so nothing can be scored'):
        evaluate(FILM_KB, [open_question], [prediction(open_question, [])])


def leads(entries, start, hops, answers):
    """Whether a path of exactly `hops` entries leads from `start` to an answer."""
    if not hops:
        return start in answers
    return any(leads(entries, b, hops - 1, answers) for a, b in entries if a == start)


ENTITY = st.integers(0, 5)
ASKED = st.tuples(ENTITY, st.sets(ENTITY, min_size=1, max_size=2))


@given(
    st.lists(st.tuples(ENTITY, ENTITY), max_size=12),
    st.lists(ASKED, min_size=1, max_size=5),
    st.integers(1, 3),
    st.data(),
)
def test_coverage_and_reach_are_what_a_search_of_all_paths_finds(entries, asked, hops, data):
    name = FILMS.names.__getitem__
    named = [ask(FILMS, name(topic), list(map(name, answers))) for topic, answers in asked]
    questions = [dataclasses.replace(question, hops=hops) for question in named]
    draw = lambda: data.draw(st.sets(ENTITY, max_size=3))
    way = [[draw() for _ in range(hops - 1)] for _ in asked]
    keys = [[[FILMS.keys[entity] for entity in ids] for ids in sets] for sets in way]
    predictions = [prediction(question, [], of) for question, of in zip(questions, keys)]
    found = evaluate(GraphKB(FILMS, entries), questions, predictions)
    covered = [leads(entries, topic, hops, answers) for topic, answers in asked]
    assert found['coverage'] == pytest.approx(np.mean(covered))
    for hop in range(1, hops):
        leads_on = lambda entity, answers: leads(entries, entity, hops - hop, answers)
        wanted = [
            any(leads_on(entity, answers) for entity in sets[hop - 1])
            for (_, answers), sets in zip(asked, way)
        ]
        assert found[f'reach_hop{hop}'] == pytest.approx(np.mean(wanted))


# Language models.


def test_answers_of_language_models_tell_retrieval_and_null_apart():
    vocab = EntityVocab.from_names([f'Q{e}' for e in range(5)])
    kb = GraphKB(vocab, [(0, 2), (0, 3), (1, 2)])
    questions = [
        Question('a', 'x', ((0, 1),), (0,), (2,)),
        Question('b', 'x', ((0, 1),), (1,), (3,), ('Nobody',)),
        Question('c', 'x', ((0, 1),), (-1,), (), ('Nobody',)),
    ]
    answer = lambda place, e: {'key': vocab.keys[e], 'weight': 1 / (1 + place)}
    records = [
        {
            'answers': [answer(place, entity) for place, entity in enumerate(ranked)],
            'traces': [[{'null': null, 'entities': [vocab.keys[target]]}]],
        }
        for ranked, null, target in (
            ([2, 0, 1, 3, 4], 0.1, 2),
            ([2, 3, 0, 1, 4], 0.9, 2),
            ([0, 1, 2, 3, 4], 0.5, 4),
        )
    ]
    found = evaluate(kb, questions, records)
    assert found['hits@1'] == pytest.approx(1 / 3) and found['hits@5'] == pytest.approx(2 / 3)
    assert (found['questions'], found['unknown_topics'], found['unknown_answers']) == (3, 1, 2)
    assert found['answer_coverage'] == pytest.approx(2 / 3)
    assert found['coverage'] == pytest.approx(1 / 3)
    assert found['coverage_of_linked'] == pytest.approx(1 / 2)
    assert found['retrieval_accuracy'] == 1
    assert found['retrieval_accuracy_of_all'] == pytest.approx(1 / 3)
    assert found['null_present'] == pytest.approx(0.1)
    assert found['null_absent'] == pytest.approx(0.9)
    assert not any(name.startswith(('recall', 'reach_')) for name in found)


def test_a_model_without_a_memory_is_scored_by_its_answers_alone():
    found = evaluate_predictions(CASES, PREDICTIONS, FILMS)
    assert found['hits@1'] == 2 / 6
    assert not {'coverage', 'recall_hop2', 'retrieval_accuracy'} & found.keys()


# The table.


def test_the_table_has_a_line_for_each_set_with_its_metrics_under_their_names():
    names = ['hits@1', 'hits@5', 'hits@10', 'mrr', 'set_f1', 'coverage', 'hits@1_of_covered']
    metrics = {name: place / 16 for place, name in enumerate(names)}
    metrics |= {'questions': 12345, 'recall_hop1': 0.5, 'recall_hop2': 1}
    sets = {'1-hop/unseen_wording': metrics, 'b': metrics | {'mrr': 1.0}}
    head, first, second = format_table(sets).split('\n')
    assert first.startswith('1-hop/unseen_wording ') and second.startswith('b ')
    assert first.endswith('recall_hop1 0.500  recall_hop2 1.000')
    for name in [*names, 'questions']:
        end = head.index(f' {name}') + 1 + len(name)  # columns end below their names
        assert first[end] == ' ', name
        assert float(first[:end].split()[-1]) == pytest.approx(metrics[name], abs=1e-4), name
    assert '1.0000' in second and second.split()[1:4] == first.split()[1:4]
