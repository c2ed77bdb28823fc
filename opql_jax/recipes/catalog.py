"""All recipes, by name."""

import difflib

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
    retrieval,
    slot_filling,
)
from opql_jax.recipes.recipe import Recipe

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
    return [recipe for recipe in RECIPES.values() if recipe.group == name != recipe.name] or [find(name)]


def find(name: str) -> Recipe:
    """The recipe of that name.

    Raises:
        InputError: there is none; names the nearest.
    """
    if name not in RECIPES:
        near = difflib.get_close_matches(name, RECIPES, n=3, cutoff=0.3)
        raise InputError(f'no recipe {name}; {"similar: " + ", ".join(near) + "; " if near else ""}`list` names all of them')
    return RECIPES[name]
