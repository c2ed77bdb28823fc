"""Slot filling over documents with relation labels: trained over the memory of four fifths of them, asked over that of the rest.

Every answer rests on a sentence at every hop. Three kinds of rows tell what novelty costs, for P percent of the relations:

    SYSTEM-novel-P    the protocol of the paper (section 3): the encoder of the memory was not trained on them, the follower was
    SYSTEM-without-P  a harder one: they are left out of all supervision
    SYSTEM-seen-P     for comparison: all relations were trained on

Each is asked everything ('all') and what needs one of these relations ('novel').
"""

import functools
import os

from opql_jax.datasets.slot_filling import SlotFilling, random_share
from opql_jax.recipes.recipe import Options, Recipe, Step, build_memory, evaluate, prepare, train

gin = 'gin/experiments/slot_filling/{}.gin'.format
SYSTEMS = ('opql', 'opql-pretrained', 'drkit', 'kv-memory')
HELD_OUT = (10, 25, 50, 75)
PROTOCOLS = {
    'novel': 'which the encoder of the memory was not trained on',
    'without': 'which nothing was trained on',
    'seen': 'all of which were trained on',
}
HOPS = (1, 2, 3)


def prepared(options: Options, text: str, part: str, **bindings) -> Step:
    """A prepared part of the documents."""
    documents = {name: options.file(f'redocred/{name.lower()}.json') for name in ('DOCUMENTS', 'REL_INFO')}
    return prepare(text, 'gin/data/slot_filling.gin', **documents, PART=part, **bindings)


def _relations(options: Options) -> list[str]:
    """The relations that training queries of one hop ask for: none of them can be held out by mistake."""
    reader = SlotFilling(options.file('redocred/documents.json'), options.file('redocred/rel_info.json'), part='train')
    vocab, _ = reader.read(os.devnull)
    return sorted({name for query in reader.questions(vocab, os.devnull)['1-hop/train'] for name in query.relations})


def slot_filling(options: Options, system: str, protocol: str = '', percent: int = 0) -> list[Step]:
    """Queries such as '[Willi Schneider], country of citizenship, capital' over documents that were not trained on.

    Args:
        system: one of `SYSTEMS`.
        protocol: one of `PROTOCOLS`, if questions that need one of some relations are asked apart.
        percent: the share of these relations.
    """
    chosen = random_share(_relations(options), percent / 100, options.seed) if protocol else ()
    unknown_to_memory = chosen if protocol in ('novel', 'without') else ()
    unknown_to_follower = chosen if protocol == 'without' else ()
    steps = [prepared(options, 'text', 'train', TOKENIZER='minilm')]
    pretraining = train('relations', gin('relations'), options)
    model, following = f'align-{system}' + (f'-without{percent}' if unknown_to_memory else ''), gin('follow')
    if system == 'kv-memory':
        following = gin('kv_memory_follow')
        steps += [train(model, gin('kv_memory_align'), options, INIT_FROM=None, HELD_OUT=unknown_to_memory)]
    elif system == 'opql-pretrained':
        model = 'relations'
        steps += [pretraining]
    else:
        alignment = gin('align_mentions' if system == 'drkit' else 'align')
        steps += [pretraining, train(model, alignment, options, INIT_FROM='relations', HELD_OUT=unknown_to_memory)]
    follow = f'follow-{system}'
    if unknown_to_follower:
        follow += f'-without{percent}'
    elif unknown_to_memory and model != 'relations':
        follow += f'-novel{percent}'
    entries = {'INIT_FROM': model, 'MEMORY': f'memory-{model}', 'HELD_OUT': unknown_to_follower}
    row = f'results/{system}-{protocol}-{percent}' if protocol else f'results/{system}'
    questions = {f'{row}/all': (), f'{row}/novel': chosen} if protocol else {row: ()}
    asked = [f'{hops}-hop/dev' for hops in HOPS]
    return [
        *steps,
        build_memory(f'memory-{model}', model, PAIRS='sentence'),
        train(follow, following, options, **entries),
        prepared(options, 'text-dev', 'dev', EXTENDS='text'),
        build_memory(f'memory-{model}-dev', model, 'text-dev', PAIRS='sentence', ONLY_NEW=True),
        *(evaluate(name, follow, f'memory-{model}-dev', asked, 'text-dev', NEEDS=needs) for name, needs in questions.items()),
    ]


RECIPES = [
    *(
        Recipe(f'slot-filling/{name}', f'{name}, all relations', functools.partial(slot_filling, system=name))
        for name in SYSTEMS
    ),
    *(
        Recipe(
            f'slot-filling/{name}-{protocol}-{percent}',
            f'{name}, asked what needs one of {percent} % of the relations, {meaning}',
            functools.partial(slot_filling, system=name, protocol=protocol, percent=percent),
        )
        for protocol, meaning in PROTOCOLS.items()
        for percent in HELD_OUT
        for name in SYSTEMS[:3]
        # What was pretrained on text alone has no relations to hold out of its memory: `novel` is `seen`.
        if (name, protocol) != ('opql-pretrained', 'seen')
    ),
]
