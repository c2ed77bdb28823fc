"""MetaQA with relations held out: which they are.

Its runs share steps with --out of metaqa/opql, metaqa/opql-pretrained and metaqa/opql-released. The
index of mentions (DrKIT) learns from the 1-hop questions here, as OPQL's encoder does, not from the
knowledge base, in which the facts that are asked for stand.
"""

from opql_jax.recipes import metaqa
from opql_jax.recipes.following import PROTOCOLS, Novelty
from opql_jax.recipes.recipe import Recipe
from opql_jax.recipes.step import Options, Step, bound

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
_MENTIONS = bound('objectives.AlignPassages', split='1-hop/train')
_ALIGN = 'align-mentions', metaqa.STAGES['align-mentions'], _MENTIONS
_FROZEN = metaqa.OPQL_RELEASED._replace(following=metaqa.following(frozen_encoder=True))
# {system: the name of its follower, and how it is made}.
SYSTEMS = {
    'opql': ('follow-opql', metaqa.OPQL),
    'opql-pretrained': ('follow-opql-pretrained', metaqa.OPQL_PRETRAINED),
    'opql-released': ('follow-opql-released', metaqa.OPQL_RELEASED),
    'opql-released-frozen': ('follow-opql-released-frozen', _FROZEN),
    'drkit': ('follow-mentions', metaqa.OPQL._replace(align=_ALIGN, memory='memory-mentions')),
}


def held_out(options: Options) -> list[Step]:
    """One system, asked all questions of `dev` and those that need one of the relations."""
    first = list(RELATIONS.values())[: len(RELATIONS) * options.share // 100]
    kinds = tuple(kind for of_relation in first for kind in of_relation)
    new = Novelty(options.protocol, options.share, kinds)
    name, system = SYSTEMS[options.system]
    steps, _, memory, follower = system.trained(options, name, new)
    asked = [f'{hops}-hop/dev' for hops in metaqa.HOPS]
    return [*steps, *new.evaluations(options.system, follower, memory, asked, system.text)]


RECIPES = [
    Recipe(
        'metaqa-novelty',
        'MetaQA with some relations held out of training: what new relations cost',
        held_out,
        {'system': tuple(SYSTEMS), 'protocol': PROTOCOLS, 'share': SHARES},
    )
]
