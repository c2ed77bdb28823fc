"""MetaQA with relations held out: which they are.

Its runs share steps with --out of metaqa/opql, metaqa/opql-pretrained and metaqa/opql-released. The
index of mentions (DrKIT) learns from the 1-hop questions here, as OPQL's encoder does, not from the
knowledge base, in which the facts that are asked for stand.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from opql_jax.recipes import metaqa, novelty
from opql_jax.recipes.recipe import Options, Recipe, Stage, Step, build_memory, train

# The relations that may be held out, of which a run takes the first --share percent, and the types
# of 1-hop questions that ask for them, in either direction: a director's films tell who directed
# them. Few pairs of the first are joined by another relation as well, while every second director
# also wrote the film. Actors are always known, as questions of several hops begin with a film's
# people, and some have to be left. Tags and IMDb's numbers are in no question of several hops.
RELATIONS = {
    'genre': ('movie_to_genre',),
    'year': ('movie_to_year',),
    'director': ('director_to_movie', 'movie_to_director'),
    'language': ('movie_to_language',),
    'writer': ('movie_to_writer', 'writer_to_movie'),
}
SHARES = (60, 20, 40, 80)


def from_scratch(options: Options) -> list[Step]:
    """Text prepared, and an encoder pretrained on it."""
    return [metaqa.prepared(options), *metaqa.pretrained(options)]


class System(NamedTuple):
    """A system: its stages of training, and the names of its steps where nothing is held out.

    Attributes:
        text: the prepared text.
        pretraining: the steps before any question.
        align: the stage that trains the encoder on questions, and its bindings; None if none
            does.
        frozen: whether the follower leaves the encoder as it is.
    """

    encoder: str
    memory: str
    follower: str
    text: str = 'text'
    pretraining: Callable[[Options], list[Step]] = from_scratch
    align: tuple[str, dict] | None = None
    follow: Stage = metaqa.STAGES['follow']
    frozen: bool = False


_RELEASED = System(
    'entities-released',
    'memory-released',
    'follow-opql-released',
    'text-released',
    metaqa.released,
    follow=metaqa.STAGES['follow-released'],
)
SYSTEMS = {
    'opql': System('align', 'memory', 'follow-opql', align=('align', {})),
    'opql-pretrained': System('relations', 'memory-pretrained', 'follow-opql-pretrained'),
    'opql-released': _RELEASED,
    'opql-released-frozen': _RELEASED._replace(follower='follow-opql-released-frozen', frozen=True),
    'drkit': System(
        'align-mentions',
        'memory-mentions',
        'follow-mentions',
        align=('align-mentions', {'objectives.AlignPassages.split': '1-hop/train'}),
    ),
}


def held_out(options: Options) -> list[Step]:
    """One system, asked all questions of `dev` and those that need one of the relations."""
    system, protocol, percent = options.system, options.protocol, options.share
    spec = SYSTEMS[system]
    first = list(RELATIONS.values())[: len(RELATIONS) * percent // 100]
    new_relations = tuple(kind for kinds in first for kind in kinds)
    new = novelty.Novelty(protocol, percent, new_relations, aligned=spec.align is not None)
    encoder, memory = spec.encoder + new.encoder_suffix, spec.memory + new.encoder_suffix
    follower = spec.follower + new.follower_suffix
    steps = spec.pretraining(options)
    if spec.align:
        stage, questions = spec.align
        bindings = {'INIT_FROM': steps[-1].name, **questions, **new.encoder_bindings}
        steps.append(train(encoder, metaqa.STAGES[stage], options, **bindings))
    following: dict[str, Any] = {'INIT_FROM': encoder, 'TEXT': spec.text, 'MEMORY': memory}
    following |= {'objectives.Follow.frozen_encoder': True} if spec.frozen else {}
    asked = [f'{hops}-hop/dev' for hops in metaqa.HOPS]
    return [
        *steps,
        build_memory(memory, encoder, spec.text),
        train(follower, spec.follow, options, **following, **new.follower_bindings),
        *new.evaluations(system, follower, memory, asked, spec.text),
    ]


RECIPES = [
    Recipe(
        'metaqa-novelty',
        'MetaQA with some relations held out of training: what new relations cost',
        held_out,
        {'system': tuple(SYSTEMS), 'protocol': novelty.PROTOCOLS, 'share': SHARES},
    )
]
