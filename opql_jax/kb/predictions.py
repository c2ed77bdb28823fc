"""Predictions: a JSON line for each question of a file, written in chunks by one process or several, and read again."""

import hashlib
import json
import logging
import shutil
import time
from collections.abc import Callable, Iterable, Iterator

from opql_jax.core import distributed, files
from opql_jax.core.errors import InputError
from opql_jax.core.files import atomic_path
from opql_jax.corpus.questions import Question, bracketed
from opql_jax.kb.virtual_kb import Hop, VirtualKB

_log = logging.getLogger(__name__)

# Questions that are answered before their answers are on disk. A chunk does not depend on which process answers it, or on what was
# answered before, so that a run that was killed ends with the bytes of another.
CHUNK = 256
# Seconds between two messages.
_QUIET = 10


class PredictionError(InputError):
    """A predictions file does not fit the questions, or is damaged."""


def predict(kb: VirtualKB, questions: list[Question], hops: int, *, batch_size: int = 64, evidence: int = 3) -> Iterator[dict]:
    """Yields the prediction record of each question, in order.

    A record is `{id, question, by, topic, answers: [{entity, key, weight}], hops: [[key]], evidence: [[...]]}`. `by` identifies
    the model, the memory and the settings (see `made_by`), `answers` lists all entities found, best first, by name and key,
    `hops` those after each hop before the last, `evidence` the `evidence` heaviest entries of each hop. Questions whose topic
    is unknown get no answers and say so in `error`.
    """
    by = made_by(kb, hops, evidence)
    for start in range(0, len(questions), batch_size):
        batch = questions[start : start + batch_size]
        for question, steps in zip(batch, kb.follow(batch, hops)):
            yield {**_record(kb, question, steps, evidence), 'by': by}


def made_by(kb: VirtualKB, hops: int, evidence: int = 3) -> str:
    """Identifies what records come from: 12 hex digits over the parameters, the memory and all settings."""
    return hashlib.sha256(f'{kb.identity} {hops} {evidence}'.encode()).hexdigest()[:12]


def _record(kb: VirtualKB, question: Question, steps: list[Hop], evidence: int) -> dict:
    names, keys = kb.vocab.names, kb.vocab.keys
    out = {
        'id': question.id,
        'question': bracketed(question),
        'topic': names[question.topic_entity] if question.topic_entity >= 0 else None,
        'answers': [
            {'entity': names[int(e)], 'key': keys[int(e)], 'weight': round(float(w), 6)}
            for e, w in zip(steps[-1].entities, steps[-1].weights)
        ],
        'hops': [[keys[int(e)] for e in hop.entities] for hop in steps[:-1]],
    }
    if question.topic_entity < 0:
        out['error'] = 'the topic is not in the entity vocabulary'
    if evidence:
        out['evidence'] = [kb.evidence(hop.entries[:evidence]) for hop in steps]
    return out


def infer(kb: VirtualKB, questions: list[Question], output, *, hops: int, batch_size: int = 64, evidence: int = 3) -> int:
    """Writes the predictions of a virtual knowledge base, see `write_predictions`."""
    by = made_by(kb, hops, evidence)
    return write_predictions(
        output, questions, by, lambda chunk: predict(kb, chunk, hops, batch_size=batch_size, evidence=evidence)
    )


def write_predictions(
    output, questions: list, by: str, answer: Callable[[list], Iterable[dict]], asked: Callable[..., str] | None = None
) -> int:
    """Writes predictions to `output` (JSON Lines), which appears when it is whole.

    Until then chunks lie in the folder `<output>.parts`, where a run that was stopped finds what it need not answer again. Of
    several processes, which share a file system, each answers every so many-th chunk.

    Args:
        questions: what is asked.
        by: identifies the model, the memory and the settings.
        answer: gives the records of some questions, in order, each with `by`.
        asked: how a question stands in its record; `bracketed` if None.

    Returns:
        How many questions this call answered, in this process.

    Raises:
        PredictionError: what is there already is of other questions, or of another model, memory or setting.
    """
    output = files.path(output)
    parts = output.with_name(output.name + '.parts')
    if output.exists():
        _check(output, questions, by, asked)
        _log.info('%s is already whole', output)
        distributed.barrier(f'{output} was read')  # by all, before one may remove what another still looks for
        if distributed.is_primary() and parts.exists():
            files.rmtree(parts)
        return 0
    chunks = [questions[start : start + CHUNK] for start in range(0, len(questions), CHUNK)]
    paths = [parts / f'{number:05d}-of-{len(chunks):05d}.jsonl' for number in range(len(chunks))]
    if strange := {*parts.glob('[!.]*')} - {*paths}:
        raise PredictionError(f'{min(strange)} is of other questions: delete {parts} to answer these, or choose another output')
    mine = range(distributed.process_index(), len(chunks), distributed.process_count())
    for number in mine:
        if paths[number].exists():
            _check(paths[number], chunks[number], by, asked)
    left = [number for number in mine if not paths[number].exists()]
    answered, started, said = 0, time.monotonic(), 0.0
    for number in left:
        with atomic_path(paths[number]) as path, open(path, 'w', encoding='utf-8') as file:
            for record in answer(chunks[number]):
                file.write(json.dumps(record, ensure_ascii=False) + '\n')
        answered += len(chunks[number])
        seconds = time.monotonic() - started
        if number == left[-1] or seconds - said > _QUIET:
            said, rate = seconds, answered / seconds
            ahead = sum(len(chunks[later]) for later in left if later > number)
            _log.info('%d of %d questions left  %.0f/s  ETA %ds', ahead, answered + ahead, rate, ahead / rate)
    distributed.barrier(f'{parts} is whole')
    if distributed.is_primary():
        for leftover in output.parent.glob(f'.{output.name}.*.partial'):  # of a run that was killed here
            leftover.unlink()
        with atomic_path(output) as path, open(path, 'wb') as file:
            for part in paths:
                with part.open('rb') as chunk:
                    shutil.copyfileobj(chunk, file)
        files.rmtree(parts)
    distributed.barrier(f'{output} is whole')
    return answered


def _check(path, questions: list, by: str, asked) -> None:
    predictions = read_predictions(path)
    check_same_questions(predictions, questions, path, asked)
    _check_origin(predictions, by, path)


def _check_origin(predictions: list[dict], by: str, path) -> None:
    for number, record in enumerate(predictions, 1):
        if record.get('by') != by:
            raise PredictionError(
                f'{path}, line {number} comes from another model, memory or setting ({record.get("by")}, this one is {by}):'
                ' delete the file to answer again, or choose another output'
            )


def read_predictions(path) -> list[dict]:
    """Reads a predictions file; errors name the line."""
    try:
        lines = files.path(path).read_text(encoding='utf-8').split('\n')
    except (OSError, UnicodeDecodeError) as error:
        raise PredictionError(f'{path}: cannot be read ({error})') from error
    out = []
    for number, line in enumerate(lines, 1):
        if line:
            try:
                record = json.loads(line)
                record['id'], record['question'], [(a['entity'] + '', a['weight'] + 0.0) for a in record['answers']]
                [key + '' for keys in record.get('hops', []) for key in keys]
            except (json.JSONDecodeError, KeyError, TypeError) as error:
                raise PredictionError(f'{path}, line {number}: not a prediction ({type(error).__name__}: {error})') from error
            out.append(record)
    return out


def check_same_questions(predictions: list[dict], questions: list, path, asked: Callable[..., str] | None = None) -> None:
    """Raises PredictionError unless prediction i is of question i, which stands there as `asked` says (`bracketed` if None)."""
    asked = asked or bracketed
    if len(predictions) != len(questions):
        raise PredictionError(f'{path} holds {len(predictions)} predictions for {len(questions)} questions')
    for number, (record, question) in enumerate(zip(predictions, questions), 1):
        if record['question'] != asked(question):
            raise PredictionError(
                f'{path}, line {number} answers {record["question"]!r}, but question {number} is {asked(question)!r}'
            )
