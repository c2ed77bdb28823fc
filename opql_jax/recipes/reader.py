"""The reader, trained in eleven stages on public questions and labelled sentences, and its release.

What they read is in `reader_examples`: the sixth reads what the fifth did, the ninth what the
eighth, and the eleventh what the tenth. The seventh of the released weights read the first three
again in place of the fifth; the eighth and those after it read the written documents as they came:
nearly half in the eighth, the last sixth in the eleventh alone. What is released is the mean of the
weights after the eighth, the tenth and the eleventh.
"""

import pathlib
from collections.abc import Iterator
from typing import Any

import jax

from opql_jax.corpus.json_lines import read_text
from opql_jax.models import released
from opql_jax.recipes import retrieval
from opql_jax.recipes.encoder import CORPORA
from opql_jax.recipes.reader_examples import film_documents, write_examples
from opql_jax.recipes.recipe import Recipe
from opql_jax.recipes.step import Function, Options, Output, Step, prepare, release, stage, train

CARD = 'docs/reader_card.md'
# The stages of whose weights the released ones are the mean.
IN_MEAN = (8, 10, 11)
_ROWS = {48: 4, 72: 5, 96: 5, 128: 7, 192: 9, 320: 5, 448: 5}
_ROWS_WRITTEN = {48: 1, 72: 1, 96: 1, 128: 2, 192: 6, 320: 5, 448: 8}
_ROWS_LINKED = {96: 2, 128: 1, 192: 3, 256: 4, 320: 3, 384: 3, 448: 8}
# {model: how it is trained, and on what}; it begins with the one before. ROWS are as often as
# examples are so long.
STAGES = {
    'reader-1': ((640, 2e-4, {48: 8, 96: 12, 192: 11, 288: 1}), 'first.jsonl'),
    'reader-2': ((600, 1.5e-4, {96: 5, 192: 3, 448: 4}), 'second.jsonl'),
    'reader-3': ((1000, 2e-4, {96: 4, 192: 2, 320: 5, 448: 4}), 'third.jsonl'),
    'reader-4': ((480, 2e-4, _ROWS), 'fourth.jsonl'),
    'reader-5': ((780, 1.5e-4, _ROWS), 'fifth.jsonl'),
    'reader-6': ((720, 1.5e-4, _ROWS), 'fifth.jsonl'),
    'reader-7': (
        (600, 1.2e-4, {48: 3, 72: 6, 96: 6, 128: 8, 192: 8, 320: 3, 448: 4}),
        'seventh.jsonl',
    ),
    'reader-8': ((740, 1.2e-4, _ROWS_WRITTEN), 'eighth.jsonl'),
    'reader-9': ((440, 1.2e-4, _ROWS_WRITTEN), 'eighth.jsonl'),
    'reader-10': ((640, 1.2e-4, _ROWS_LINKED), 'tenth.jsonl'),
    'reader-11': ((470, 1.2e-4, _ROWS_LINKED), 'tenth.jsonl'),
}


def stages(options: Options) -> Iterator[Step]:
    """The stages of training."""
    before: dict[str, Any] = {}
    for name, ((count, rate, rows), examples) in STAGES.items():
        trained = stage('released', 'reading', count, rate, {'ROWS': rows})
        data: dict[str, Any] = {'TEXT': 'read-text', 'EXAMPLES': Output(examples)}
        yield train(name, trained, options, **data, **before)
        before = {'BERT': None, 'INIT_FROM': name}


def mean_weights(folders: tuple[str, ...], output: str) -> dict[str, int]:
    """Writes to `output` the mean of released readers, which reads better than each of them.

    Tokenizer and card are those of the last.
    """
    encoder, *_ = released.read(folders[0], released.READER_FORMAT)
    weights = [released.read(folder, released.READER_FORMAT)[1] for folder in folders]
    tokenizer, card = (
        read_text(pathlib.Path(folders[-1], name)) for name in (released.TOKENIZER, released.CARD)
    )
    mean = jax.tree.map(lambda *of: sum(of) / len(of), *weights)
    released.write(output, encoder, mean, tokenizer, card, released.READER_FORMAT)
    return {'readers': len(folders)}


def steps(options: Options) -> list[Step | Function]:
    """From the data sets to the folder of the reader."""
    file = lambda name: Output(f'{name}.jsonl')
    drawn = {'percent': options.percent, 'seed': options.seed}
    write = lambda name, **data: Function(
        f'{name}.jsonl',
        write_examples,
        {'stage': name, 'output': file(name), **drawn, **data},
        f'{name}.jsonl',
    )
    sentences = {'sentences': options.file('qa/qamr.jsonl')}
    names = {'names': options.file('redocred/rel_info.json')}
    labelled = {'labelled': tuple(map(options.file, CORPORA)), **names}
    third = {
        'documents': options.file('redocred/documents.json'),
        'films': Output('kb-films'),
        'questions': options.file('metaqa'),
    }
    sets = {'sets': retrieval.SETS, 'out': Output()}
    later = {
        'third': file('third'),
        'articles': options.file('wikispeedia'),
        'questions': options.file('openqa/webqsp_train.jsonl'),
    }
    text = {'SOURCES': (Output('text-musique/documents.jsonl'),), 'TOKENIZER': 'default'}
    films = {'source': options.file('metaqa/passages.jsonl'), 'output': file('films')}
    folders = tuple(Output(f'release-{number}') for number in IN_MEAN)
    mean = {'folders': folders, 'output': Output('reader')}
    return [
        write('first', **sentences, **labelled),
        *(step for name in retrieval.SETS for step in retrieval.steps_of(options, name)[:2]),
        write('second', first=file('first'), **sets),
        Function(
            'films.jsonl', film_documents, films | {'percent': options.percent}, 'films.jsonl'
        ),
        retrieval.indexed(file('films'), 'kb-films'),
        write('third', first=file('first'), second=file('second'), **names, **third),
        write('fourth', **sentences, **sets, **later),
        write('fifth', **sentences, **sets, **later),
        write('seventh', fifth=file('fifth'), **labelled),
        write('eighth', seventh=file('seventh')),
        write('tenth', second=file('second'), seventh=file('seventh')),
        prepare('read-text', 'gin/data/text.gin', **text),
        *stages(options),
        *(release(f'reader-{number}', f'release-{number}', CARD) for number in IN_MEAN),
        Function('reader', mean_weights, mean, 'reader'),
    ]


RECIPES = [Recipe('encoder/reader', 'the reader that comes with the package', steps)]
