"""The demo: a generated world, from text to answers, in minutes on two cores."""

from opql_jax.recipes.recipe import Options, Recipe, Step, train

SPLITS = ('1-hop/test', '2-hop/test', '3-hop/test', '1-hop/unseen_wording')
FOLLOWER = {'PREPARED_DIR': '{out}/prepared', 'MODEL_DIR': '{out}/follow', 'MEMORY_DIR': '{out}/memory'}


def demo(options: Options) -> list[Step]:
    """Generates text, trains an encoder on it, builds the memory, follows it, and scores questions with unseen topics."""
    world = {'PREPARED_DIR': '{out}/prepared', 'SEED': options.world_seed, 'DOCUMENTS': options.documents}
    gin = 'gin/experiments/demo/{}.gin'.format
    memory = {'PREPARED_DIR': '{out}/prepared', 'MODEL_DIR': '{out}/align', 'MEMORY_DIR': '{out}/memory'}
    return [
        Step('prepared', 'prepare', ('gin/data/synthetic.gin',), world, 'prepared'),
        train('entities', gin('entities'), options),
        train('relations', gin('relations'), options, INIT_FROM='{out}/entities'),
        train('align', gin('align'), options, INIT_FROM='{out}/relations'),
        Step('memory', 'build_memory', ('gin/runs/build_memory.gin',), memory, 'memory'),
        train('follow', gin('follow'), options, INIT_FROM='{out}/align', MEMORY_DIR='{out}/memory'),
        Step(
            'results',
            'eval',
            ('gin/runs/eval.gin',),
            FOLLOWER | {'OUTPUT_DIR': '{out}/results', 'QUESTIONS': SPLITS, 'SHOW': 1},
            'results',
        ),
    ]


RECIPES = [Recipe('demo', 'a generated world, from text to answers to questions of 1 to 3 hops', demo)]
