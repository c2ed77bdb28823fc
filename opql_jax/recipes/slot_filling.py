"""Slot filling over documents with relation labels: trained over the memory of four fifths of them, asked over that of the rest.

Every answer rests on a sentence at every hop. The rows `without-P` leave P percent of the relations out of all supervision and ask only
what needs one of them.
"""

import functools
import os

from opql_jax.datasets.slot_filling import SlotFilling, random_share
from opql_jax.recipes.recipe import Options, Recipe, Step, build_memory, evaluate, prepare, train

gin = 'gin/experiments/slot_filling/{}.gin'.format
SYSTEMS = ('opql', 'opql-pretrained', 'drkit', 'kv-memory')
HELD_OUT = (10, 25, 50, 75)
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


def slot_filling(options: Options, system: str, percent_held_out: int = 0) -> list[Step]:
    """Queries such as '[Willi Schneider], country of citizenship, capital' over documents that were not trained on."""
    held_out = random_share(_relations(options), percent_held_out / 100, options.seed) if percent_held_out else ()
    suffix = f'-without{percent_held_out}' if percent_held_out else ''
    row = f'novel-relations/{system}/{percent_held_out}' if percent_held_out else system
    steps = [prepared(options, 'text', 'train', TOKENIZER='minilm')]
    pretraining = train('relations', gin('relations'), options)
    model, following = f'align-{system}{suffix}', gin('follow')
    if system == 'kv-memory':
        following = gin('kv_memory_follow')
        steps += [train(model, gin('kv_memory_align'), options, INIT_FROM=None, HELD_OUT=held_out)]
    elif system == 'opql-pretrained':
        model = 'relations'
        steps += [pretraining]
    else:
        alignment = gin('align_mentions' if system == 'drkit' else 'align')
        steps += [pretraining, train(model, alignment, options, INIT_FROM='relations', HELD_OUT=held_out)]
    follow = f'follow-{system}{suffix}'
    entries = {'INIT_FROM': model, 'MEMORY': f'memory-{model}', 'HELD_OUT': held_out}
    asked = [f'{hops}-hop/dev' for hops in HOPS]
    return [
        *steps,
        build_memory(f'memory-{model}', model, PAIRS='sentence'),
        train(follow, following, options, **entries),
        prepared(options, 'text-dev', 'dev', EXTENDS='text'),
        build_memory(f'memory-{model}-dev', model, 'text-dev', PAIRS='sentence', ONLY_NEW=True),
        evaluate(f'results/{row}', follow, f'memory-{model}-dev', asked, 'text-dev', NEEDS=held_out),
    ]


RECIPES = [
    *(
        Recipe(f'slot-filling/{name}', f'{name}, all relations', functools.partial(slot_filling, system=name))
        for name in SYSTEMS
    ),
    *(
        Recipe(
            f'slot-filling/{name}-without-{percent}',
            f'{name}, asked what needs one of {percent} % of the relations, which nothing was trained on',
            functools.partial(slot_filling, system=name, percent_held_out=percent),
        )
        for percent in HELD_OUT
        for name in SYSTEMS[:3]
    ),
]
