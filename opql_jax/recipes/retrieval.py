"""Retrieval for questions of several hops, of plain text that nothing was trained on: `opql index`, then `opql retrieve`."""

import json
import pathlib

from opql_jax.corpus.json_lines import write_json_lines
from opql_jax.kb.evaluate_retrieval import evaluate_retrieval
from opql_jax.recipes.plain_text import index
from opql_jax.recipes.recipe import Function, Options, Recipe

# Development questions; the text is that of all passages which come with any of them.
SETS = ('musique', 'hotpotqa')


def select(corpus: str, questions: str, folder: str, percent: float) -> None:
    """Writes `questions.jsonl`, the first percent of questions, at least two, and their text, `documents.jsonl`, into a folder.

    The text is the documents that support these questions, and the first percent of the others.
    """
    lines = [json.loads(line) for line in pathlib.Path(questions).read_bytes().splitlines()]
    asked = lines[: max(2, round(len(lines) * percent / 100))]
    documents = [json.loads(line) for line in pathlib.Path(corpus).read_bytes().splitlines()]
    needed = {name for question in asked for name in question['supporting']}
    last = round(len(documents) * percent / 100)
    kept = [document for place, document in enumerate(documents) if place < last or document['id'] in needed]
    write_json_lines(pathlib.Path(folder, 'documents.jsonl'), kept)
    write_json_lines(pathlib.Path(folder, 'questions.jsonl'), asked)


def steps_of(options: Options, name: str) -> list[Function]:
    """The steps of a set of questions."""
    text, kb = f'{{out}}/text-{name}', f'{{out}}/kb-{name}'
    source = {
        'corpus': options.file(f'multihop/{name}_corpus.jsonl'),
        'questions': options.file(f'multihop/{name}_questions.jsonl'),
        'folder': text,
        'percent': options.percent,
    }
    scored = {'kb': kb, 'questions': f'{text}/questions.jsonl', 'output': f'{{out}}/results/{name}'}
    return [
        Function(f'text-{name}', select, source, f'text-{name}'),
        Function(f'kb-{name}', index, {'source': f'{text}/documents.jsonl', 'kb': kb}, f'kb-{name}'),
        Function(f'results/{name}', evaluate_retrieval, scored, f'results/{name}'),
    ]


def retrieval(options: Options) -> list[Function]:
    """MuSiQue and HotpotQA."""
    return [step for name in SETS for step in steps_of(options, name)]


RECIPES = [Recipe('retrieval', 'passages for questions of several hops, without training: MuSiQue, HotpotQA', retrieval)]
