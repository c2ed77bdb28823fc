"""Retrieval for questions of several hops, of plain text that nothing was trained on: `opql index`, then `opql retrieve`."""

import json
import pathlib

from opql_jax.core import files
from opql_jax.core.errors import InputError
from opql_jax.kb.evaluate_retrieval import evaluate_retrieval
from opql_jax.kb.index_text import index_text
from opql_jax.recipes.recipe import Function, Options, Recipe

# Development questions; the text is that of all passages which come with any of them.
SETS = ('musique', 'hotpotqa')


def select(corpus: str, questions: str, folder: str, percent: float, titles: bool) -> None:
    """Writes `questions.jsonl`, the first percent of questions, at least two, and their text, into a folder.

    The text is the documents that support these questions, and the first percent of the others. With titles it is `documents.jsonl`.
    Without them each document is a file `documents/ID.txt`, so that nothing says what it is about.

    Raises:
        InputError: the id of a document is no name of a file.
    """
    lines = [json.loads(line) for line in pathlib.Path(questions).read_bytes().splitlines()]
    asked = lines[: max(2, round(len(lines) * percent / 100))]
    documents = [json.loads(line) for line in pathlib.Path(corpus).read_bytes().splitlines()]
    needed = {name for question in asked for name in question['supporting']}
    last = round(len(documents) * percent / 100)
    kept = [document for place, document in enumerate(documents) if place < last or document['id'] in needed]
    if titles:
        _write(pathlib.Path(folder, 'documents.jsonl'), kept)
    else:
        for document in kept:
            name = pathlib.PurePath(document['id'])
            if len(name.parts) != 1:
                raise InputError(f'{corpus}: id {document["id"]!r} is no name of a file')
            with files.atomic_path(pathlib.Path(folder, 'documents', f'{name}.txt')) as partial:
                partial.write_text(document['text'], encoding='utf-8')
            document['id'] = f'{name}.txt'
        for question in asked:
            question['supporting'] = [f'{name}.txt' for name in question['supporting']]
    _write(pathlib.Path(folder, 'questions.jsonl'), asked)


def _write(path: pathlib.Path, records: list[dict]) -> None:
    with files.atomic_path(path) as partial:
        partial.write_text(''.join(json.dumps(record) + '\n' for record in records), encoding='utf-8')


def index(documents: str, kb: str) -> None:
    """`opql index`."""
    index_text([documents], kb)


def score(kb: str, questions: str, output: str) -> dict[str, dict]:
    """Prints and returns the scores of `opql retrieve` and of what it is compared with."""
    return evaluate_retrieval(kb, questions, output)


def steps_of(options: Options, name: str, titles: bool) -> list[Function]:
    """The steps of a set of questions."""
    row = name if titles else f'{name}-untitled'
    text, kb = f'{{out}}/text-{row}', f'{{out}}/kb-{row}'
    source = {
        'corpus': options.file(f'multihop/{name}_corpus.jsonl'),
        'questions': options.file(f'multihop/{name}_questions.jsonl'),
        'folder': text,
        'percent': options.percent,
        'titles': titles,
    }
    documents = f'{text}/documents{".jsonl" if titles else ""}'
    scored = {'kb': kb, 'questions': f'{text}/questions.jsonl', 'output': f'{{out}}/results/{row}'}
    return [
        Function(f'text-{row}', select, source, f'text-{row}'),
        Function(f'kb-{row}', index, {'documents': documents, 'kb': kb}, f'kb-{row}'),
        Function(f'results/{row}', score, scored, f'results/{row}'),
    ]


def retrieval(options: Options) -> list[Function]:
    """MuSiQue and HotpotQA."""
    rows = [('musique', True), ('hotpotqa', True)]
    return [step for name, titles in rows for step in steps_of(options, name, titles)]


RECIPES = [Recipe('retrieval', 'passages for questions of several hops, without training: MuSiQue, HotpotQA', retrieval)]
