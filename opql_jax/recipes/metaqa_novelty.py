"""MetaQA with relations held out: which they are, and the rows of `novelty`.

The rows share steps with --out of metaqa/opql, metaqa/opql-pretrained and metaqa/opql-released. The index of mentions (DrKIT) learns
from the 1-hop questions here, as OPQL's encoder does, not from the knowledge base, in which the facts that are asked for stand.
"""

from collections.abc import Callable
from typing import NamedTuple

from opql_jax.recipes import metaqa, novelty
from opql_jax.recipes.recipe import Options, Step, build_memory, train

# The relations that may be held out, of which a row takes the first P percent, and the types of 1-hop questions that ask for them, in either
# direction: a director's films tell who directed them. Few pairs of the first are joined by another relation as well, while every second director
# also wrote the film. Actors are always known, as questions of several hops begin with a film's people, and some have to be left.
# Tags and IMDb's numbers are in no question of several hops.
RELATIONS = {
    'genre': ('movie_to_genre',),
    'year': ('movie_to_year',),
    'director': ('director_to_movie', 'movie_to_director'),
    'language': ('movie_to_language',),
    'writer': ('movie_to_writer', 'writer_to_movie'),
}
PERCENT = (20, 40, 60, 80)


def from_scratch(options: Options) -> list[Step]:
    """Text prepared, and an encoder pretrained on it."""
    return [metaqa.prepared(options), *metaqa.pretrained(options)]


class System(NamedTuple):
    """What a system is made of where nothing is held out, by the names of its steps, and how it is trained.

    Attributes:
        encoder, memory, follower: their steps.
        text: the prepared text.
        begin: the steps before any question.
        align: the gin file that trains the encoder on questions, and its bindings; None if nothing does.
        follow: the gin file of the follower.
    """

    encoder: str
    memory: str
    follower: str
    text: str = 'text'
    begin: Callable[[Options], list[Step]] = from_scratch
    align: tuple[str, dict] | None = None
    follow: str = metaqa.gin('follow')


_RELEASED = System(
    'entities-released',
    'memory-released',
    'follow-opql-released',
    'text-released',
    metaqa.released,
    follow=metaqa.gin('follow_released'),
)
SYSTEMS = {
    'opql': System('align', 'memory', 'follow-opql', align=(metaqa.gin('align'), {})),
    'opql-pretrained': System('relations', 'memory-pretrained', 'follow-opql-pretrained'),
    'opql-released': _RELEASED,
    # Nothing but the follower is trained.
    'opql-released-frozen': _RELEASED._replace(
        follower='follow-opql-released-frozen', follow=metaqa.gin('follow_released_frozen')
    ),
    'drkit': System(
        'align-mentions',
        'memory-mentions',
        'follow-mentions',
        align=(metaqa.gin('align_mentions'), {'objectives.AlignPassages.split': '1-hop/train'}),
    ),
}


def held_out(options: Options, system: str, protocol: str, percent: int) -> list[Step]:
    """One system, asked all questions of `dev` and those that need one of the relations.

    Args:
        options: of the recipe.
        system: one of `SYSTEMS`.
        protocol: one of `novelty.PROTOCOLS`.
        percent: the share of the relations.
    """
    first, parts = list(RELATIONS.values())[: len(RELATIONS) * percent // 100], SYSTEMS[system]
    held = tuple(kind for kinds in first for kind in kinds)
    new = novelty.Novelty(protocol, percent, held, aligned=parts.align is not None)
    encoder, memory = parts.encoder + new.encoder_suffix, parts.memory + new.encoder_suffix
    follower = parts.follower + new.follower_suffix
    steps = parts.begin(options)
    if parts.align:
        gin, questions = parts.align
        steps.append(train(encoder, gin, options, INIT_FROM='relations', **questions, **new.encoder_bindings))
    following = {'INIT_FROM': encoder, 'TEXT': parts.text, 'MEMORY': memory}
    return [
        *steps,
        build_memory(memory, encoder, parts.text),
        train(follower, parts.follow, options, **following, **new.follower_bindings),
        *new.evaluations(system, follower, memory, [f'{hops}-hop/dev' for hops in metaqa.HOPS], parts.text),
    ]


RECIPES = novelty.recipes(
    'metaqa-novelty', {name: parts.align is not None for name, parts in SYSTEMS.items()}, PERCENT, held_out
)
