"""Answers to question files, and their scores: `infer` and `eval` as functions.

They meet only in the predictions file, so predictions made elsewhere, or over unseen questions, are scored by the same code.
"""

import json
import pathlib

import numpy as np

from opql_jax.core import distributed, files
from opql_jax.core.errors import InputError
from opql_jax.core.files import atomic_path
from opql_jax.corpus.questions import Question, bracketed
from opql_jax.datasets import metaqa
from opql_jax.evaluation import metrics
from opql_jax.evaluation.checkpoints import score_steps
from opql_jax.kb.ask import format_hops
from opql_jax.kb.predictions import PredictionError, check_same_questions, infer, read_predictions
from opql_jax.kb.virtual_kb import VirtualKB

# Questions whose reachable entities are held at once, a byte for each entity and hop.
_GRAPH_BATCH = 16


def evaluate(kb: VirtualKB, questions: list[Question], predictions: list[dict], hops: int, cases_path=None) -> dict:
    """Scores predictions.

    Unknown gold answers count as answers that cannot be found; unknown topics count as wrong. Entities are compared by key;
    a predicted entity without a `key` is looked up by its name.

    Args:
        kb: gives vocabulary and memory, for coverage and per-hop recall.
        questions: with gold answers.
        predictions: record i answers question i.
        hops: number of hops.
        cases_path: right and wrong cases go here, as JSON lines, wrong ones first.

    Returns:
        hits@{1,5,10}, mrr, set_f1, hits@1_by_type, questions, unknown_topics, unknown_answers, and
        coverage: the share of questions with an answer reachable in the memory by any path of `hops` entries;
        hits@1_of_covered: Hits@1 among these;
        recall_hop{h}: the share of hop h's gold entities that were found there, on average over the questions whose gold
            entities are known (of the last hop always: the answers);
        reach_hop{h}, h < hops: the share of questions from whose entities after hop h some path still leads to an answer. It
            bounds from above what later hops can get right.
    """
    if len(predictions) != len(questions):
        raise PredictionError(f'{len(predictions)} predictions for {len(questions)} questions')
    graph = metrics.adjacency(kb.memory.topic, kb.memory.target, len(kb.vocab))
    scored, covered, cases = [], [], []
    recalls, reaches = [[] for _ in range(hops)], [[] for _ in range(hops - 1)]
    for start in range(0, len(questions), _GRAPH_BATCH):
        batch = questions[start : start + _GRAPH_BATCH]
        lead = metrics.reachable(graph, [question.answers for question in batch], hops)
        for i, (question, record) in enumerate(zip(batch, predictions[start:])):
            gold = {*question.answers, *question.unknown_answers}
            if not gold:
                raise PredictionError(f'{question.id} ({bracketed(question)!r}) has no gold answers, so it cannot be scored')
            ranked = [_entity(kb, answer) for answer in record['answers']]
            result = metrics.score(ranked, [answer['weight'] for answer in record['answers']], gold)
            scored.append(result)
            covered.append(bool(question.topic_entity >= 0 and lead[hops, question.topic_entity, i]))
            found = [[_entity(kb, {'key': key}) for key in keys] for keys in record.get('hops', [])]
            if 'hops' in record and len(found) != hops - 1:
                raise PredictionError(f'{question.id}: an answer over {len(found) + 1} hops to a question of {hops}')
            for hop, (entities, wanted) in enumerate(zip(found, question.via)):
                recalls[hop].append(len(set(entities) & set(wanted)) / len(wanted))
            recalls[-1].append(len(set(ranked) & gold) / len(gold))
            for hop, entities in enumerate(found):
                reaches[hop].append(any(lead[hops - 1 - hop, e, i] for e in entities if isinstance(e, int)))
            cases.append(
                {
                    'right': result.rank == 1,
                    'rank': result.rank,
                    'covered': covered[-1],
                    'type': question.type,
                    'gold': sorted([*(kb.vocab.names[a] for a in question.answers), *question.unknown_answers]),
                    **record,
                }
            )
    out = metrics.summarise(scored)
    out['coverage'] = float(np.mean(covered))
    out['hits@1_of_covered'] = float(np.mean([s.rank == 1 for s, c in zip(scored, covered) if c])) if any(covered) else 0.0
    for name, hop_values in (('recall', recalls), ('reach', reaches)):
        out.update({f'{name}_hop{hop}': float(np.mean(values)) for hop, values in enumerate(hop_values, 1) if values})
    out['questions'] = len(questions)
    out['unknown_topics'] = sum(q.topic_entity < 0 for q in questions)
    out['unknown_answers'] = sum(bool(q.unknown_answers) for q in questions)
    by_type = sorted({q.type for q in questions} - {''})
    out['hits@1_by_type'] = {
        t: float(np.mean([s.rank == 1 for s, q in zip(scored, questions) if q.type == t])) for t in by_type
    }
    if cases_path:
        with atomic_path(cases_path) as path, open(path, 'w', encoding='utf-8') as file:
            for case in sorted(cases, key=lambda c: c['right']):
                file.write(json.dumps(case, ensure_ascii=False) + '\n')
    return out


def _entity(kb: VirtualKB, answer: dict) -> int | str:
    """The entity id of a predicted answer, or its name where the vocabulary does not have it."""
    if 'key' in answer:
        found = kb.vocab.id_of_key.get(answer['key'])
        return answer['key'] if found is None else found
    found = kb.vocab.get(answer['entity'])
    return answer['entity'] if found is None else found


def infer_file(
    *,
    prepared_dir: str,
    model_dir: str,
    memory_dir: str,
    question_file: str,
    hops: int,
    output: str,
    k: int | None = None,
    exclude_topic: bool | None = None,
    filter: bool | None = None,
    batch_size: int = 64,
    evidence: int = 3,
    step: int | None = None,
    dry_run: bool = False,
) -> None:
    """Answers every question of a file in the MetaQA format (`question with [topic]<TAB>answers...`; answers may be absent).

    Writes one JSON line per question to `output`, in several processes together if there are, see `predictions.infer`; a killed run
    resumes, and `output` appears only when it is whole.
    """
    kb = VirtualKB.open(prepared_dir, model_dir, memory_dir, step=step, k=k, exclude_topic=exclude_topic, filter=filter)
    questions = metaqa.read_questions(question_file, kb.vocab, hops)
    if dry_run:
        print(f'# {len(questions):,} questions of {hops} hops over {len(kb.memory):,} entries')
        return
    infer(kb, questions, output, hops=hops, batch_size=batch_size, evidence=evidence)


def evaluate_sets(
    *,
    prepared_dir: str,
    model_dir: str,
    memory_dir: str,
    output_dir: str,
    splits: tuple[str, ...] = (),
    needs: tuple[str, ...] = (),
    question_file: str | None = None,
    hops: int | None = None,
    predictions: str | None = None,
    k: int | None = None,
    exclude_topic: bool | None = None,
    filter: bool | None = None,
    batch_size: int = 64,
    show: int = 0,
    step: int | str | None = None,
    patience: float = 3600.0,
    dry_run: bool = False,
) -> dict[str, dict]:
    """Scores question sets: prepared splits, or one file with gold answers (then `hops` is needed).

    Several processes answer together, and the first one scores.

    Args:
        output_dir: receives <set>.predictions.jsonl, <set>.cases.jsonl (wrong ones first) and metrics.json.
        splits: such as '2-hop/dev'.
        needs: relations such as 'P57'; of the splits, only questions that need one of these are asked (see `Question.needs`).
        question_file: a file in the MetaQA format instead of splits.
        predictions: score this output of `infer` (for `question_file`) instead of answering again.
        show: questions of each set, from its start, that are printed with their hops and evidence, right or wrong.
        step, patience: the checkpoint; the newest if None; or several, see `score_steps`.

    Returns:
        {set name: metrics}, of the last step.
    """
    for name, value in (('splits', splits), ('needs', needs)):
        if isinstance(value, str):
            raise InputError(f"{name}: write a tuple, ('{value}',)")
    if needs and not splits:
        raise InputError('needs: belongs to splits, whose questions name their relations')
    if bool(splits) == bool(question_file):
        raise InputError('give either splits or question_file: --gin.SPLITS or --gin.QUESTION_FILE')
    if question_file and hops is None:
        raise InputError('hops: the number of hops of question_file is needed: --gin.HOPS')
    if predictions and not question_file:
        raise InputError('predictions belong to a question_file')
    if predictions and isinstance(step, str):
        raise InputError(f'predictions are of one checkpoint, and step={step!r} asks for several')

    def score(step, directory):
        kb = VirtualKB.open(prepared_dir, model_dir, memory_dir, step=step, k=k, exclude_topic=exclude_topic, filter=filter)
        if question_file:
            sets = {pathlib.Path(question_file).stem: metaqa.read_questions(question_file, kb.vocab, hops)}
        else:
            sets = {split: [q for q in kb.prepared.questions(split) if not needs or q.needs(needs)] for split in splits}
        for name, questions in sets.items():
            if not questions:
                raise InputError(f'{name} holds no questions{" that need " + " or ".join(needs) if needs else ""}')
        if dry_run:
            for name, questions in sets.items():
                print(f'# {name}: {len(questions):,} questions over {len(kb.memory):,} entries')
            return {}
        return _score_sets(kb, sets, directory, predictions, batch_size, show)

    return score_steps(score, model_dir, output_dir, step, patience, dry_run)


def _score_sets(kb, sets, directory, predictions, batch_size, show) -> dict[str, dict]:
    paths = {name: files.path(predictions or directory / f'{name}.predictions.jsonl') for name in sets}
    if not predictions:
        for name, questions in sets.items():
            infer(kb, questions, paths[name], hops=questions[0].hops, batch_size=batch_size, evidence=1)
    # JAX ends all processes when one of them has waited at its end for some minutes: the others wait here.
    out = _scored(kb, sets, paths, directory, show) if distributed.is_primary() else {}
    distributed.barrier(f'{directory} is scored')
    return out


def _scored(kb, sets, paths, directory, show) -> dict[str, dict]:
    out = {}
    for name, questions in sets.items():
        records = read_predictions(paths[name])
        check_same_questions(records, questions, paths[name])
        out[name] = evaluate(kb, questions, records, questions[0].hops, directory / f'{name}.cases.jsonl')
    # Whole or not at all: that it is there says that all sets were answered.
    with atomic_path(directory / 'metrics.json') as path:
        path.write_text(json.dumps(out, indent=2))
    for name, questions in sets.items():
        for question in questions[:show]:
            print(f'\n{name}: {bracketed(question)}\n  gold: {", ".join(kb.vocab.names[a] for a in question.answers)}')
            print(format_hops(kb, kb.follow([question], question.hops)[0], top=3))
    print('\n' + format_table(out))
    return out


def format_table(results: dict[str, dict]) -> str:
    """The main metrics, a line per question set."""
    columns = ['hits@1', 'hits@5', 'hits@10', 'mrr', 'set_f1', 'coverage', 'hits@1_of_covered', 'questions']
    width = max(len(name) for name in results)
    lines = [' '.join([' ' * width, *(f'{c:>17}' for c in columns)])]
    for name, values in results.items():
        cells = [f'{values[c]:>17}' if c == 'questions' else f'{values[c]:>17.4f}' for c in columns]
        recall = '  '.join(f'{k} {v:.3f}' for k, v in values.items() if k.startswith(('recall_hop', 'reach_hop')))
        lines.append(' '.join([f'{name:<{width}}', *cells]) + f'   {recall}')
    return '\n'.join(lines)
