"""As it grows: MetaQA's rows with fewer training questions, pairs or entries, other numbers of layers, and an encoder of another size.

A row is `metaqa/opql` (`all`) but for its training questions, entries, layers or size, or `metaqa/opql-pretrained` but for the
pairs of L_rel. For more entries than MetaQA's, run `demo` with `--documents`.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from opql_jax.core import files
from opql_jax.corpus.json_lines import read_lines
from opql_jax.memory.format import Memory
from opql_jax.recipes.memory_copy import copy_entries
from opql_jax.recipes.metaqa import HOPS, followed, gin, opql, prepared, pretrained
from opql_jax.recipes.recipe import Function, Options, Recipe, Step, build_memory, evaluate, prepare, train

SPLITS = ('dev',)


def fewer_questions(source: str, folder: str, count: int, seed: int) -> None:
    """Writes MetaQA's folder with at most `count` training questions of each number of hops, drawn at random."""
    for name in ('passages.jsonl', 'entities.txt', *(f'{hops}-hop/dev.txt' for hops in HOPS)):
        with files.atomic_path(pathlib.Path(folder, name)) as path:
            files.copy(pathlib.Path(source, name), path)
    for hops in HOPS:
        lines = [line for _, line in read_lines(pathlib.Path(source, f'{hops}-hop/train.txt')) if line.strip()]
        drawn = np.sort(np.random.default_rng(seed).permutation(len(lines))[:count])
        with files.atomic_path(pathlib.Path(folder, f'{hops}-hop/train.txt')) as path:
            path.write_text(''.join(f'{lines[i]}\n' for i in drawn), encoding='utf-8')


def questions(options: Options, count: int) -> list[Step | Function]:
    """OPQL that learns from `count` training questions of each number of hops."""
    row = f'questions-{count}'
    folder, text = f'{{out}}/metaqa-{row}', f'text-{row}'
    source = {'source': options.file('metaqa'), 'folder': folder, 'count': count, 'seed': options.seed}
    return [
        prepared(options),
        *pretrained(options),
        Function(f'metaqa-{row}', fewer_questions, source, f'metaqa-{row}'),
        prepare(text, 'gin/data/metaqa.gin', DATA_DIR=folder, TOKENIZER='{out}/text/tokenizer.json'),
        train(f'align-{row}', gin('align'), options, INIT_FROM='relations', TEXT=text),
        build_memory(f'memory-{row}', f'align-{row}', text),
        *followed(options, row, f'align-{row}', f'memory-{row}', gin('follow'), text, splits=SPLITS),
    ]


def entries(options: Options, count: int) -> list[Step | Function]:
    """OPQL, asked over some `count` entries of its memory, those of passages drawn at random; nothing is trained again."""
    row = f'entries-{count}'
    name = f'memory-{row}'
    drawn = {'folder': f'{{out}}/{name}', 'memory': '{out}/memory', 'count': count, 'seed': options.seed}
    *steps, _ = opql(options, row='all', splits=SPLITS)
    return [
        *steps,
        Function(name, fewer_entries, drawn, name),
        evaluate(f'results/{row}', 'follow-all', name, [f'{hops}-hop/dev' for hops in HOPS]),
    ]


def fewer_entries(folder: str, memory: str, count: int, seed: int) -> dict[str, int]:
    """Writes a memory with the entries of some passages, drawn in random order until they have at least `count` entries.

    An entry that was read in several passages comes with any of them.

    Returns:
        How many entries there are and were.
    """

    def chosen(before: Memory) -> np.ndarray:
        mentions = before.mentions(np.arange(len(before)))
        drawn = np.random.default_rng(seed).permutation(mentions['passage'].max() + 1)
        # When each entry comes first: the passages' places in the order that they are drawn in.
        ids, which = np.unique(mentions['entry'], return_inverse=True)
        first = np.full(len(ids), len(drawn))
        np.minimum.at(first, which, np.argsort(drawn)[mentions['passage']])
        return ids[first <= np.sort(first)[min(count, len(ids)) - 1]]

    return copy_entries(memory, folder, chosen)


def pairs(options: Options, count: int | str) -> list[Step]:
    """OPQL-pretrained whose L_rel learns from the `count` pairs of the highest mutual information, or from 'all' of two passages or more."""
    # Of pairs that one passage mentions L_rel learns nothing, and these have the highest mutual information.
    return _of_pairs(options, f'pairs-{count}', min_count=2, max_pairs=None if count == 'all' else count)


def passages(options: Options, count: int) -> list[Step]:
    """OPQL-pretrained whose L_rel learns from the pairs that at least `count` passages mention (5 in the paper)."""
    return _of_pairs(options, f'passages-{count}', min_count=count)


def _of_pairs(options: Options, row: str, **chosen: Any) -> list[Step]:
    """OPQL-pretrained with these settings of which pairs L_rel learns from."""
    return [
        prepared(options),
        train('entities', gin('entities'), options),
        train(
            f'relations-{row}',
            gin('relations'),
            options,
            INIT_FROM='entities',
            **{f'objectives.Relations.{setting}': value for setting, value in chosen.items()},
        ),
        build_memory(f'memory-{row}', f'relations-{row}'),
        *followed(options, row, f'relations-{row}', f'memory-{row}', gin('follow'), splits=SPLITS),
    ]


def layers(options: Options, count: int) -> list[Step]:
    """OPQL with an encoder of `count` layers."""
    return _resized(options, f'layers-{count}', {'encoder.RelationEncoder.num_layers': count})


def size(options: Options, name: str) -> list[Step]:
    """OPQL with an encoder of the shape of gin/models/NAME.gin, from scratch."""
    # The rate BERT was pretrained with; that of `tiny` is for two layers.
    return _resized(options, f'size-{name}', {'LEARNING_RATE': 1e-4}, f'gin/models/{name}.gin')


def _resized(options: Options, row: str, bindings: Mapping[str, Any], *models: str) -> list[Step]:
    """OPQL with another encoder, from its first step on."""
    stages = [('entities', {}), ('relations', {'INIT_FROM': f'entities-{row}'}), ('align', {'INIT_FROM': f'relations-{row}'})]
    steps = [
        prepared(options),
        *(train(f'{stage}-{row}', gin(stage), options, **start, **bindings) for stage, start in stages),
        build_memory(f'memory-{row}', f'align-{row}'),
        *followed(options, row, f'align-{row}', f'memory-{row}', gin('follow'), splits=SPLITS, **bindings),
    ]
    return [dataclasses.replace(step, gin=(*step.gin, *models)) if step.binary == 'train' else step for step in steps]


CURVES: tuple[tuple[Callable, str, tuple[int | str, ...]], ...] = (
    (questions, 'OPQL, training questions of each number of hops: {}', (100, 1_000, 10_000)),
    (entries, 'OPQL, entries of the memory, at least: {}', (10_000, 30_000, 100_000)),
    (pairs, 'OPQL-pretrained, best pairs for L_rel: {}', (1_000, 10_000, 'all')),
    (passages, 'OPQL-pretrained, pairs for L_rel that at least so many passages mention: {}', (5,)),
    (layers, 'OPQL, layers of the encoder: {}', (1, 4)),
    (size, 'OPQL, an encoder of the shape of gin/models/{}.gin, from scratch', ('base',)),
)


def _recipe(build: Callable, summary: str, value: int | str) -> Recipe:
    return Recipe(f'growth/{build.__name__}-{value}', summary.format(value), lambda options: build(options, value))


RECIPES = [
    Recipe('growth/all', 'OPQL, all questions, 2 layers', functools.partial(opql, row='all', splits=SPLITS)),
    *(_recipe(build, summary, value) for build, summary, values in CURVES for value in values),
]
