"""Multi-hop slot filling (MSF): followed over the memory of its training paragraphs, asked over that of its test paragraphs.

As in the paper an entry is a page's title and what a paragraph of it mentions, and the queries of two and of three hops have a memory each.
The settings are those of MetaQA: nothing was tuned on this data, which is not at hand.
"""

from opql_jax.recipes.recipe import Options, Recipe, Step, build_memory, evaluate, prepare, train

gin = 'gin/experiments/metaqa/{}.gin'.format


def prepared(options: Options, text: str, part: str, **bindings) -> Step:
    """The prepared paragraphs and queries of a part."""
    return prepare(text, 'gin/data/msf.gin', DATA_DIR=options.file('msf'), PART=part, **bindings)


def msf(options: Options) -> list[Step]:
    """Queries such as 'Steve Jobs, founder, headquarters in' over paragraphs that were not trained on."""
    system = options.system
    steps = [
        prepared(options, 'text', 'train'),
        train('entities', gin('entities'), options),
        train('relations', gin('relations'), options, INIT_FROM='entities'),
    ]
    model = 'relations'
    if system == 'opql':
        model = 'align'
        steps += [train(model, gin('align'), options, INIT_FROM='relations')]
    memory, follow = f'memory-{model}', f'follow-{system}'
    steps += [build_memory(memory, model), train(follow, gin('follow'), options, INIT_FROM=model, MEMORY=memory)]
    for hops in (2, 3):
        text = f'text-{hops}-hop'
        steps += [
            prepared(options, text, 'test', HOPS=(hops,), EXTENDS='text'),
            build_memory(f'{memory}-{hops}-hop', model, text, ONLY_NEW=True),
            evaluate(f'results/{system}/{hops}-hop', follow, f'{memory}-{hops}-hop', [f'{hops}-hop/test'], text),
        ]
    return steps


RECIPES = [
    Recipe(
        'msf',
        'multi-hop slot filling over Wikipedia (MSF); needs your own files',
        msf,
        {'system': ('opql', 'opql-pretrained')},
    )
]
