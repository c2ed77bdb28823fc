"""Relation encoders for any text: their training, and how they tell unseen relations apart.

`encoder/released` makes the one that comes with the package. `encoder/labels` and `encoder/text`
leave out a quarter of the relations of wiki64, and are scored on these; `fewshot/minilm` is not
trained at all.
"""

import functools
from typing import Any

from opql_jax.recipes.recipe import Recipe
from opql_jax.recipes.step import Options, Output, Step, prepare, release, stage, train

# Sentences with labels, under the folder of the data sets, and all corpora with the documents of
# slot filling.
SENTENCES = ('wiki64/sentences.jsonl', 'linked_sentences/sentences.jsonl', 'trex/documents.jsonl')
CORPORA = (*SENTENCES, 'redocred/documents.json')
# Every fourth of the relations of wiki64 by name, left out wherever they are labelled.
HELD_OUT = tuple(
    'after a work by, composer, country of origin, father, has part, instance of, '
    'licensed to broadcast to, location of formation, mountain range, notable work, operator, '
    'participant of, platform, religion, sibling, taxon rank'.split(', ')
)
SHORT_PASSAGES: dict[str, Any] = {'TOKENIZER': 'minilm', 'prepare.prepare.max_tokens': 48}
CARD = 'docs/encoder_card.md'
# Pairs of text: mentions of two entities in different passages state the same.
_LABELS = {'RELATIONS_PER_BATCH': 16, 'PAIRS_PER_BATCH': 2}
_TEXT_ONLY = {'RELATIONS_PER_BATCH': 0, 'PAIRS_PER_BATCH': 18}
STAGES = {
    'labels': stage('minilm', 'text_relations', 1050, 3e-4, _LABELS),
    'text': stage('minilm', 'text_relations', 600, 3e-4, _TEXT_ONLY),
}


def text(options: Options) -> Step:
    """Text whose pairs of entities are trained on: whole articles, in short passages."""
    source = {'DATA_DIR': options.file('wikispeedia'), **SHORT_PASSAGES}
    return prepare('text', 'gin/data/wikispeedia.gin', **source)


def labels(options: Options) -> dict[str, object]:
    """The labelled sentences."""
    return {
        'SENTENCES': tuple(map(options.file, CORPORA)),
        'NAMES': options.file('redocred/rel_info.json'),
    }


def release_encoder(model: str, output: str, options: Options) -> Step:
    """The folder of the encoder of a model."""
    return release(model, output, CARD, TYPED_DOCUMENTS=options.file('redocred/documents.json'))


def released(options: Options) -> list[Step]:
    """All labels, and no score: no relation is new to it."""
    trained = train('relations', STAGES['labels'], options, **labels(options))
    return [text(options), trained, release_encoder('relations', 'encoder', options)]


def few_shots(options: Options, row: str, data: str, model: str | Output, **bindings) -> Step:
    """How well the embeddings of a model tell the relations of labelled sentences apart."""
    name = f'results/{row}'
    bindings |= {'SENTENCES': options.file(f'{data}/sentences.jsonl'), 'MODEL_DIR': model}
    bindings |= {'OUTPUT_DIR': Output(name)}
    return Step(name, 'fewshot', ('gin/runs/fewshot.gin',), bindings, name)


def held_out(options: Options, row: str) -> list[Step]:
    """Scored on relations that were left out."""
    bindings = {**labels(options), 'HELD_OUT': HELD_OUT} if row == 'labels' else {}
    model, encoder = f'relations-{row}', f'encoder-{row}'
    scored = {'RELATIONS': HELD_OUT, 'EMBEDDING': 'pair'}
    return [
        text(options),
        train(model, STAGES[row], options, **bindings),
        release_encoder(model, encoder, options),
        few_shots(options, row, 'wiki64', Output(encoder), **scored),
    ]


def minilm(options: Options) -> list[Step]:
    """Baseline: the mean of MiniLM's last layer, without training."""
    return [few_shots(options, 'minilm', 'linked_sentences', 'minilm', EMBEDDING='mean')]


RECIPES = [
    Recipe('encoder/released', 'the relation encoder that comes with the package', released),
    *(
        Recipe(
            f'encoder/{row}',
            f'an encoder of {source}, on relations that it never saw',
            functools.partial(held_out, row=row),
        )
        for row, source in (('labels', 'labelled sentences'), ('text', 'text alone'))
    ),
    Recipe('fewshot/minilm', "baseline: the mean of MiniLM's last layer", minilm),
]
