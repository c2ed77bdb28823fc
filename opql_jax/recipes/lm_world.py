"""OPQL-LM over a generated world some of whose facts no training text states.

It is asked over a memory that holds these facts, over one that lacks them, and over one that holds
others in their place, without a training step between.
"""

from opql_jax.datasets.synthetic.lm_world import write_lm_world
from opql_jax.recipes import language_model as lm
from opql_jax.recipes.recipe import (
    Function,
    Options,
    Output,
    Recipe,
    Step,
    build_memory,
    prepare,
    train,
)

gin = 'gin/experiments/lm_world/{}.gin'.format


def prepared(text: str, corpus: str, **bindings) -> Step:
    """A prepared part of the generated world."""
    settings = {
        'CORPUS': Output(f'world/{corpus}/corpus.jsonl'),
        'ENTITIES': Output('world/entities.jsonl'),
        'prepare.prepare.wordpieces': 4000,
        'prepare.prepare.max_tokens': 40,
        'prepare.prepare.drop_above_rate': 1.0,
    }
    return prepare(text, 'gin/data/jsonl.gin', **settings, **bindings)


def lm_world(options: Options) -> list[Step | Function]:
    """A language model over a generated world, part of which is only in the memory."""
    system = options.system
    questions = lambda *names: [Output(f'world/questions/{name}.jsonl') for name in names]
    world = {
        'directory': Output('world'),
        'seed': options.world_seed,
        'num_documents': options.documents,
    }
    steps: list[Step | Function] = [
        Function('world', write_lm_world, world, 'world'),
        prepared('text', 'train', QUESTION_FOLDER=Output('world/linked')),
        train('entities', gin('entities'), options),
        train('relations', gin('relations'), options, INIT_FROM='entities'),
        # The questions that are trained on say what a topic's relations are: they are aligned with
        # the text, by the names in them.
        train('align', gin('align'), options, INIT_FROM='relations'),
        build_memory('memory', 'align'),
        lm.cloze(options, 'lm_world', system, 'align', 'memory'),
        lm.finetuned(
            options, 'lm_world', system, f'{system}-pretrained', 'memory', questions('train')[0]
        ),
    ]
    if system == 'eae':
        sets = questions('dev_known', 'held_out', 'changed', 'two_hop', 'conjunction')
        return [*steps, lm.asked(system, 'none', 'memory', sets)]
    for corpus in ('facts', 'changed'):
        steps += [prepared(f'text-{corpus}', corpus, EXTENDS='text')]
        steps += lm.injected(f'memory-{corpus}', 'memory', f'text-{corpus}', 'align')
    return [
        *steps,
        lm.asked(
            system,
            'facts',
            'memory-facts',
            questions('dev_known', 'held_out', 'two_hop', 'conjunction'),
            'text-facts',
        ),
        lm.asked(system, 'without', 'memory', questions('dev_known', 'held_out')),
        lm.asked(
            system, 'changed', 'memory-changed', questions('dev_known', 'changed'), 'text-changed'
        ),
    ]


RECIPES = [
    Recipe(
        'lm-world',
        (
            'a language model over a generated world: facts are put into its '
            'memory, taken out and replaced'
        ),
        lm_world,
        {'system': (*lm.SYSTEMS, *lm.ABLATIONS)},
    )
]
