"""MetaQA with held-out relations: accuracy on questions that need one of P percent of the relations.

    opql-novel-P      the encoder of the memory was not trained on their questions, the follower was
    opql-without-P    neither was
    opql-seen-P       for comparison: both were

A relation is held out in both directions, as a director's films tell who directed them. Its pairs remain negatives of other questions
about the same topic, and where another relation joins the same pair, such as a tag that names the director, positives of that one. With
--out of the row metaqa/opql the rows share its steps.
"""

import functools
from collections import defaultdict

from opql_jax.corpus.json_lines import read_lines
from opql_jax.datasets.slot_filling import random_share
from opql_jax.recipes.metaqa import HOPS, gin, prepared, pretrained
from opql_jax.recipes.recipe import Options, Recipe, Step, build_memory, evaluate, train
from opql_jax.recipes.slot_filling import PROTOCOLS

PERCENT = (25, 50, 75)


def relations_of(path: str) -> dict[str, list[str]]:
    """The types of 1-hop questions by relation: {'director movie': ['director_to_movie', 'movie_to_director'], ...}."""
    types = {line.split('\t')[2] for _, line in read_lines(path) if line.strip()}
    relations = defaultdict(list)
    for kind in sorted(types):
        # 'movie_to_tags' is the inverse of 'tag_to_movie'.
        relations[' '.join(sorted(end.removesuffix('s') for end in kind.split('_to_')))].append(kind)
    return dict(relations)


def novelty(options: Options, protocol: str, percent: int) -> list[Step]:
    """OPQL, asked all questions of `dev` and those that need one of the relations.

    Args:
        options: of the recipe.
        protocol: one of `slot_filling.PROTOCOLS`.
        percent: the share of the relations.
    """
    relations = relations_of(options.file('metaqa/1-hop/train.txt'))
    chosen = tuple(kind for name in random_share(relations, percent / 100, options.seed) for kind in relations[name])
    # Left out where nothing is held out: the steps are then those of metaqa/opql.
    new_to_memory = {} if protocol == 'seen' else {'HELD_OUT': chosen}
    new_to_follower = {'HELD_OUT': chosen} if protocol == 'without' else {}
    suffix = f'-without-{percent}' if new_to_memory else ''
    model, memory = f'align{suffix}', f'memory{suffix}'
    follower = 'follow-opql' if protocol == 'seen' else f'follow-{protocol}-{percent}'
    row = f'results/opql-{protocol}-{percent}'
    asked = [f'{hops}-hop/dev' for hops in HOPS]
    return [
        prepared(options),
        *pretrained(options),
        train(model, gin('align'), options, INIT_FROM='relations', **new_to_memory),
        build_memory(memory, model),
        train(follower, gin('follow'), options, INIT_FROM=model, MEMORY=memory, **new_to_follower),
        *(
            evaluate(f'{row}/{name}', follower, memory, asked, NEEDS=needs)
            for name, needs in {'all': (), 'novel': chosen}.items()
        ),
    ]


RECIPES = [
    Recipe(
        f'metaqa-novelty/opql-{protocol}-{percent}',
        f'OPQL, asked what needs one of {percent} % of the relations, {meaning}',
        functools.partial(novelty, protocol=protocol, percent=percent),
    )
    for protocol, meaning in PROTOCOLS.items()
    for percent in PERCENT
]
