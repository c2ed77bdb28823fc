"""Slot filling over documents with labelled relations; a fifth of them are asked over.

Every answer rests on a sentence at every hop. With a share of new relations it tells what these
cost, see `following`.
"""

import os

from opql_jax.datasets.slot_filling import SlotFilling, random_share
from opql_jax.recipes.following import PROTOCOLS, Novelty, System
from opql_jax.recipes.recipe import Recipe
from opql_jax.recipes.step import Options, Step, bound, build_memory, prepare, stage, train

_OFTEN = bound('trainer.TrainConfig', log_every=10, checkpoint_every=20)
# Facts are those of a sentence, and so are the entries of the memory.
_SENTENCES = {'PAIRS': 'sentence'}
_SIZES = {'passages': 32, 'topics': 12, 'questions': 96, 'pairs_per_passage': 64}
_BATCH = bound('objectives.AlignPassages', split='1-hop/train', **_SIZES)
_ALIGNED = _SENTENCES | _OFTEN | bound('trainer.TrainConfig', warmup_steps=20) | _BATCH
STAGES = {
    # A few hundred documents teach little English, which MiniLM knows.
    'relations': stage('minilm', 'relations_minilm', 100, 3e-4, _OFTEN),
    'align': stage('minilm', 'align_passages', 250, 2e-4, _ALIGNED),
    'align-mentions': stage('minilm', 'align_mentions', 250, 2e-4, _ALIGNED),
    'follow': stage('minilm', 'follow', 300, 1e-4, _OFTEN),
    'kv-memory-align': stage('bag_of_words', 'align', 2000, 1e-3, _SENTENCES),
    'kv-memory-follow': stage('bag_of_words', 'follow', 1200, 5e-4),
}
# {system: its stage of training the encoder on questions, and of following}.
SYSTEMS = {
    'opql': ('align', 'follow'),
    'opql-pretrained': (None, 'follow'),
    'drkit': ('align-mentions', 'follow'),
    'kv-memory': ('kv-memory-align', 'kv-memory-follow'),
}
SHARES = (0, 10, 25, 50, 75)
HOPS = (1, 2, 3)


def prepared(options: Options, text: str, part: str, **bindings) -> Step:
    """A prepared part of the documents."""
    documents = {n: options.file(f'redocred/{n.lower()}.json') for n in ('DOCUMENTS', 'REL_INFO')}
    return prepare(text, 'gin/data/slot_filling.gin', **documents, PART=part, **bindings)


def _relations(options: Options) -> list[str]:
    """The relations of one-hop training queries: none of them can be held out by mistake."""
    documents, names = (options.file(f'redocred/{of}.json') for of in ('documents', 'rel_info'))
    reader = SlotFilling(documents, names, part='train')
    vocab, _ = reader.read(os.devnull)
    queries = reader.questions(vocab, os.devnull)['1-hop/train']
    return sorted({name for query in queries for name in query.relations})


def slot_filling(options: Options) -> list[Step]:
    """Queries such as '[Willi Schneider], country of citizenship, capital', over new documents.

    With --share those that need a new relation are asked apart. Inverses are two relations, such as
    'follows' and 'followed by': one may be new and the other not.
    """
    name, percent = options.system, options.share
    chosen = random_share(_relations(options), percent / 100, options.seed) if percent else ()
    new = Novelty(options.protocol, percent, chosen)

    def pretraining(options):
        text = prepared(options, 'text', 'train', TOKENIZER='minilm')
        return [text] + ([train('relations', STAGES['relations'], options)] if model else [])

    align, follow = SYSTEMS[name]
    model = None if name == 'kv-memory' else 'relations'
    encoder = f'align-{name}' if align else 'relations'
    aligned = (encoder, STAGES[align], {}) if align else None
    parts = f'memory-{encoder}', STAGES[follow], aligned, _SENTENCES
    system = System(pretraining, model, *parts)
    steps, encoder, memory, follower = system.trained(options, f'follow-{name}', new)
    dev, asked = f'{memory}-dev', [f'{hops}-hop/dev' for hops in HOPS]
    return [
        *steps,
        prepared(options, 'text-dev', 'dev', EXTENDS='text'),
        build_memory(dev, encoder, 'text-dev', PAIRS='sentence', ONLY_NEW=True),
        *new.evaluations(name, follower, dev, asked, 'text-dev'),
    ]


RECIPES = [
    Recipe(
        'slot-filling',
        'slot filling over Re-DocRED, with some relations held out of training or with none',
        slot_filling,
        {'system': tuple(SYSTEMS), 'protocol': PROTOCOLS, 'share': SHARES},
    )
]
