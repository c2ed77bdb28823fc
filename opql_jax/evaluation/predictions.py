"""Predictions files: a JSON line a question, written in chunks, by one process or several.

Every model writes the same records, and any records of this form can be scored:

    {"id": "q1", "question": "who directed [Up]?", "answers": [{"entity": "Pete Docter",
     "key": "Q1", "weight": 0.9}]}

Records are in the order of the questions, or in any order if their ids are those of the questions.
`answers` are best first; without a `key` an answer is looked up by its name. Optional fields are
`hops`, the number of hops; `traces`, for each topic of the question a list of hops, each with the
keys of the `entities` found there, best first, and, from a language model, `null`, the mass of its
null entry; and `by`, which identifies the model, the memory and the settings.
"""

import glob
import itertools
import json
import logging
import shutil
from collections.abc import Callable, Iterable

import msgspec

from opql_jax.core import distributed, files, locks
from opql_jax.core.errors import InputError
from opql_jax.core.files import atomic_path
from opql_jax.core.progress import logged
from opql_jax.corpus.json_lines import short_repr
from opql_jax.corpus.questions import Question, bracketed

_log = logging.getLogger(__name__)

# Questions per chunk. A chunk's bytes depend neither on the process that answers it nor on earlier
# chunks, so a resumed run writes the same file as an undisturbed one.
CHUNK = 256
# Another program that answers the same needs but a moment once the output is there.
_PATIENCE = 60.0


class PredictionError(InputError):
    """A predictions file does not fit the questions, or is damaged."""


def write_predictions(
    output, questions: list[Question], by: str, answer: Callable[[list], Iterable[dict]]
) -> int:
    """Writes the predictions for `questions` to `output`, which appears only when it is complete.

    `answer` returns the records of a chunk of questions, in order, each with `by`, which identifies
    the model, the memory and the settings. Finished chunks are kept in the folder `<output>.parts`.
    Several processes that share a file system each answer every n-th chunk, and the primary one
    joins them. Returns the number of questions answered now. PredictionError: `output` or a chunk
    holds answers to other questions, or `by` another. InputError: another program writes these
    predictions.
    """
    output = files.path(output)
    parts = output.with_name(output.name + '.parts')
    if output.exists():
        _check(output, questions, by)
        _log.info('%s is already complete', output)
        # By all processes, before the primary one removes what another looks for.
        distributed.barrier(f'{output} was read')
        answered = 0
    else:
        with distributed.writer(parts):
            answered = _write_chunks(output, parts, questions, by, answer)
    if distributed.is_primary() and parts.exists():
        with locks.writer(parts, patience=_PATIENCE):  # which also removes the lock of a killed run
            paths = _chunk_paths(parts, questions)
            with output.open('rb') as whole:
                for path in paths:  # those whose lines stand in the output
                    lines = b''.join(itertools.islice(whole, CHUNK))
                    if path.exists() and path.read_bytes() == lines:
                        path.unlink()
            files.remove_partials(parts, *(path.name for path in paths))
        if parts.exists() and not any(parts.iterdir()):
            files.rmtree(parts)
    return answered


def _chunk_paths(parts, questions: list[Question]) -> list:
    """The files of the chunks, in their order."""
    count = -(-len(questions) // CHUNK)
    return [parts / f'{number:05d}-of-{count:05d}.jsonl' for number in range(count)]


def _write_chunks(output, parts, questions: list[Question], by: str, answer) -> int:
    """Answers what is missing and joins the chunks."""
    chunks = [questions[start : start + CHUNK] for start in range(0, len(questions), CHUNK)]
    paths = _chunk_paths(parts, questions)
    if unexpected := {*parts.glob('[!.]*')} - {*paths}:
        raise PredictionError(
            f'{min(unexpected)} is of other questions: delete {parts} to '
            'answer these, or choose another output'
        )
    own = range(distributed.process_index(), len(chunks), distributed.process_count())
    for number in own:
        if paths[number].exists():
            _check(paths[number], chunks[number], by)
    answered = _answer_chunks([(paths[n], chunks[n]) for n in own if not paths[n].exists()], answer)
    distributed.barrier(f'{parts} is complete')
    if distributed.is_primary():
        # Of a run that was killed while joining.
        files.remove_partials(output.parent, glob.escape(output.name))
        with atomic_path(output) as path, open(path, 'wb') as file:
            for part in paths:
                with part.open('rb') as chunk:
                    shutil.copyfileobj(chunk, file)
    distributed.barrier(f'{output} is complete')
    return answered


def _answer_chunks(missing: list[tuple], answer) -> int:
    """Writes the missing (path, questions) chunks with progress; returns the questions' number."""

    def written():
        for part, chunk in missing:
            with atomic_path(part) as path, open(path, 'w', encoding='utf-8') as file:
                for record in answer(chunk):
                    try:
                        file.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + '\n')
                    except ValueError as error:
                        raise PredictionError(
                            f'question {record["id"]}: its answer has a number that is not finite; '
                            'the training of the model diverged, or its memory is damaged'
                        ) from error
            yield chunk

    total = sum(len(chunk) for _, chunk in missing)
    return sum(len(chunk) for chunk in logged(written(), total, 'questions answered'))


def _check(path, questions: list[Question], by: str) -> None:
    records = read_predictions(path)
    check_same_questions(records, questions, path)
    for number, record in enumerate(records, 1):
        if record.get('by') != by:
            raise PredictionError(
                f'{path}, line {number} comes from another model, memory or setting '
                f'({record.get("by")}, this one is {by}): delete the file to answer again, or '
                'choose another output'
            )


def read_predictions(path) -> list[dict]:
    """Reads a predictions file; PredictionError names the line that is no prediction."""
    try:
        lines = files.path(path).read_text(encoding='utf-8').split('\n')
    except (OSError, UnicodeDecodeError) as error:
        raise PredictionError(f'{path}: cannot be read ({error})') from error
    records = []
    for number, line in enumerate(lines, 1):
        if line:
            try:
                record = msgspec.json.decode(line)  # unlike json, without NaN and infinite numbers
                if type(record['id']) not in (str, int):
                    found = short_repr(record['id'])
                    raise TypeError(f'id: expected a string or a whole number, found {found}')
                _ = record['question']
                [(a['entity'] + '', a['weight'] + 0.0) for a in record['answers']]
                hops = [hop for hops in record.get('traces', []) for hop in hops]
                [key + '' for hop in hops for key in hop['entities']]
            except (msgspec.DecodeError, KeyError, TypeError) as error:
                said = f'not a prediction ({type(error).__name__}: {error})'
                raise PredictionError(f'{path}, line {number}: {said}') from error
            records.append(record)
    return records


def in_order(records: list[dict], questions: list[Question]) -> list[dict]:
    """The predictions in the questions' order; unchanged if the ids are not the questions'."""
    by_id = {str(record['id']): record for record in records}
    ids = [question.id for question in questions]
    if len(records) == len(ids) and by_id.keys() == {*ids}:
        return [by_id[id] for id in ids]
    return records


def check_same_questions(records: list[dict], questions: list[Question], path) -> None:
    """Raises PredictionError unless record i of the file `path` answers question i."""
    if len(records) != len(questions):
        raise PredictionError(
            f'{path} holds {len(records)} predictions for {len(questions)} questions'
        )
    for number, (record, question) in enumerate(zip(records, questions), 1):
        found = (record['question'], record.get('hops', question.hops))
        expected = (bracketed(question), question.hops)
        if found != expected:
            raise PredictionError(
                f'{path}, line {number} answers {found[0]!r} over {found[1]} hops, but question '
                f'{number} is {expected[0]!r} over {expected[1]}'
            )
