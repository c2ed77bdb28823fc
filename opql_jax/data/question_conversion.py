"""Converts WebQSP, ComplexWebQuestions and MetaQA to question files (`corpus.questions`)."""

import dataclasses
import os

from opql_jax.core import files, locks
from opql_jax.core.errors import InputError, check_choice
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.json_lines import write_json
from opql_jax.corpus.questions import write_questions
from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.prepared import Prepared
from opql_jax.datasets import complexwebquestions, metaqa, webqsp
from opql_jax.datasets.entity_resolution import EntityResolver
from opql_jax.datasets.question_records import Coverage, with_topics

_READERS = {
    'webqsp': webqsp.read,
    'webqsp_lines': webqsp.read_lines,
    'complexwebq': complexwebquestions.read,
}
FORMATS = (*_READERS, 'metaqa')


def format_of(path: str | os.PathLike) -> str | None:
    """The format that a file begins like; None for none that is known."""
    with open(path, encoding='utf-8', errors='replace') as file:
        start = file.read(4096).lstrip('\ufeff \n\r\t')
    line = start.partition('\n')[0]
    if start.startswith('['):
        marks = ('"composition_answer"', '"compositionality_type"')
        return 'complexwebq' if any(mark in start for mark in marks) else None
    if not start.startswith('{'):
        return 'metaqa' if '\t' in line and '[' in line else None
    if '"Questions"' in start:
        return 'webqsp'
    return 'webqsp_lines' if '"qId"' in line else None


def convert(
    *,
    format: str,
    path: str | os.PathLike,
    vocab: EntityVocab,
    output: str | os.PathLike,
    hops: int = 1,
    mid_to_qid: str | os.PathLike | None = None,
    qid_labels: str | os.PathLike | None = None,
) -> Coverage:
    """Writes a question file, and how much of it the vocabulary covers to `<output>.coverage.json`.

    Questions whose text names none of their topics are counted and not written.

    Args:
        format: one of FORMATS.
        path, output: the file that is read, and the question file that is made of it.
        hops: of a MetaQA file's questions.
        mid_to_qid, qid_labels: tables that `EntityResolver` reads; a MetaQA file needs none.

    InputError: a file cannot be read, no question of it names a topic, or another process writes
    into the folder of the output.
    """
    check_choice('format', format, FORMATS)
    if (other := format_of(path)) not in (None, format):
        raise InputError(f'{path}: the file is {other!r}, not {format!r}: give FORMAT={other}')
    if format == 'metaqa':
        read = metaqa.read_records(path, vocab, hops)
    else:
        read = _READERS[format](path, EntityResolver(vocab, mid_to_qid, qid_labels))
    records, coverage = with_topics(read, vocab)
    if not records:
        raise InputError(f'{path}: no question names a topic; give mid_to_qid and qid_labels')
    with locks.writer(files.path(output).parent, patience=60):  # the two files belong together
        write_questions(output, records)
        write_json(f'{os.fspath(output)}.coverage.json', dataclasses.asdict(coverage))
    return coverage


def convert_questions(
    *,
    kb: str,
    text: str = 'text',
    format: str,
    path: str,
    output: str,
    hops: int = 1,
    mid_to_qid: str | None = None,
    qid_labels: str | None = None,
    dry_run: bool = False,
) -> None:
    """Converts a question file, and tells how much of it the vocabulary covers.

    Args:
        kb, text: the knowledge base, and the part of it whose entities topics and answers are.
        format, path, output, hops, mid_to_qid, qid_labels: see `convert`.
    """
    vocab = Prepared(KBFolder(kb).part(text)).vocab
    if dry_run:
        print(f'# {path} ({format}) over {len(vocab):,} entities')
        return
    tables = {'mid_to_qid': mid_to_qid, 'qid_labels': qid_labels}
    made = convert(format=format, path=path, vocab=vocab, output=output, hops=hops, **tables)
    print(made.report())
