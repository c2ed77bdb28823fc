"""The demo: a generated world, from text to answers, in minutes on two cores."""

from opql_jax.recipes.recipe import Recipe
from opql_jax.recipes.step import (
    Options,
    Step,
    bound,
    build_memory,
    evaluate,
    prepare,
    stage,
    train,
)

# In so few steps, relations of half the width of [h_R1 ; h_R2] are learnt better than those of all.
_WIDTH = bound('encoder.RelationEncoder', relation_dim=128)
STAGES = {
    'entities': stage('tiny', 'entities', 50, 1e-3, _WIDTH),
    'relations': stage('tiny', 'relations', 200, 1e-3, _WIDTH),
    'align': stage('tiny', 'align', 700, 1e-3, _WIDTH, bound('objectives.Align', rows_per_topic=8)),
    'follow': stage('tiny', 'follow', 750, 1e-3, _WIDTH),
}
SPLITS = ('1-hop/test', '2-hop/test', '3-hop/test', '1-hop/unseen_wording')


def demo(options: Options) -> list[Step]:
    """Generates text, trains an encoder, builds and follows a memory, and scores new topics."""
    return [
        prepare(
            'text', 'gin/data/synthetic.gin', SEED=options.world_seed, DOCUMENTS=options.documents
        ),
        train('entities', STAGES['entities'], options),
        train('relations', STAGES['relations'], options, INIT_FROM='entities'),
        train('align', STAGES['align'], options, INIT_FROM='relations'),
        build_memory('memory', 'align'),
        train('follow', STAGES['follow'], options, INIT_FROM='align', MEMORY='memory'),
        evaluate('results', 'follow', 'memory', SPLITS, SHOW=1),
    ]


RECIPES = [
    Recipe('demo', 'a generated world, from text to answers to questions of 1 to 3 hops', demo)
]
