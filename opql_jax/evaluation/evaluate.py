"""Scores predictions against gold answers and what a memory can answer (paper §3.1, §4.2)."""

import collections
from collections.abc import Iterable

import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.json_lines import write_json_lines
from opql_jax.corpus.questions import Question
from opql_jax.evaluation import metrics
from opql_jax.evaluation.predictions import PredictionError

# Questions whose reachable entities are in memory at once, a byte for each entity and hop.
_GRAPH_BATCH = 16


def evaluate_predictions(
    questions: list[Question], records: list[dict], vocab: EntityVocab, memory=None, cases_path=None
) -> dict:
    """Scores predictions; the questions may be of different numbers of hops.

    Questions without gold answers are left out and counted. Gold answers that the vocabulary lacks
    count as answers that cannot be found, questions about unknown topics as wrong.

    Args:
        questions: with gold answers.
        records: record i answers question i, see `predictions`.
        vocab: looks up the predicted entities, by key or else by name.
        memory: has `topic` and `target` [N], the entries' entities; None for a model without a
            memory.
        cases_path: the scored records go here as JSON lines, wrong ones first.

    Returns:
        hits@{1,5,10}, mrr, set_f1, hits@1_by_type; questions (those scored), unscored,
        unknown_topics, unknown_answers (counts); answer_coverage: the share of questions with an
        answer in the vocabulary.

        With a memory, coverage: the share of questions from a topic of which an answer can be
        reached by some path of that many entries (not from an unknown topic); coverage_of_linked:
        the same among questions with a known topic; hits@1_of_covered: Hits@1 among the covered
        questions.

        From a follower, recall_hop{h}: the mean share of hop h's gold entities that were found
        there, over the questions whose gold entities are known (of the last hop always: the
        answers); reach_hop{h}: the share of questions from whose entities after hop h, not the
        last, some path still leads to an answer, which bounds what later hops can get right.

        From a language model with a memory, retrieval_accuracy: the share of topics whose best
        entry in the last hop has an answer as target, among topics from which the memory leads to
        one, as the paper counts it; retrieval_accuracy_of_all: the same among all topics;
        null_present and null_absent: the mean mass of null over topics of 1-hop questions that the
        memory has an entry (topic, answer) for, and over the others.

    Raises:
        InputError: no question has gold answers.
        PredictionError: a prediction of another number of hops than its question.
    """
    if len(records) != len(questions):
        raise PredictionError(f'{len(records)} predictions for {len(questions)} questions')
    asked = [(q, record) for q, record in zip(questions, records) if q.answers or q.unknown_answers]
    if not asked:
        raise InputError('no question has gold answers, so nothing can be scored')
    reaching = _reaching([q for q, _ in asked], vocab, memory)
    scores, covered, cases, values = [], [], [], collections.defaultdict(list)
    for (question, record), leads in zip(asked, reaching):
        gold = {*question.answers, *question.unknown_answers}
        ranked = [_entity(vocab, answer) for answer in record['answers']]
        weights = [answer['weight'] for answer in record['answers']]
        scores.append(metrics.score(ranked, weights, gold))
        case = {'right': scores[-1].rank == 1, 'rank': scores[-1].rank}
        if leads is not None:
            linked = [entity for entity in question.entities if entity >= 0]
            case['covered'] = any(leads[question.hops, entity] for entity in linked)
            covered.append(case['covered'])
            _add_hop_metrics(values, question, record, leads, vocab, set(ranked), gold)
        names = sorted([*(vocab.names[a] for a in question.answers), *question.unknown_answers])
        cases.append({**case, 'type': question.type, 'gold': names, **record})
    out: dict = metrics.summarise(scores)
    if covered:
        out['coverage'] = float(np.mean(covered))
        linked = [c for (q, _), c in zip(asked, covered) if max(q.entities) >= 0]
        out['coverage_of_linked'] = _mean(linked)
        out['hits@1_of_covered'] = _mean(s.rank == 1 for s, c in zip(scores, covered) if c)
    out |= {name: _mean(values[name]) for name in sorted(values)}
    out['questions'], out['unscored'] = len(asked), len(questions) - len(asked)
    out['unknown_topics'] = sum(max(q.entities) < 0 for q, _ in asked)
    out['unknown_answers'] = sum(bool(q.unknown_answers) for q, _ in asked)
    out['answer_coverage'] = _mean(bool(q.answers) for q, _ in asked)
    types = sorted({q.type for q, _ in asked} - {''})
    out['hits@1_by_type'] = {
        t: _mean(s.rank == 1 for s, (q, _) in zip(scores, asked) if q.type == t) for t in types
    }
    if cases_path:
        write_json_lines(cases_path, sorted(cases, key=lambda case: case['right']))
    return out


def _reaching(questions, vocab, memory):
    """Yields from where a question's answers are reached, [hops + 1, n_entities] bool, or None."""
    if memory is None:
        yield from [None] * len(questions)
        return
    graph = metrics.adjacency(memory.topic, memory.target, len(vocab))
    for start in range(0, len(questions), _GRAPH_BATCH):
        batch = questions[start : start + _GRAPH_BATCH]
        leads = metrics.reachable(graph, [q.answers for q in batch], max(q.hops for q in batch))
        yield from (leads[..., i] for i in range(len(batch)))


def _add_hop_metrics(
    values: dict[str, list], question, record, leads, vocab, answers: set, gold: set
) -> None:
    """Adds what the hops of one prediction are worth; see `evaluate_predictions`."""
    traces = record.get('traces', [])
    if any(len(hops) != question.hops for hops in traces):
        over = f'an answer over {len(traces[0])} hops to a question of {question.hops}'
        raise PredictionError(f'{question.id}: {over}')
    if any('null' in hop for hops in traces for hop in hops):
        for hops, topic in zip(traces, question.entities):
            best = [_entity(vocab, {'key': key}) for key in hops[-1]['entities'][:1]]
            right = bool(set(best) & gold)
            values['retrieval_accuracy_of_all'].append(right)
            if topic >= 0 and leads[question.hops, topic]:
                values['retrieval_accuracy'].append(right)
            if question.hops == 1 and topic >= 0:
                values['null_present' if leads[1, topic] else 'null_absent'].append(hops[0]['null'])
        return
    values[f'recall_hop{question.hops}'].append(len(answers & gold) / len(gold))
    for hops in traces:
        for number, hop in enumerate(hops[:-1], 1):
            entities = {_entity(vocab, {'key': key}) for key in hop['entities']}
            values[f'reach_hop{number}'].append(
                any(leads[question.hops - number, e] for e in entities if isinstance(e, int))
            )
            if question.via:
                expected = set(question.via[number - 1])
                values[f'recall_hop{number}'].append(len(entities & expected) / len(expected))


def _entity(vocab: EntityVocab, answer: dict) -> int | str:
    """The id of a predicted entity, or its name if the vocabulary does not have it."""
    if 'key' in answer:
        return vocab.id_of_key.get(answer['key'], answer['key'])
    entity = vocab.get(answer['entity'])
    return answer['entity'] if entity is None else entity


def _mean(values: Iterable) -> float:
    values = list(values)
    return float(np.mean(values)) if values else 0.0


def format_table(results: dict[str, dict]) -> str:
    """The main metrics of {set: metrics}, a line per set."""
    columns = 'hits@1 hits@5 hits@10 mrr set_f1 coverage hits@1_of_covered questions'.split()
    width = max(len(name) for name in results)
    shown = lambda value: f'{value:.4f}' if isinstance(value, float) else value or '–'
    others = ('recall_hop', 'reach_hop', 'retrieval', 'null', 'hits@1_of_all')
    lines = [' '.join([' ' * width, *(f'{c:>17}' for c in columns)])]
    for name, values in results.items():
        cells = [f'{shown(values.get(c)):>17}' for c in columns]
        rest = '  '.join(f'{k} {v:.3f}' for k, v in values.items() if k.startswith(others))
        lines.append(' '.join([f'{name:<{width}}', *cells]) + f'   {rest}')
    return '\n'.join(lines)
