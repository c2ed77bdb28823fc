"""MetaQA with relations held out: which they are, and the rows of `novelty`.

The rows share steps with --out of metaqa/opql and of metaqa/opql-pretrained. The index of mentions (DrKIT) learns from the 1-hop questions
here, as OPQL's encoder does, not from the knowledge base, in which the facts that are asked for stand.
"""

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
SYSTEMS = {  # (encoder, memory, follower)
    'opql': ('align', 'memory', 'follow-opql'),
    'opql-pretrained': ('relations', 'memory-pretrained', 'follow-opql-pretrained'),
    'drkit': ('align-mentions', 'memory-mentions', 'follow-mentions'),
}
ALIGNMENTS = {
    'opql': (metaqa.gin('align'), {}),
    'drkit': (metaqa.gin('align_mentions'), {'objectives.AlignPassages.split': '1-hop/train'}),
}


def held_out(options: Options, system: str, protocol: str, percent: int) -> list[Step]:
    """One system, asked all questions of `dev` and those that need one of the relations.

    Args:
        options: of the recipe.
        system: one of `SYSTEMS`.
        protocol: one of `novelty.PROTOCOLS`.
        percent: the share of the relations.
    """
    first = list(RELATIONS.values())[: len(RELATIONS) * percent // 100]
    new = novelty.Novelty(protocol, percent, tuple(kind for kinds in first for kind in kinds), aligned=system in ALIGNMENTS)
    encoder, memory, follower = SYSTEMS[system]
    encoder, memory, follower = encoder + new.encoder_suffix, memory + new.encoder_suffix, follower + new.follower_suffix
    steps = [metaqa.prepared(options), *metaqa.pretrained(options)]
    if new.aligned:
        gin, questions = ALIGNMENTS[system]
        steps.append(train(encoder, gin, options, INIT_FROM='relations', **questions, **new.encoder_bindings))
    return [
        *steps,
        build_memory(memory, encoder),
        train(follower, metaqa.gin('follow'), options, INIT_FROM=encoder, TEXT='text', MEMORY=memory, **new.follower_bindings),
        *new.evaluations(system, follower, memory, [f'{hops}-hop/dev' for hops in metaqa.HOPS], 'text'),
    ]


RECIPES = novelty.recipes('metaqa-novelty', PERCENT, held_out)
