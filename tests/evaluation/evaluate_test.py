"""How predictions are scored."""

import dataclasses
import functools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opql_jax.core.errors import InputError
from opql_jax.corpus.entities import EntityVocab
from opql_jax.evaluation.evaluate import evaluate_predictions
from opql_jax.evaluation.metrics import means

import records as records_lib
from graph_kb import GraphKB, ask

NAMES = ['Film 1', 'Film 2', 'actor', 'director', 'country']
# One of them has another spelling.
VOCAB = EntityVocab.from_names([*NAMES, 'DIRECTOR'])
NAME = st.sampled_from([*NAMES, 'nobody', 'Film 9'])  # of which the vocabulary lacks two
SET = st.frozensets(NAME, max_size=3)
KNOWN = st.integers(0, len(NAMES) - 1)
WAYS = st.lists(st.frozensets(KNOWN, min_size=1, max_size=3), min_size=2, max_size=2)
# Topic, answers, what was answered, hops, what the hops before the last found and should have, the
# weight of null of a language model, and the type of question.
RANKED = st.lists(NAME | st.just('DIRECTOR'), max_size=6)
NULL, KIND = st.none() | st.sampled_from([0.0, 0.5]), st.sampled_from(['', 'by actor'])
CASE = st.tuples(NAME, SET, RANKED, st.integers(1, 3), WAYS, st.none() | WAYS, NULL, KIND)


def leads(entries, start, hops, answers):
    if not hops:
        return start in answers
    return any(leads(entries, b, hops - 1, answers) for a, b in entries if a == start)


def made(case, number):
    topic, gold, ranked, hops, found, via, null, kind = case
    question = ask(VOCAB, topic, sorted(gold), number, kind)
    via = tuple(map(tuple, via[: hops - 1])) if via else ()
    question = dataclasses.replace(question, hops=hops, via=via)
    keys = [[VOCAB.keys[entity] for entity in sorted(way)] for way in found[: hops - 1]]
    last = [VOCAB.keys[VOCAB.get(name)] for name in ranked if VOCAB.get(name) is not None]
    trace = [{'entities': way} | ({} if null is None else {'null': null}) for way in [*keys, last]]
    # By name, as another program may write them.
    answers = [{'entity': name, 'weight': 0.5**place} for place, name in enumerate(ranked)]
    return question, {'id': question.id, 'question': '', 'answers': answers, 'traces': [trace]}


def scores(case, entries):
    """What a case is worth by the definitions, a metric at a time."""
    topic, gold, ranked, hops, found, via, null, _ = case
    ranked = [name.replace('DIRECTOR', 'director') for name in ranked]
    place = min((ranked.index(name) for name in gold if name in ranked), default=np.inf)
    said = {*ranked[:4]}  # with a tenth of the best weight
    answers = {NAMES.index(name) for name in gold if name in NAMES}
    row = {f'hits@{most}': place < most for most in (1, 5, 10)} | {'mrr': 1 / (place + 1)}
    row['set_f1'] = 2 * len(said & gold) / (len(said) + len(gold))
    row['answer_coverage'] = bool(answers)
    reach = lambda entity, left=hops: leads(entries, entity, left, answers)
    row['coverage'] = topic in NAMES and reach(NAMES.index(topic))
    if topic in NAMES:
        row['coverage_of_linked'] = row['coverage']
    if row['coverage']:
        row['hits@1_of_covered'] = row['hits@1']
    if null is not None:
        best = [name for name in ranked if name in NAMES][:1]
        row['retrieval_accuracy_of_all'] = bool({*best} & gold)
        if row['coverage']:
            row['retrieval_accuracy'] = row['retrieval_accuracy_of_all']
        if hops == 1 and topic in NAMES:
            row['null_present' if row['coverage'] else 'null_absent'] = null
        return row
    row[f'recall_hop{hops}'] = len({*ranked} & gold) / len(gold)
    for number, way in enumerate(found[: hops - 1], 1):
        row[f'reach_hop{number}'] = any(reach(entity, hops - number) for entity in way)
        if via:
            row[f'recall_hop{number}'] = len(way & via[number - 1]) / len(via[number - 1])
    return row


@given(st.lists(CASE, min_size=1, max_size=5), st.lists(st.tuples(KNOWN, KNOWN), max_size=9))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_metrics_are_those_of_their_definitions(tmp_path, cases, entries):
    path, kb = tmp_path / 'cases.jsonl', GraphKB(VOCAB, entries)
    questions, records = zip(*(made(case, number) for number, case in enumerate(cases)))
    evaluate = functools.partial(evaluate_predictions, questions, records, VOCAB)
    asked = [(case, question) for case, question in zip(cases, questions) if case[1]]
    if not asked:
        with pytest.raises(InputError, match='no question has gold answers, so nothing can be'):
            evaluate(kb.memory)
        return
    found, rows = evaluate(kb.memory, path), [scores(case, entries) for case, _ in asked]
    typed = [row['hits@1'] for row, (case, _) in zip(rows, asked) if case[-1]]
    by_type = {'by actor': pytest.approx(np.mean(typed))} if typed else {}
    assert found.pop('hits@1_by_type') == by_type
    unknown = [case[1] - {*NAMES} for case, _ in asked]
    counts = {'questions': len(asked), 'unscored': len(cases) - len(asked)}
    counts['unknown_topics'] = sum(case[0] not in NAMES for case, _ in asked)
    counts['unknown_answers'] = sum(map(bool, unknown))
    assert found == pytest.approx(means(rows) | counts)
    lines = records_lib.read(path)
    assert [line['right'] for line in lines] == sorted(bool(row['hits@1']) for row in rows)
    assert {line['id']: line['gold'] for line in lines} == {
        question.id: sorted(case[1]) for case, question in asked
    }
    # A model without a memory is scored by its answers alone.
    names = {'hits@1', 'hits@5', 'hits@10', 'mrr', 'set_f1', 'answer_coverage', *counts}
    assert evaluate(None).items() >= {name: found[name] for name in names}.items()
    assert evaluate(None).keys() == {*names, 'hits@1_by_type'}


@given(st.lists(st.dictionaries(st.sampled_from('ab'), st.integers(0, 9)), max_size=5))
def test_a_mean_is_over_the_rows_that_have_the_metric(rows):
    values = {name: [row[name] for row in rows if name in row] for name in 'ab'}
    expected = {name: sum(found) / len(found) for name, found in values.items() if found}
    assert means(rows) == pytest.approx(expected)
