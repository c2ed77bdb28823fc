"""MetaQA with relations held out: which they are, and the rows of `novelty`.

The rows share the steps of metaqa/opql, metaqa/opql-pretrained and metaqa/drkit with --out of these.
"""

from typing import NamedTuple

from opql_jax.datasets.slot_filling import random_share
from opql_jax.recipes import metaqa, novelty
from opql_jax.recipes.recipe import Options, Step, build_memory, train

PERCENT = (20, 40, 60, 80)


class Relation(NamedTuple):
    """What calls a relation by which name.

    Attributes:
        questions: the types of 1-hop questions that ask for it in either direction, as a director's films tell who directed them.
        fact: its name in the knowledge base, of which the index of mentions learns.
    """

    questions: tuple[str, ...]
    fact: str


# Those of which some are held out. Questions of several hops start with a film's people, so actors are always known: without
# directors, writers and actors none would be left to train on. Tags and IMDb's numbers are in no question of several hops.
RELATIONS = {
    'director': Relation(('director_to_movie', 'movie_to_director'), 'directed by'),
    'writer': Relation(('writer_to_movie', 'movie_to_writer'), 'written by'),
    'genre': Relation(('movie_to_genre',), 'has genre'),
    'language': Relation(('movie_to_language',), 'in language'),
    'year': Relation(('movie_to_year',), 'release year'),
}
SYSTEMS = {  # (encoder, memory, follower)
    'opql': ('align', 'memory', 'follow-opql'),
    'opql-pretrained': ('relations', 'memory-pretrained', 'follow-opql-pretrained'),
    'drkit': ('align-drkit', 'memory-drkit', 'follow-drkit'),
}


def held_out(options: Options, system: str, protocol: str, percent: int) -> list[Step]:
    """One system, asked all questions of `dev` and those that need one of the relations.

    Args:
        options: of the recipe.
        system: one of `SYSTEMS`.
        protocol: one of `novelty.PROTOCOLS`.
        percent: the share of the relations.
    """
    chosen = [RELATIONS[name] for name in random_share(RELATIONS, percent / 100, options.seed)]
    questions = tuple(kind for relation in chosen for kind in relation.questions)
    new = novelty.Novelty(protocol, percent, questions, aligned=system != 'opql-pretrained')
    model, memory, follower = SYSTEMS[system]
    model, memory, follower = model + new.memory_suffix, memory + new.memory_suffix, follower + new.follower_suffix
    steps, text, gin, taught = [metaqa.prepared(options), *metaqa.pretrained(options)], 'text', 'align', questions
    if system == 'drkit':
        text, gin = 'text-drkit', 'align_mentions'
        steps.append(metaqa.prepared_with_kb(options, text, 'gin/data/metaqa_with_kb.gin'))
        taught = tuple(f'{direction}{relation.fact}' for relation in chosen for direction in ('', 'inverse of '))
    if new.aligned:
        steps.append(train(model, metaqa.gin(gin), options, INIT_FROM='relations', TEXT=text, **new.of_memory(taught)))
    return [
        *steps,
        build_memory(memory, model, text),
        train(follower, metaqa.gin('follow'), options, INIT_FROM=model, TEXT=text, MEMORY=memory, **new.of_follower()),
        *new.asked(system, follower, memory, [f'{hops}-hop/dev' for hops in metaqa.HOPS], text),
    ]


RECIPES = novelty.recipes('metaqa-novelty', PERCENT, held_out)
