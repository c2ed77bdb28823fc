"""Multi-hop retrieval over unseen text, without training: `opql index`, `opql retrieve`."""

import json
import pathlib

from opql_jax.corpus.json_lines import write_json_lines
from opql_jax.kb.trained.evaluate_retrieval import evaluate_retrieval
from opql_jax.recipes.plain_text import index
from opql_jax.recipes.recipe import Function, Options, Output, Recipe

# Development questions; the text is that of all passages which come with any of them.
SETS = ('musique', 'hotpotqa')


def select(corpus: str, questions: str, folder: str, percent: float) -> None:
    """Writes the first percent of questions, at least two, and their text into a folder.

    These are `questions.jsonl` and `documents.jsonl`.

    The text is the documents that support these questions, and the first percent of the others.
    """
    lines = [json.loads(line) for line in pathlib.Path(questions).read_bytes().splitlines()]
    asked = lines[: max(2, round(len(lines) * percent / 100))]
    documents = [json.loads(line) for line in pathlib.Path(corpus).read_bytes().splitlines()]
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
    documents = [json.loads(line) for line in pathlib.Path(source).read_bytes().splitlines()]
    untitled = (
        {key: value for key, value in document.items() if key != 'title'} for document in documents
    )
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
    kb = Output(f'kb-{text}')
    scored = {
        'kb': kb,
        'questions': Output(f'text-{name}/questions.jsonl'),
        'output': Output(f'results/{text}'),
    }
    return [
        Function(f'text-{name}', select, source, f'text-{name}'),
        *([] if titled else [Function(f'text-{text}', without_titles, remove, f'text-{text}')]),
        Function(
            f'kb-{text}',
            index,
            {'source': Output(f'text-{text}/documents.jsonl'), 'kb': kb},
            f'kb-{text}',
        ),
        Function(f'results/{text}', evaluate_retrieval, scored, f'results/{text}'),
    ]


def recipe(name: str, titled: bool) -> Recipe:
    """The recipe of a set of questions."""
    without = '' if titled else ', which have no titles'
    return Recipe(
        f'retrieval/{name}{"" if titled else "-untitled"}',
        f'passages for questions of several hops, without training: {name}{without}',
        lambda options: steps_of(options, name, titled),
    )


RECIPES = [recipe(name, titled) for name in SETS for titled in (True, False)]
