"""Answers question sets, and scores predictions files, made here or elsewhere."""

import hashlib
import pathlib
from collections.abc import Callable
from typing import Any

from opql_jax.core import distributed, files
from opql_jax.core.errors import InputError
from opql_jax.core.terminal import one_line
from opql_jax.corpus.json_lines import read_json, write_json
from opql_jax.corpus.questions import Question, bracketed
from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.questions import is_file, load_questions
from opql_jax.evaluation import predictions as predictions_lib
from opql_jax.evaluation.evaluate import evaluate_predictions, format_table
from opql_jax.kb.answers import format_answer
from opql_jax.kb.open_kb import open_kb
from opql_jax.kb.prediction_record import prediction_record
from opql_jax.kb.virtual_kb import VirtualKB


def as_tuple(names: str | tuple[str, ...]) -> tuple[str, ...]:
    """One name, or several, as a tuple."""
    return (names,) if isinstance(names, str) else tuple(names)


def write_answers(kb: VirtualKB, questions: list[Question], output, evidence: int = 3) -> int:
    """`write_predictions` of answers, with the sentences of `evidence` entries per hop."""
    by = hashlib.sha256(f'{kb.identity} {evidence}'.encode()).hexdigest()[:12]

    def answer(chunk):
        for found in kb.answer(chunk):
            yield prediction_record(found, evidence) | {'by': by}

    return predictions_lib.write_predictions(output, questions, by, answer)


def infer(
    *,
    kb: str,
    text: str | None = None,
    model: str | None = None,
    memory: str | None = None,
    questions: str,
    output: str,
    k: int | None = None,
    index: str | None = None,
    evidence: int = 3,
    step: int | None = None,
    dry_run: bool = False,
) -> None:
    """Answers one question set, whose answers need not be known: a JSON line per question.

    Several processes answer together; a killed run resumes, and `output` appears only when it is
    complete.

    Args:
        kb, text, model, memory, k, index, step: see `open_kb`.
        questions: see `load_questions`.
        output: the predictions file.
        evidence: see `write_answers`.
        dry_run: only opens and counts.
    """
    opened = open_kb(kb, text=text, model=model, memory=memory, step=step, k=k, index=index)
    loaded = load_questions(questions, opened.prepared)
    if dry_run:
        print(f'# {questions}: {len(loaded):,} questions{_over(opened)}')
        return
    write_answers(opened, loaded, output, evidence)


def evaluate(
    *,
    kb: str,
    text: str | None = None,
    model: str | None = None,
    memory: str | None = None,
    questions: str | tuple[str, ...],
    output_dir: str,
    needs: str | tuple[str, ...] = (),
    predictions: str | None = None,
    k: int | None = None,
    index: str | None = None,
    evidence: int = 1,
    show: int = 0,
    step: int | None = None,
    dry_run: bool = False,
) -> dict[str, dict]:
    """Answers question sets and scores the answers.

    Several processes answer together, and the primary one scores. Predictions that are there
    already, of the same questions, model, memory and settings, are scored and not made again.

    Args:
        kb, text, model, memory, k, index, step: see `open_kb`.
        questions: one set or several, see `load_questions`.
        output_dir: receives <set>.predictions.jsonl, <set>.cases.jsonl (wrong ones first) and
            metrics.json; a file's set is named by its stem.
        needs: relations such as 'P57'; only questions that need one of these are asked (see
            `Question.needs`).
        predictions: scores this output of `infer`, or of t5x.infer over gin/t5x, for the one set,
            instead of answering again.
        evidence: see `write_answers`.
        show: questions of each set, from its start, that are printed with their hops and evidence.
        dry_run: only opens and counts.

    Returns:
        {set: metrics}, see `evaluate_predictions`. Of a file that `convert_questions` wrote also
        `unmarked`, the questions it left out because they mention no known name, and
        `hits@1_of_all`, which counts these as wrong.

    Raises:
        PredictionError: what is in `output_dir` is of other questions, or of another model, memory
            or setting.
    """
    questions, needs = as_tuple(questions), as_tuple(needs)
    names = {pathlib.Path(name).stem if is_file(name) else name: name for name in questions}
    if not names:
        raise InputError('questions: name at least one set: --gin.QUESTIONS')
    if len(names) < len(questions):
        raise InputError('questions: two sets have the same name, and would have one result')
    if predictions and len(names) > 1:
        raise InputError('predictions are of one question set: name only that')
    output = files.path(output_dir)
    opened = open_kb(kb, text=text, model=model, memory=memory, step=step, k=k, index=index)
    sets = {name: load_questions(source, opened.prepared) for name, source in names.items()}
    if needs:
        sets = {name: [q for q in loaded if q.needs(needs)] for name, loaded in sets.items()}
    for name, loaded in sets.items():
        if not loaded:
            raise InputError(f'{name} holds no questions that need {" or ".join(needs)}')
        if dry_run:
            print(f'# {name}: {len(loaded):,} questions{_over(opened)}')
    if dry_run:
        return {}
    place = lambda name: files.path(predictions or output / f'{name}.predictions.jsonl')
    paths, metrics = {name: place(name) for name in sets}, {}
    with distributed.writer(output):
        for name, loaded in () if predictions else sets.items():
            write_answers(opened, loaded, paths[name], evidence)
        if distributed.is_primary():
            sources = {} if needs else names  # a report beside a file is of all its questions
            metrics = _score(opened, sets, sources, paths, output, show)
        # JAX ends all processes when one has waited for some minutes at its end: the others
        # wait for the scores here.
        distributed.barrier(f'{output} is scored')
    return metrics


def evaluate_in_training(
    *, kb: str, text: str, model: str, memory: str, questions: str | tuple[str, ...] = ()
) -> Callable[[int], dict[str, float]] | None:
    """The `on_checkpoint` of `trainer.train` that scores splits such as '1-hop/dev', or files.

    Predictions and metrics of a checkpoint go to <model>/evaluation/<step>.

    Args:
        kb, text, model, memory: as of the training run.
        questions: what is scored; None comes back without.
    """
    if not questions:
        return None

    def evaluate_checkpoint(step: int) -> dict[str, float]:
        output_dir = str(KBFolder(kb).part(model) / 'evaluation' / str(step))
        parts: dict[str, Any] = {'kb': kb, 'text': text, 'model': model, 'memory': memory}
        results = evaluate(**parts, questions=questions, output_dir=output_dir, step=step)
        return {
            f'{name}/{metric}': value
            for name, metrics in results.items()
            for metric, value in metrics.items()
            if isinstance(value, int | float)
        }

    return evaluate_checkpoint


def _over(kb: VirtualKB) -> str:
    return '' if kb.memory is None else f' over {len(kb.memory):,} entries'


def _score(kb: VirtualKB, sets, sources, paths, directory, show: int) -> dict[str, dict]:
    metrics = {}
    for name, questions in sets.items():
        records = predictions_lib.in_order(predictions_lib.read_predictions(paths[name]), questions)
        predictions_lib.check_same_questions(records, questions, paths[name])
        metrics[name] = evaluate_predictions(
            questions, records, kb.vocab, kb.memory, directory / f'{name}.cases.jsonl'
        )
        metrics[name] |= _with_unmarked(metrics[name], sources[name]) if name in sources else {}
    # Its existence says that all sets were scored.
    write_json(directory / 'metrics.json', metrics)
    for name, questions in sets.items():
        for question, answer in zip(questions, kb.answer(questions[:show]) if show else ()):
            known = [kb.vocab.names[answer] for answer in question.answers]
            gold = one_line(', '.join([*known, *question.unknown_answers]))
            print(f'\n{name}: {one_line(bracketed(question))}\n  gold: {gold}')
            print(format_answer(answer, top=3))
    print('\n' + format_table(metrics))
    return metrics


def _with_unmarked(metrics: dict, source: str) -> dict:
    """The metrics of questions that `convert_questions` could not mark, from its report."""
    report = files.path(f'{source}.coverage.json')
    if not report.exists():
        return {}
    unmarked, scored = read_json(report)['no_mention'], metrics['questions']
    return {'unmarked': unmarked, 'hits@1_of_all': metrics['hits@1'] * scored / (scored + unmarked)}
