"""All recipes, by name, and the data that each reads."""

import contextlib
import dataclasses
import difflib
import pathlib
from collections.abc import Sequence

from opql_jax.core.errors import InputError
from opql_jax.recipes import (
    demo,
    encoder,
    fewshot,
    growth,
    little_training,
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
from opql_jax.recipes.data_sets import SOURCES, data_set
from opql_jax.recipes.recipe import CHOICES, Function, MissingDataError, Options, Recipe, Step

RECIPES = {
    recipe.name: recipe
    for module in (
        demo,
        metaqa,
        metaqa_novelty,
        little_training,
        slot_filling,
        msf,
        fewshot,
        encoder,
        reader,
        lm_world,
        open_questions,
        paper,
        growth,
        retrieval,
    )
    for recipe in module.RECIPES
}


def find_all(name: str) -> list[Recipe]:
    """The recipe of that name, or all recipes of a group; InputError if there is neither."""
    return [recipe for recipe in RECIPES.values() if recipe.group == name != recipe.name] or [
        find(name)
    ]


def find(name: str) -> Recipe:
    """The recipe of that name; InputError, which names the nearest, if there is none."""
    if name not in RECIPES:
        near = difflib.get_close_matches(name, RECIPES, n=3, cutoff=0.3)
        raise InputError(
            f'no recipe {name}; {"similar: " + ", ".join(near) + "; " if near else ""}`list` names '
            'all of them'
        )
    return RECIPES[name]


def build(recipe: Recipe, options: Options) -> Sequence[Step | Function]:
    """The steps of a recipe.

    InputError names all data that it reads and that are missing, where one gets them, and how many
    recipes can run with those that are there.
    """
    try:
        return recipe.steps(options)
    except MissingDataError as error:
        missing = [
            name for name in data_files_of(recipe, options) if not (options.data / name).exists()
        ]
        # Of a folder and its files the files.
        missing = [
            name for name in missing if not any(file.startswith(f'{name}/') for file in missing)
        ]
        sets = sorted({data_set(name) for name in missing})
        there = sum(
            all((options.data / name).exists() for name in data_files_of(other))
            for other in RECIPES.values()
        )
        raise InputError(
            f'{options.data} lacks {", ".join(missing)}, which {recipe.name} reads: name the '
            'folder of the data sets with --data. '
            f'{"; ".join(f"{name}/ is {SOURCES[name]}" for name in sets)} '
            f'(docs/how-to/experiments.md tells what the files hold). {there} of {len(RECIPES)} '
            'recipes can run with the data that are there, such as demo'
        ) from error


def build_without_data(recipe: Recipe, options: Options) -> Sequence[Step | Function]:
    """The steps of a recipe, whether its data are there or not."""
    return recipe.steps(
        Recorder(
            **{field.name: getattr(options, field.name) for field in dataclasses.fields(Options)}
        )
    )


def needs(recipe: Recipe, options: Options) -> str:
    """What a recipe takes: its data, whether they are there, where to get them, and machines."""
    lines = []
    for name in data_files_of(recipe, options):
        there = (
            'there'
            if (options.data / name).exists()
            else f'missing; {data_set(name)}/ is {SOURCES[data_set(name)]}'
        )
        lines.append(f'# data {options.data / name}: {there}')
    return '\n'.join([*lines, *filter(None, recipe.needs().split('\n'))])


def data_files_of(recipe: Recipe, options: Options | None = None) -> list[str]:
    """The files and folders that a recipe reads, such as 'metaqa/kb.txt'.

    They lie below the folder of the data sets; `options` have its choices.
    """
    chosen = {name: getattr(options, name) for name in CHOICES} if options else {}
    recorder = Recorder(pathlib.Path('out'), pathlib.Path('/nowhere'), **chosen)
    # A recipe that reads its data to tell its steps has named them by then.
    with contextlib.suppress(InputError, OSError):
        recipe.steps(recorder)
    return list(dict.fromkeys(recorder.names))


@dataclasses.dataclass(frozen=True)
class Recorder(Options):
    """Options that remember which data were asked for."""

    names: list[str] = dataclasses.field(default_factory=list)

    def file(self, name: str) -> str:
        self.names.append(name)
        return str(self.data / name)
