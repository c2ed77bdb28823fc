"""Scores predictions against gold answers and what a memory can answer (paper §3.1, §4.2)."""

from collections.abc import Iterator

from opql_jax.core.errors import InputError
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.json_lines import write_json_lines
from opql_jax.corpus.questions import Question
from opql_jax.evaluation import metrics
from opql_jax.evaluation.metrics import grouped, means, table
from opql_jax.evaluation.predictions import PredictionError

# Questions whose reachable entities are in memory at once, a byte for each entity and hop.
_GRAPH_BATCH = 16


def evaluate_predictions(
    questions: list[Question], records: list[dict], vocab: EntityVocab, memory=None, cases_path=None
) -> dict:
    """Scores predictions; the questions may be of different numbers of hops.

    Questions without gold answers are left out and counted; gold answers that the vocabulary lacks
    cannot be found, and questions about unknown topics are wrong. Record i answers question i
    (`predictions`), `vocab` looks up predicted entities by key or else by name, `memory` has
    `topic` and `target` [N] of its entries, and the scored records go to `cases_path`, wrong ones
    first. InputError: no question has gold answers. PredictionError: another number of hops than
    the question's. Returns, without metrics over no question:

        questions, unscored, unknown_topics, unknown_answers: counts; hits@{1,5,10}, mrr, set_f1,
            hits@1_by_type; answer_coverage: the share of questions with an answer in the
            vocabulary.
        coverage, with a memory: the share with an answer that some path of their number of hops
            reaches; coverage_of_linked: the same among known topics; hits@1_of_covered.
        recall_hop{h}, of a follower: the mean share of hop h's gold entities found, where these are
            known; reach_hop{h}: the share from whose entities at hop h, not the last, a path leads
            to an answer.
        retrieval_accuracy, of a language model with a memory: the share of topics whose best entry
            in the last hop leads to an answer, among those from which one does, as in the paper;
            retrieval_accuracy_of_all: among all topics.
        null_present, null_absent: the mean mass of null over topics of 1-hop questions with an
            entry (topic, answer), and over the others.
    """
    if len(records) != len(questions):
        raise PredictionError(f'{len(records)} predictions for {len(questions)} questions')
    asked = [(q, record) for q, record in zip(questions, records) if q.answers or q.unknown_answers]
    if not asked:
        raise InputError('no question has gold answers, so nothing can be scored')
    reaching = _reaching([q for q, _ in asked], vocab, memory)
    rows, hop_rows, cases = [], [], []
    for (question, record), leads in zip(asked, reaching):
        gold = {*question.answers, *question.unknown_answers}
        ranked = [_entity(vocab, answer) for answer in record['answers']]
        row = metrics.score(ranked, [answer['weight'] for answer in record['answers']], gold)
        row['answer_coverage'] = bool(question.answers)
        rank = metrics.rank_of(ranked, gold)
        case = {'right': rank == 1, 'rank': rank}
        if leads is not None:
            known = [entity for entity in question.entities if entity >= 0]
            row['coverage'] = case['covered'] = any(leads[question.hops, known])
            row |= {'coverage_of_linked': row['coverage']} if known else {}
            row |= {'hits@1_of_covered': row['hits@1']} if row['coverage'] else {}
            hop_rows += _hop_rows(question, record, leads, vocab, set(ranked), gold)
        rows.append(row)
        names = sorted([*(vocab.names[a] for a in question.answers), *question.unknown_answers])
        cases.append({**case, 'type': question.type, 'gold': names, **record})
    out: dict = means([*rows, *hop_rows])
    out |= {'questions': len(asked), 'unscored': len(questions) - len(asked)}
    out['unknown_topics'] = sum(max(q.entities) < 0 for q, _ in asked)
    out['unknown_answers'] = sum(bool(q.unknown_answers) for q, _ in asked)
    by_type = grouped(zip(asked, rows), lambda scored: scored[0][0].type)
    out['hits@1_by_type'] = {n: means(r for _, r in of)['hits@1'] for n, of in by_type.items() if n}
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


def _hop_rows(
    question, record, leads, vocab, answers: set, gold: set
) -> Iterator[dict[str, float]]:
    """Yields what the hops of one prediction are worth; see `evaluate_predictions`."""
    traces = record.get('traces', [])
    if any(len(hops) != question.hops for hops in traces):
        over = f'an answer over {len(traces[0])} hops to a question of {question.hops}'
        raise PredictionError(f'{question.id}: {over}')
    if any('null' in hop for hops in traces for hop in hops):
        for hops, topic in zip(traces, question.entities):
            best = [_entity(vocab, {'key': key}) for key in hops[-1]['entities'][:1]]
            right = bool(set(best) & gold)
            yield {'retrieval_accuracy_of_all': right}
            if topic >= 0 and leads[question.hops, topic]:
                yield {'retrieval_accuracy': right}
            if question.hops == 1 and topic >= 0:
                yield {'null_present' if leads[1, topic] else 'null_absent': hops[0]['null']}
        return
    yield {f'recall_hop{question.hops}': len(answers & gold) / len(gold)}
    for hops in traces:
        for number, hop in enumerate(hops[:-1], 1):
            entities = {_entity(vocab, {'key': key}) for key in hop['entities']}
            left = leads[question.hops - number]
            yield {f'reach_hop{number}': any(left[e] for e in entities if isinstance(e, int))}
            if question.via:
                expected = set(question.via[number - 1])
                yield {f'recall_hop{number}': len(entities & expected) / len(expected)}


def _entity(vocab: EntityVocab, answer: dict) -> int | str:
    """The id of a predicted entity, or its name if the vocabulary does not have it."""
    if 'key' in answer:
        return vocab.id_of_key.get(answer['key'], answer['key'])
    entity = vocab.get(answer['entity'])
    return answer['entity'] if entity is None else entity


def format_table(results: dict[str, dict]) -> str:
    """The main metrics of {set: metrics}, a line per set."""
    columns = ['hits@1', 'hits@5', 'hits@10', 'mrr', 'set_f1', 'coverage', 'hits@1_of_covered']
    head, *lines = table(results, [*columns, 'questions']).split('\n')
    others = ('recall_hop', 'reach_hop', 'retrieval', 'null', 'hits@1_of_all')
    rest = [
        '  '.join(f'{k} {v:.3f}' for k, v in sorted(values.items()) if k.startswith(others))
        for values in results.values()
    ]
    return '\n'.join([head, *(f'{line}   {more}' for line, more in zip(lines, rest))])
