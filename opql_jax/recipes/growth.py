"""As it grows: MetaQA with fewer training questions or pairs, or another number of layers.

Each recipe is `metaqa/opql` but for its training questions or layers, or `metaqa/opql-pretrained`
but for the pairs of L_rel. For more entries than MetaQA's, run `demo` with `--documents`.
"""

import pathlib

import numpy as np

from opql_jax.core import files
from opql_jax.corpus.json_lines import read_lines
from opql_jax.recipes.metaqa import HOPS, STAGES, followed, opql_pretrained, prepared, pretrained
from opql_jax.recipes.recipe import (
    Function,
    Options,
    Output,
    Recipe,
    Step,
    bound,
    build_memory,
    prepare,
    train,
)

SPLITS = ('dev',)


def fewer_questions(source: str, folder: str, count: int, seed: int) -> None:
    """Writes MetaQA with at most `count` random training questions of each number of hops."""
    for name in ('passages.jsonl', 'entities.txt', *(f'{hops}-hop/dev.txt' for hops in HOPS)):
        with files.atomic_path(pathlib.Path(folder, name)) as path:
            files.copy(pathlib.Path(source, name), path)
    for hops in HOPS:
        read = read_lines(pathlib.Path(source, f'{hops}-hop/train.txt'))
        lines = [line for _, line in read if line.strip()]
        drawn = np.sort(np.random.default_rng(seed).permutation(len(lines))[:count])
        with files.atomic_path(pathlib.Path(folder, f'{hops}-hop/train.txt')) as path:
            path.write_text(''.join(f'{lines[i]}\n' for i in drawn), encoding='utf-8')


def questions(options: Options) -> list[Step | Function]:
    """OPQL that learns from so many training questions of each number of hops."""
    row = f'questions-{options.size}'
    folder, text = Output(f'metaqa-{row}'), f'text-{row}'
    source = {'source': options.file('metaqa'), 'folder': folder}
    source |= {'count': options.size, 'seed': options.seed}
    few = {'DATA_DIR': folder, 'TOKENIZER': Output('text/tokenizer.json')}
    return [
        prepared(options),
        *pretrained(options),
        Function(f'metaqa-{row}', fewer_questions, source, f'metaqa-{row}'),
        prepare(text, 'gin/data/metaqa.gin', **few),
        train(f'align-{row}', STAGES['align'], options, INIT_FROM='relations', TEXT=text),
        build_memory(f'memory-{row}', f'align-{row}', text),
        *followed(options, row, f'align-{row}', f'memory-{row}', text, splits=SPLITS),
    ]


def pairs(options: Options) -> list[Step]:
    """OPQL-pretrained whose L_rel learns from the best pairs, or 'all' of two passages or more."""
    # Of pairs that one passage mentions L_rel learns nothing, and these have the highest mutual
    # information.
    most = None if options.size == 'all' else options.size
    chosen = bound('objectives.Relations', min_count=2, max_pairs=most)
    return opql_pretrained(options, f'pairs-{options.size}', f'-{options.size}', SPLITS, **chosen)


def layers(options: Options) -> list[Step]:
    """OPQL with an encoder of so many layers, from its first step on."""
    row = f'layers-{options.size}'
    size = bound('encoder.RelationEncoder', num_layers=options.size)
    entities, relations, align = (f'{stage}-{row}' for stage in ('entities', 'relations', 'align'))
    return [
        prepared(options),
        train(entities, STAGES['entities'], options, **size),
        train(relations, STAGES['relations'], options, INIT_FROM=entities, **size),
        train(align, STAGES['align'], options, INIT_FROM=relations, **size),
        build_memory(f'memory-{row}', align),
        *followed(options, row, align, f'memory-{row}', splits=SPLITS, **size),
    ]


_FEW = 'OPQL with fewer training questions of each number of hops'
_BEST = 'OPQL-pretrained whose L_rel learns from the best pairs alone'
RECIPES = [
    Recipe('growth/questions', _FEW, questions, {'size': (100, 1_000, 10_000)}),
    Recipe('growth/pairs', _BEST, pairs, {'size': (1_000, 10_000, 'all')}),
    Recipe('growth/layers', 'OPQL with another number of layers', layers, {'size': (1, 4)}),
]
