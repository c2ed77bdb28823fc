"""Multi-hop retrieval over unseen text, without training: `opql index`, `opql retrieve`."""

import functools
import os
import pathlib

from opql_jax.corpus.json_lines import read_json_lines, write_json_lines
from opql_jax.kb.text.index_text import index_text
from opql_jax.kb.trained.evaluate_retrieval import evaluate_retrieval
from opql_jax.recipes.recipe import Recipe
from opql_jax.recipes.step import Function, Options, Output

# Development questions; the text is that of all passages which come with any of them.
SETS = ('musique', 'hotpotqa')


def records(path: str | os.PathLike) -> list[dict]:
    """The lines of a JSON Lines file."""
    return [record for _, record in read_json_lines(path)]


def index(source: str, kb: str) -> None:
    """`opql index`, of one file of documents."""
    index_text([source], kb)


def indexed(documents: Output | str, kb: str) -> Function:
    """The step that makes a knowledge base of a file of documents."""
    return Function(kb, index, {'source': documents, 'kb': Output(kb)}, kb)


def select(corpus: str, questions: str, folder: str, percent: float) -> None:
    """Writes `questions.jsonl`, the first percent and at least two, and `documents.jsonl`.

    The documents are those that support these questions, and the first percent of the others.
    """
    lines = records(questions)
    asked = lines[: max(2, round(len(lines) * percent / 100))]
    documents = records(corpus)
    needed = {name for question in asked for name in question['supporting']}
    last = round(len(documents) * percent / 100)
    kept = [
        document
        for place, document in enumerate(documents)
        if place < last or document['id'] in needed
    ]
    write_json_lines(pathlib.Path(folder, 'documents.jsonl'), kept)
    write_json_lines(pathlib.Path(folder, 'questions.jsonl'), asked)


def without_titles(source: str, folder: str) -> None:
    """Writes `documents.jsonl` into a folder: those of a file, without their titles."""
    untitled = [
        {key: value for key, value in document.items() if key != 'title'}
        for document in records(source)
    ]
    write_json_lines(pathlib.Path(folder, 'documents.jsonl'), untitled)


def steps_of(options: Options, name: str, titled: bool = True) -> list[Function]:
    """The steps of a set of questions, asked of its documents, or of these without titles."""
    text = name if titled else f'{name}-untitled'
    source = {
        'corpus': options.file(f'multihop/{name}_corpus.jsonl'),
        'questions': options.file(f'multihop/{name}_questions.jsonl'),
        'folder': Output(f'text-{name}'),
        'percent': options.percent,
    }
    remove = {'source': Output(f'text-{name}/documents.jsonl'), 'folder': Output(f'text-{text}')}
    scored = {
        'kb': Output(f'kb-{text}'),
        'questions': Output(f'text-{name}/questions.jsonl'),
        'output': Output(f'results/{text}'),
    }
    return [
        Function(f'text-{name}', select, source, f'text-{name}'),
        *([] if titled else [Function(f'text-{text}', without_titles, remove, f'text-{text}')]),
        indexed(Output(f'text-{text}/documents.jsonl'), f'kb-{text}'),
        Function(f'results/{text}', evaluate_retrieval, scored, f'results/{text}'),
    ]


RECIPES = [
    Recipe(
        f'retrieval/{name}{suffix}',
        f'passages for questions of several hops, without training: {name}{remark}',
        functools.partial(steps_of, name=name, titled=not suffix),
    )
    for name in SETS
    for suffix, remark in (('', ''), ('-untitled', ', which have no titles'))
]
