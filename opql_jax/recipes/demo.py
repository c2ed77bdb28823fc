"""The demo: a generated world, from text to answers, in minutes on two cores."""

from opql_jax.recipes.recipe import KB, Options, Recipe, Step, train

SPLITS = ('1-hop/test', '2-hop/test', '3-hop/test', '1-hop/unseen_wording')


def demo(options: Options) -> list[Step]:
    """Generates text, trains an encoder on it, builds the memory, follows it, and scores questions with unseen topics."""
    world = {**KB, 'TEXT': 'text', 'SEED': options.world_seed, 'DOCUMENTS': options.documents}
    gin = 'gin/experiments/demo/{}.gin'.format
    memory = {**KB, 'TEXT': 'text', 'MODEL': 'align', 'MEMORY': 'memory'}
    results = {
        **KB,
        'TEXT': 'text',
        'MODEL': 'follow',
        'MEMORY': 'memory',
        'OUTPUT_DIR': '{out}/results',
        'QUESTIONS': SPLITS,
        'SHOW': 1,
    }
    return [
        Step('text', 'prepare', ('gin/data/synthetic.gin',), world, 'text'),
        train('entities', gin('entities'), options),
        train('relations', gin('relations'), options, INIT_FROM='entities'),
        train('align', gin('align'), options, INIT_FROM='relations'),
        Step('memory', 'build_memory', ('gin/runs/build_memory.gin',), memory, 'memory'),
        train('follow', gin('follow'), options, INIT_FROM='align', MEMORY='memory'),
        Step('results', 'eval', ('gin/runs/eval.gin',), results, 'results'),
    ]


RECIPES = [Recipe('demo', 'a generated world, from text to answers to questions of 1 to 3 hops', demo)]
