"""Few-shot relations: how well embeddings tell apart relations that were not trained on."""

import functools

from opql_jax.recipes.encoder import SHORT_PASSAGES
from opql_jax.recipes.recipe import Options, Output, Recipe, Step, prepare, stage, train


def scored(options: Options, row: str, model: str | Output, embedding: str) -> Step:
    """The accuracy of an embedding."""
    bindings = {
        'SENTENCES': options.file('linked_sentences/sentences.jsonl'),
        'MODEL_DIR': model,
        'EMBEDDING': embedding,
        'OUTPUT_DIR': Output(f'results/{row}'),
    }
    return Step(f'results/{row}', 'fewshot', ('gin/runs/fewshot.gin',), bindings, f'results/{row}')


def minilm(options: Options, row: str, embedding: str) -> list[Step]:
    """Baseline: the mean of MiniLM's last layer, without training."""
    return [scored(options, row, 'minilm', embedding)]


def opql(options: Options, row: str, embedding: str) -> list[Step]:
    """The relation encoder, pretrained from MiniLM on unlabelled text of Wikispeedia and MetaQA."""
    articles = {'DATA_DIR': options.file('wikispeedia'), **SHORT_PASSAGES}
    films = {'DATA_DIR': options.file('metaqa'), **SHORT_PASSAGES}
    films['prepare.prepare.extends'] = 'text-wikispeedia'
    return [
        prepare('text-wikispeedia', 'gin/data/wikispeedia.gin', **articles),
        prepare('text', 'gin/data/metaqa.gin', **films),
        train('relations', stage('minilm', 'relations_minilm', 140, 3e-4), options),
        scored(options, row, Output('relations'), embedding),
    ]


RECIPES = [
    Recipe(f'fewshot/{row}', summary, functools.partial(build, row=row, embedding=embedding))
    for row, summary, build, embedding in (
        ('minilm', "baseline: the mean of MiniLM's last layer", minilm, 'mean'),
        ('opql', 'relation embeddings, pretrained from MiniLM without labels', opql, 'relation'),
        ('opql-masked', 'relation embeddings, both names masked', opql, 'relation masked'),
    )
]
