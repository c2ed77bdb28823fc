"""Prediction files: how they are written, resumed and refused, and how they are scored."""

import dataclasses
import json
import types

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.questions import Question
from opql_jax.evaluation import run
from opql_jax.evaluation.run import PredictionError, evaluate, infer
from opql_jax.evaluation.virtual_kb import Hop

# Names that a line of JSON or a text file may trip over.
NAMES = ['Zoë “Ω” Łęcka', '北京', 'a\u2028b\x85c', 'tab\\t"quote"', "O'Neill [actor]", '𝔘p', 'مدينة', 'plain']


class GraphKB:
    """Stands for a `VirtualKB`: follows every entry of a topic with the same weight. Can fail at a given question."""

    def __init__(self, vocab, entries, identity='one model', k=64):
        self.vocab, self.identity, self.k, self.fails_at, self.asked = vocab, identity, k, None, 0
        topic, target = np.array(sorted(entries), np.int32).reshape(-1, 2).T
        self.memory = types.SimpleNamespace(topic=topic, target=target)

    def follow(self, questions, hops):
        return [self._follow(question, hops) for question in questions]

    def _follow(self, question, hops):
        if self.asked == self.fails_at:
            raise KeyboardInterrupt
        self.asked += 1
        steps, topics = [], [question.topic_entity]
        for _ in range(hops):
            entries = np.flatnonzero(np.isin(self.memory.topic, topics))[: self.k]
            topics, counts = np.unique(self.memory.target[entries], return_counts=True)
            order = np.argsort(-counts, kind='stable')
            topics = topics[order]
            steps.append(Hop(topics, counts[order] / max(counts.sum(), 1), entries, np.full(len(entries), 1 / 3)))
        return steps

    def evidence(self, entries):
        names = self.vocab.names
        return [{'topic': names[self.memory.topic[e]], 'target': names[self.memory.target[e]]} for e in entries]


def ask(vocab, topic, answers=(), number=1, kind='', text='who met {} again, and why'):
    """A question about a name, or about an unknown one."""
    start = text.index('{}')
    found = [vocab.get(name) for name in answers]
    return Question(
        text.format(topic),
        (start, start + len(topic)),
        -1 if vocab.get(topic) is None else vocab.get(topic),
        [entity for entity in found if entity is not None],
        [name for name, entity in zip(answers, found) if entity is None],
        2,
        kind,
        f'2-hop/dev/{number}',
    )


VOCAB = EntityVocab.from_names(NAMES)
RING = [(i, (i + step) % len(NAMES)) for i in range(len(NAMES)) for step in (1, 3)]
QUESTIONS = [ask(VOCAB, name, NAMES[:1], i) for i, name in enumerate([*NAMES, 'unknown ⟂'], 1)]
OPTIONS = dict(hops=2, batch_size=2)


def ring(**options):
    return GraphKB(VOCAB, RING, **options)


def lines_of(path):
    return [json.loads(line) for line in path.read_text(encoding='utf-8').split('\n')[:-1]]


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
    """The bytes of an undisturbed run's predictions."""
    path = tmp_path_factory.mktemp('whole') / 'out.jsonl'
    infer(ring(), QUESTIONS, path, **OPTIONS)
    return path.read_bytes()


# Inference.


def test_every_question_gets_a_line_in_order(tmp_path, whole):
    path = tmp_path / 'a' / 'out.jsonl'
    assert infer(ring(), QUESTIONS, path, **OPTIONS) == len(QUESTIONS)
    assert path.read_bytes() == whole and [p.name for p in path.parent.iterdir()] == ['out.jsonl']
    records = lines_of(path)
    assert [r['id'] for r in records] == [q.id for q in QUESTIONS]
    assert [r['topic'] for r in records] == [*NAMES, None]
    assert [r['question'] for r in records] == [f'who met [{name}] again, and why' for name in [*NAMES, 'unknown ⟂']]
    first = records[0]  # 0 -> 1, 3 -> 2, 4 and 4, 6
    assert first['hops'] == [[VOCAB.keys[1], VOCAB.keys[3]]]
    assert first['answers'] == [
        {'entity': NAMES[e], 'key': VOCAB.keys[e], 'weight': w} for e, w in ((4, 0.5), (2, 0.25), (6, 0.25))
    ]
    assert [fact['target'] for fact in first['evidence'][0]] == [NAMES[1], NAMES[3]]
    assert records[-1]['answers'] == [] and 'not in the entity vocabulary' in records[-1]['error']
    assert not any('error' in record for record in records[:-1])


@pytest.mark.parametrize('evidence', [0, 1, 2])
def test_as_much_evidence_is_written_as_asked_for(tmp_path, evidence):
    infer(ring(), QUESTIONS[:1], tmp_path / 'out.jsonl', hops=2, evidence=evidence)
    (record,) = lines_of(tmp_path / 'out.jsonl')
    assert [len(facts) for facts in record.get('evidence', [[], []])] == [evidence] * 2


def test_a_whole_file_is_not_answered_again(tmp_path, whole):
    (tmp_path / 'out.jsonl').write_bytes(whole)
    kb = ring()
    assert infer(kb, QUESTIONS, tmp_path / 'out.jsonl', **OPTIONS) == 0
    assert kb.asked == 0 and (tmp_path / 'out.jsonl').read_bytes() == whole


def test_a_stopped_run_keeps_its_lines_and_goes_on_after_them(tmp_path, whole):
    path, kb = tmp_path / 'out.jsonl', ring()
    kb.fails_at = 5
    with pytest.raises(KeyboardInterrupt):
        infer(kb, QUESTIONS, path, **OPTIONS)
    assert not path.exists() and len(lines_of(tmp_path / 'out.jsonl.partial')) == 4
    again = ring()
    assert infer(again, QUESTIONS, path, **OPTIONS) == again.asked == len(QUESTIONS) - 4
    assert path.read_bytes() == whole and not (tmp_path / 'out.jsonl.partial').exists()


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0, 1))
def test_wherever_a_file_was_cut_the_last_whole_line_is_the_last_that_counts(tmp_path, whole, share):
    path = tmp_path / 'out.jsonl'
    path.unlink(missing_ok=True)
    cut = whole[: round(share * len(whole))]  # also inside a character
    (tmp_path / 'out.jsonl.partial').write_bytes(cut)
    kb = ring()
    assert infer(kb, QUESTIONS, path, **OPTIONS) == kb.asked == len(QUESTIONS) - cut.count(b'\n')
    assert path.read_bytes() == whole


@pytest.mark.parametrize('name', ['out.jsonl', 'out.jsonl.partial'])
@pytest.mark.parametrize(
    'change',
    [dict(kb=ring(identity='another model')), dict(hops=1), dict(evidence=1)],
    ids=['model', 'hops', 'evidence'],
)
def test_lines_of_another_model_or_setting_are_refused(tmp_path, whole, name, change):
    (tmp_path / name).write_bytes(whole)
    options = dict(kb=ring(), **OPTIONS) | change
    with pytest.raises(PredictionError, match=rf'{name}, line 1 comes from another model, memory or setting'):
        infer(questions=QUESTIONS, output=tmp_path / 'out.jsonl', **options)
    assert (tmp_path / name).read_bytes() == whole


@pytest.mark.parametrize('name', ['out.jsonl', 'out.jsonl.partial'])
def test_lines_of_other_questions_are_refused(tmp_path, whole, name):
    (tmp_path / name).write_bytes(whole)
    swapped = [*QUESTIONS[:2], QUESTIONS[3], QUESTIONS[2], *QUESTIONS[4:]]
    with pytest.raises(PredictionError, match=f'{name}, line 3 answers ') as error:
        infer(ring(), swapped, tmp_path / 'out.jsonl', **OPTIONS)
    assert all(repr(f'who met [{NAMES[i]}] again, and why') in str(error.value) for i in (2, 3))
    with pytest.raises(PredictionError, match=f'{name} holds 9 predictions for 3 questions'):
        infer(ring(), QUESTIONS[:3], tmp_path / 'out.jsonl', **OPTIONS)
    assert (tmp_path / name).read_bytes() == whole


DAMAGED = {
    'no JSON': 'answers: none',
    'cut': '{"id": "1", "question": "who',
    'a list': '[]',
    'a number': '3',
    'no question': '{"id": "1", "answers": []}',
    'no answers': '{"id": "1", "question": "?"}',
    'answers without weight': '{"id": "1", "question": "?", "answers": [{"entity": "plain"}]}',
    'answers that are none': '{"id": "1", "question": "?", "answers": ["plain"]}',
}


@pytest.mark.parametrize('line', DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_line_is_named(tmp_path, whole, line):
    lines = whole.decode().split('\n')
    lines[3] = line
    (tmp_path / 'out.jsonl').write_text('\n'.join(lines), encoding='utf-8')
    with pytest.raises(PredictionError, match='out.jsonl, line 4: not a prediction'):
        run.read_predictions(tmp_path / 'out.jsonl')


@pytest.mark.parametrize('answer', ['{"entity": "plain", "weight": "much"}', '{"entity": ["plain"], "weight": 1.0}'])
def test_an_answer_of_the_wrong_type_is_named(tmp_path, answer):
    (tmp_path / 'out.jsonl').write_text('{"id": "1", "question": "?", "answers": [%s]}\n' % answer)
    with pytest.raises(PredictionError, match='line 1'):
        run.read_predictions(tmp_path / 'out.jsonl')


def test_files_that_cannot_be_read_are_named(tmp_path):
    (tmp_path / 'latin.jsonl').write_bytes(b'{"id": "\xe9"}\n')
    for name in ('latin.jsonl', 'none.jsonl'):
        with pytest.raises(PredictionError, match=f'{name}: cannot be read'):
            run.read_predictions(tmp_path / name)


# Scoring.

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
        'question': run.bracketed(question),
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
    known = dataclasses.replace(CASES[0], via=[[3, 4]])  # director, country
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
    assert evaluate(kb, [question], run.read_predictions(tmp_path / 'out.jsonl'), 1)['set_f1'] == 1


def test_another_entity_of_the_same_name_is_not_the_answer():
    vocab = EntityVocab(['probe', 'planet', 'metal'], ['MESSENGER', 'Mercury', 'Mercury'], [[], [], []])
    kb = GraphKB(vocab, [(0, 2)])
    question = Question('what did MESSENGER visit', (9, 18), 0, [1], [], 1, '', '1')
    assert evaluate(kb, [question], list(run.predict(kb, [question], 1)), 1)['hits@1'] == 0


def test_predictions_of_another_number_of_hops_are_refused():
    with pytest.raises(PredictionError, match='2-hop/dev/1: an answer over 2 hops to a question of 1'):
        evaluate(FILM_KB, CASES[:1], SAID[:1], 1)
