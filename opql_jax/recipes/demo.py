"""The demo: a generated world, from text to answers, in minutes on two cores."""

from opql_jax.recipes.recipe import Options, Recipe, Step, build_memory, evaluate, prepare, train

SPLITS = ('1-hop/test', '2-hop/test', '3-hop/test', '1-hop/unseen_wording')


def demo(options: Options) -> list[Step]:
    """Generates text, trains an encoder, builds and follows a memory, and scores new topics."""
    gin = 'gin/experiments/demo/{}.gin'.format
    return [
        prepare(
            'text', 'gin/data/synthetic.gin', SEED=options.world_seed, DOCUMENTS=options.documents
        ),
        train('entities', gin('entities'), options),
        train('relations', gin('relations'), options, INIT_FROM='entities'),
        train('align', gin('align'), options, INIT_FROM='relations'),
        build_memory('memory', 'align'),
        train('follow', gin('follow'), options, INIT_FROM='align', MEMORY='memory'),
        evaluate('results', 'follow', 'memory', SPLITS, SHOW=1),
    ]


RECIPES = [
    Recipe('demo', 'a generated world, from text to answers to questions of 1 to 3 hops', demo)
]
