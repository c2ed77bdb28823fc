"""How predictions are scored."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.questions import Question
from opql_jax.kb.evaluate import evaluate
from opql_jax.kb.predictions import PredictionError, bracketed, infer, predict, read_predictions

from graph_kb import GraphKB, ask, lines_of

# film 1 - director - film 2, film 1 - actor - film 3, in both directions; nothing is said about the country. The last
# entity leads to every film, which -1, an unknown topic, must not.
FILMS = EntityVocab.from_names(['Film 1', 'Film 3', 'actor', 'director', 'country', 'Film 2', 'DIRECTOR'])
STATED = [(0, 3), (5, 3), (0, 2), (1, 2)]
FILM_KB = GraphKB(FILMS, STATED + [(b, a) for a, b in STATED])


def said(question, answers, hops=None, **more):
    """A prediction without keys, as another program may write it; the weights are 1 / 2, 1 / 4, ..."""
    ranked = [{'entity': name, 'weight': 0.5**place} for place, name in enumerate(answers, 1)]
    return {
        'id': question.id,
        'question': bracketed(question),
        'answers': ranked,
        **({'hops': hops} if hops else {}),
        **more,
    }


CASES = [
    ask(FILMS, 'Film 1', ['Film 2'], 1, 'by director'),
    ask(FILMS, 'Film 1', ['Film 3', 'Film 4'], 2, 'by actor'),
    ask(FILMS, 'Film 9', ['Film 1'], 3, 'by actor'),
    ask(FILMS, 'Film 2', ['nobody'], 4),
    ask(FILMS, 'Film 3', ['Film 1'], 5, 'by actor'),
    ask(FILMS, 'director', ['director'], 6, 'by director'),
]
SAID = [
    said(CASES[0], ['Film 2', 'Film 3'], [['director', 'actor']]),
    said(CASES[1], ['Film 2', 'Film 3'], [['actor']]),
    said(CASES[2], [], [[]]),
    said(CASES[3], ['Film 1'], [['director']]),
    said(CASES[4], ['Film 2', 'x', 'y', 'actor', 'country', 'Film 1'], [['director', 'country']], made='elsewhere'),
    said(CASES[5], ['DIRECTOR'], [['Film 1']]),  # another spelling of the answer
]
F1 = [2 / 3, 1 / 2, 0, 0, 0, 1]


def test_predictions_made_by_hand_get_the_metrics_they_should(tmp_path):
    found = evaluate(FILM_KB, CASES, SAID, 2, tmp_path / 'cases.jsonl')
    assert found.pop('hits@1_by_type') == pytest.approx({'by actor': 0.0, 'by director': 1.0})
    assert found == pytest.approx(
        {
            'hits@1': 2 / 6,
            'hits@5': 3 / 6,
            'hits@10': 4 / 6,
            'mrr': (1 + 1 / 2 + 1 / 6 + 1) / 6,
            'set_f1': sum(F1) / 6,
            'coverage': 4 / 6,  # not of the unknown topic, nor of the unknown answer
            'hits@1_of_covered': 2 / 4,
            'recall_hop2': (1 + 1 / 2 + 1 + 1) / 6,
            'reach_hop1': 4 / 6,
            'questions': 6,
            'unknown_topics': 1,
            'unknown_answers': 2,
        }
    )
    cases = lines_of(tmp_path / 'cases.jsonl')
    assert [case['id'][-1] for case in cases] == ['2', '3', '4', '5', '1', '6']
    assert [case['right'] for case in cases] == [False] * 4 + [True] * 2
    assert [(case['rank'], case['covered'], case['gold']) for case in cases[:2]] == [
        (2, True, ['Film 3', 'Film 4']),
        (0, False, ['Film 1']),
    ]
    assert cases[3]['made'] == 'elsewhere' and cases[3]['answers'] == SAID[4]['answers']


def test_recall_on_the_way_needs_gold_entities_and_the_entities_found_there():
    known = dataclasses.replace(CASES[0], via=((3, 4),))  # director, country
    found = evaluate(FILM_KB, [known, CASES[1]], SAID[:2], 2)
    assert (found['recall_hop1'], found['recall_hop2']) == (1 / 2, 3 / 4)
    found = evaluate(FILM_KB, [known], [said(known, ['Film 2'])], 2)
    assert found['recall_hop2'] == 1 and not {'recall_hop1', 'reach_hop1'} & found.keys()


def test_a_question_without_gold_answers_is_named():
    with pytest.raises(PredictionError, match=r"2-hop/dev/7 \('who met \[Film 1\] again, and why'\) has no gold answers"):
        evaluate(FILM_KB, [ask(FILMS, 'Film 1', [], 7)], [said(CASES[0], [])], 2)


def leads(entries, start, hops, answers):
    """Whether a path of exactly `hops` entries leads from `start` to an answer."""
    return start in answers if not hops else any(leads(entries, b, hops - 1, answers) for a, b in entries if a == start)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12),
    st.lists(st.tuples(st.integers(0, 5), st.sets(st.integers(0, 5), min_size=1, max_size=2)), min_size=1, max_size=5),
    st.integers(1, 3),
    st.data(),
)
def test_coverage_and_reach_are_what_a_search_of_all_paths_finds(entries, asked, hops, data):
    questions = [ask(FILMS, FILMS.names[topic], [FILMS.names[a] for a in answers]) for topic, answers in asked]
    way = [[data.draw(st.sets(st.integers(0, 5), max_size=3)) for _ in range(hops - 1)] for _ in asked]
    predictions = [said(q, [], [[FILMS.keys[e] for e in ids] for ids in sets]) for q, sets in zip(questions, way)]
    found = evaluate(GraphKB(FILMS, entries), questions, predictions, hops)
    assert found['coverage'] == pytest.approx(np.mean([leads(entries, topic, hops, answers) for topic, answers in asked]))
    for hop in range(hops - 1):
        left = hops - 1 - hop
        wanted = [any(leads(entries, e, left, answers) for e in sets[hop]) for (_, answers), sets in zip(asked, way)]
        assert found[f'reach_hop{hop + 1}'] == pytest.approx(np.mean(wanted))


def test_the_predicted_set_holds_all_answers_of_a_long_list(tmp_path):
    vocab = EntityVocab.from_names(['director', *(f'film {i}' for i in range(30))])
    kb, question = GraphKB(vocab, [(0, film) for film in range(1, 31)]), ask(vocab, 'director', vocab.names[1:])
    infer(kb, [question], tmp_path / 'out.jsonl', hops=1)
    assert evaluate(kb, [question], read_predictions(tmp_path / 'out.jsonl'), 1)['set_f1'] == 1


def test_another_entity_of_the_same_name_is_not_the_answer():
    vocab = EntityVocab(['probe', 'planet', 'metal'], ['MESSENGER', 'Mercury', 'Mercury'], [[], [], []])
    kb = GraphKB(vocab, [(0, 2)])
    question = Question('1', 'what did MESSENGER visit', ((9, 18),), (0,), (1,))
    assert evaluate(kb, [question], list(predict(kb, [question], 1)), 1)['hits@1'] == 0


def test_predictions_of_another_number_of_hops_are_refused():
    with pytest.raises(PredictionError, match='2-hop/dev/1: an answer over 2 hops to a question of 1'):
        evaluate(FILM_KB, CASES[:1], SAID[:1], 1)
