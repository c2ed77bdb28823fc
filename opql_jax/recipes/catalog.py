"""All recipes, by name, and the data that each reads.

A data set is a folder of that name in the folder of the data sets; docs/how-to/experiments.md tells
what its files hold.
"""

import contextlib
import difflib
import pathlib
from collections.abc import Mapping, Sequence

from opql_jax.core.checkout import load_toml
from opql_jax.core.errors import InputError
from opql_jax.recipes import (
    demo,
    encoder,
    lm_world,
    metaqa,
    metaqa_novelty,
    msf,
    open_questions,
    paper,
    reader,
    retrieval,
    slot_filling,
)
from opql_jax.recipes.cost import MACHINES, Machine
from opql_jax.recipes.recipe import Recipe
from opql_jax.recipes.step import Function, Options, Step

_GROUPS = (
    demo,
    metaqa,
    metaqa_novelty,
    slot_filling,
    msf,
    encoder,
    reader,
    lm_world,
    open_questions,
    paper,
    retrieval,
)
RECIPES = {recipe.name: recipe for group in _GROUPS for recipe in group.RECIPES}
# {data set: what it is, and where it comes from}.
SOURCES = {n: ' '.join(told.split()) for n, told in load_toml('recipes/data_sets.toml').items()}


def data_set(name: str) -> str:
    """The data set of a file, such as 'metaqa' of 'metaqa/kb.txt'."""
    return name.partition('/')[0]


def find_all(name: str) -> list[Recipe]:
    """The recipe of that name, or all recipes of a group; InputError if there is neither."""
    group = [recipe for recipe in RECIPES.values() if recipe.group == name != recipe.name]
    return group or [find(name)]


def find(name: str) -> Recipe:
    """The recipe of that name; InputError, which names the nearest, if there is none."""
    if name not in RECIPES:
        near = difflib.get_close_matches(name, RECIPES, n=3, cutoff=0.3)
        similar = f'similar: {", ".join(near)}; ' if near else ''
        raise InputError(f'no recipe {name}; {similar}`list` names all of them')
    return RECIPES[name]


def build(recipe: Recipe, options: Options) -> Sequence[Step | Function]:
    """The steps of a recipe; InputError names what data are missing, and where to get them."""
    is_missing = lambda file: not (options.data / file).exists()
    steps: Sequence[Step | Function] = ()
    try:
        steps = recipe.steps(options)
    except (InputError, OSError):  # of a recipe that reads its data to tell its steps
        if not any(map(is_missing, options.asked_for)):
            raise
    if not (missing := list(dict.fromkeys(filter(is_missing, options.asked_for)))):
        return steps
    # Of a folder and its files the files.
    missing = [name for name in missing if not any(file.startswith(f'{name}/') for file in missing)]
    sources = [f'{name}/ is {SOURCES[name]}' for name in sorted(set(map(data_set, missing)))]
    can_run = [not any(map(is_missing, data_files_of(other))) for other in RECIPES.values()]
    raise InputError(
        f'{options.data} lacks {", ".join(missing)}, which {recipe.name} reads: name the '
        f'folder of the data sets with --data. {"; ".join(sources)} '
        '(docs/how-to/experiments.md tells what the files hold). '
        f'{sum(can_run)} of {len(RECIPES)} recipes can run with the data that are there, such as '
        'demo'
    )


def needs(
    recipe: Recipe,
    options: Options,
    steps: Sequence[Step | Function],
    machines: Mapping[str, Machine] = MACHINES,
) -> str:
    """What a built recipe takes: machines, and data, with where to get what is missing."""
    lines = []
    for name in dict.fromkeys(options.asked_for):
        missing = f'missing; {data_set(name)}/ is {SOURCES[data_set(name)]}'
        there = 'there' if (options.data / name).exists() else missing
        lines.append(f'# data {options.data / name}: {there}')
    return '\n'.join([*lines, *recipe.needs(steps, machines)])


def data_files_of(recipe: Recipe) -> list[str]:
    """The files and folders of data that a recipe reads, such as 'metaqa/kb.txt'."""
    asking = Options(pathlib.Path('out'), pathlib.Path('/nowhere'))
    # A recipe that reads its data to tell its steps has named them by then.
    with contextlib.suppress(InputError, OSError):
        recipe.steps(asking)
    return list(dict.fromkeys(asking.asked_for))
