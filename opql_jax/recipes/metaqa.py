"""MetaQA: relation following over Wikipedia's film passages, ablations, and baselines.

The memory of OPQL comes from an encoder that was aligned with 1-hop questions, that of
OPQL-pretrained from one that saw no question. The rows share a folder, and in it all steps that
they have in common.
"""

import functools
from collections.abc import Sequence
from typing import Any

from opql_jax.core.checkout import GIN_ROOT, RELEASED_ENCODER
from opql_jax.recipes.following import System
from opql_jax.recipes.recipe import Recipe
from opql_jax.recipes.step import Options, Output, Step, bound, evaluate, prepare, stage, train

HOPS = (1, 2, 3)
SPLITS = ('dev', 'test', 'dev_official')
# Some 78 for each type of question.
WORDINGS = str(GIN_ROOT / 'gin/experiments/metaqa/wordings.tsv')
_ALIGNED = {
    'encoder.RelationEncoder.dropout_rate': 0.0,
    'objectives.AlignPassages.facts_weight': 2.0,
}
# With 64 entries a hop, 8 % of 3-hop questions have no path to an answer; with 128, 4 %.
_FOLLOWED = bound('objectives.Follow', k=128)
STAGES = {
    'entities': stage('tiny', 'entities', 300, 1e-3, {'trainer.TrainConfig.orthogonal_w_r': True}),
    'relations': stage('tiny', 'relations', 1600, 1e-3),
    'align': stage('tiny', 'align_passages', 2400, 1.5e-3, _ALIGNED),
    'align-mentions': stage('tiny', 'align_mentions', 2400, 1.5e-3, _ALIGNED),
    # The paper's form of an entry: each pair marked in its text, with both names masked.
    'align-marked-pairs': stage('tiny', 'align', 4000, 1e-3),
    'follow': stage('tiny', 'follow', 6000, 1e-3, _FOLLOWED),
    # Entities beside the released encoder, which stays as it is.
    'entities-released': stage(
        'released',
        'entities',
        150,
        3e-3,
        bound('objectives.Entities', rows=128, frozen_encoder=True),
        bound('trainer.TrainConfig', warmup_steps=10, log_every=10),
    ),
    'align-released': stage('released', 'align_passages', 2400, 2e-4, _ALIGNED),
    'follow-released': stage('released', 'follow', 6000, 3e-4, _FOLLOWED),
    'kv-memory-entities': stage('bag_of_words', 'entities', 300, 1e-3),
    'kv-memory-align': stage('bag_of_words', 'align', 4000, 1e-3),
    'kv-memory-follow': stage('bag_of_words', 'follow', 6000, 1e-3, _FOLLOWED),
}
_GROUPS = bound('objectives.Relations', sampler='groups')
IN_OTHER_WORDS: dict[str, Any] = {'objectives.Follow.wordings': WORDINGS}


def prepared(options: Options) -> Step:
    """The prepared text and questions."""
    questions = [f'{hops}-hop/{split}.txt' for hops in HOPS for split in ('train', 'dev')]
    for name in ('passages.jsonl', 'entities.txt', *questions):
        options.file(f'metaqa/{name}')
    return prepare('text', 'gin/data/metaqa.gin', DATA_DIR=options.file('metaqa'))


def pretrained(options: Options, suffix: str = '', **bindings) -> list[Step]:
    """Pretraining of the entity table and of the relation encoder, whose name has a suffix."""
    return [
        train('entities', STAGES['entities'], options),
        train(f'relations{suffix}', STAGES['relations'], options, INIT_FROM='entities', **bindings),
    ]


def from_scratch(options: Options, suffix: str = '', **bindings) -> list[Step]:
    """Text prepared, and an encoder pretrained on it."""
    return [prepared(options), *pretrained(options, suffix, **bindings)]


def from_released(options: Options) -> list[Step]:
    """Text prepared for the released encoder, and an entity table trained beside it."""
    encoder = str(RELEASED_ENCODER)  # by its path, so that its files are part of the record
    text, name = 'text-released', 'entities-released'
    source = {'DATA_DIR': options.file('metaqa'), 'TOKENIZER': encoder}
    return [
        prepare(text, 'gin/data/metaqa.gin', **source),
        train(name, STAGES[name], options, TEXT=text, BERT=encoder),
    ]


def _kv_entities(options: Options) -> list[Step]:
    return [prepared(options), train('kv-entities', STAGES['kv-memory-entities'], options)]


def pretrained_with(suffix: str, **bindings) -> System:
    """OPQL-pretrained, its encoder pretrained otherwise."""
    pretraining = functools.partial(from_scratch, suffix=suffix, **bindings)
    return OPQL_PRETRAINED._replace(
        pretraining=pretraining, model=f'relations{suffix}', memory=f'memory-pretrained{suffix}'
    )


def with_kb(row: str, data_gin: str, align: str, **bindings) -> System:
    """A system that reads the knowledge base, with the entities and tokenizer of the text."""
    text = f'text-{row}'

    def pretraining(options):
        of_text = {'TOKENIZER': Output('text/tokenizer.json'), **bindings}
        of_text |= {'DATA_DIR': options.file('metaqa'), 'TRIPLES': options.file('metaqa/kb.txt')}
        return [*from_scratch(options), prepare(text, data_gin, **of_text)]

    aligned = f'align-{row}', STAGES[align], {}
    return OPQL._replace(pretraining=pretraining, align=aligned, memory=f'memory-{row}', text=text)


def following(**settings) -> dict[str, Any]:
    """Settings of a follower."""
    return bound('objectives.Follow', **settings)


def splits_of(hops: int) -> dict[str, Any]:
    """The binding that trains a follower on questions of so many hops alone."""
    return following(splits=(f'{hops}-hop/train',))


OPQL_PRETRAINED = System(from_scratch, 'relations', 'memory-pretrained', STAGES['follow'])
OPQL = OPQL_PRETRAINED._replace(memory='memory', align=('align', STAGES['align'], {}))
_RELEASED = 'entities-released', 'memory-released', STAGES['follow-released']
OPQL_RELEASED = System(from_released, *_RELEASED, text='text-released')
FAE_KB = with_kb('fae-kb', 'gin/data/metaqa_kb.gin', 'align')
_MARKED = OPQL._replace(
    align=('align-marked-pairs', STAGES['align-marked-pairs'], {}), memory='memory-marked-pairs'
)
# In the paper's form L_rel is over groups, pairs are marked with both names masked, and a follower
# knows its topics by their centroid alone and may return to that of the question. Not the paper's:
# all pairs are learnt from, the title stands in front of passages that lack it, and the filter acts
# within the search.
_PAPER_FORM = pretrained_with('_paper_groups', **_GROUPS)._replace(
    align=('align-paper-form', STAGES['align-marked-pairs'], {}),
    memory='memory-paper-form',
    following=following(weigh_topics=False, exclude_topic=False),
)


def answered(options: Options, row: str, system: System, hops: Sequence[int] = HOPS) -> list[Step]:
    """A system trained, and asked questions of some numbers of hops."""
    steps, _, memory, follower = system.trained(options, f'follow-{row}')
    names = [f'{number}-hop/{split}' for split in SPLITS for number in hops]
    there = [name for name in names if (options.data / f'metaqa/{name}.txt').exists()]
    return [*steps, evaluate(f'results/{row}', follower, memory, there, system.text)]


def of_one_number_of_hops(options: Options, form: str, system: System) -> list[Step]:
    """A system whose follower is trained and asked for one number of hops, as in the paper."""
    hops = options.hops
    system = system._replace(following={**system.following, **splits_of(hops)})
    return answered(options, f'{form}-{hops}-hop', system, (hops,))


def _followed(**settings) -> System:
    return OPQL._replace(following=following(**settings))


def _pretrained(name: str, **settings) -> System:
    return pretrained_with(f'_{name}', **bound('objectives.Relations', **settings))


_MEAN = bound('build_memory.build_memory', mentions='average')
_ALIGNED_RELEASED = OPQL_RELEASED._replace(
    align=('align-released', STAGES['align-released'], {}),
    memory='memory-align-released',
    following=IN_OTHER_WORDS,
)
_KV_ALIGN = 'kv-align', STAGES['kv-memory-align'], {}
_KV = System(_kv_entities, 'kv-entities', 'memory-kv', STAGES['kv-memory-follow'], align=_KV_ALIGN)
_DRKIT = with_kb('drkit', 'gin/data/metaqa_with_kb.gin', 'align-mentions')
_BOTH = with_kb('opql-and-kb', 'gin/data/metaqa_kb.gin', 'align', BESIDE_TEXT=True, SHARE=0.5)
_NO_HARD, _NO_EL = (
    _pretrained('no_hard_negatives', neighbours=1),
    _pretrained('no_el', entity_weight=0.0),
)
_GROUPED = _pretrained('paper_groups', sampler='groups')
_AVERAGED = OPQL._replace(memory='memory-mean', entries=_MEAN)
_OF_PRETRAINED = 'ablation of OPQL-pretrained'
_ROWS = (
    ('opql', OPQL, 'OPQL: the memory of an encoder that was aligned with 1-hop questions'),
    ('opql-pretrained', OPQL_PRETRAINED, 'OPQL, but of an encoder that saw no question'),
    ('marked-pairs', _MARKED, "ablation of OPQL: the paper's entries, both names masked"),
    ('no-filter', _followed(filter=False), 'ablation of OPQL: a hop searches the whole memory'),
    ('unweighed-topics', _followed(weigh_topics=False), 'ablation: topics by their centroid'),
    (
        'mean-mentions',
        _AVERAGED,
        'ablation of OPQL: an entry is the mean of up to 5 mentions of a pair',
    ),
    ('no-hard-negatives', _NO_HARD, f'{_OF_PRETRAINED}: L_rel without hard negatives'),
    ('no-el', _NO_EL, f'{_OF_PRETRAINED}: without L_el'),
    ('paper-groups', _GROUPED, f"{_OF_PRETRAINED}: the paper's groups of 11 mentions"),
    ('opql-wordings', OPQL._replace(following=IN_OTHER_WORDS), 'OPQL: also other wordings'),
    ('opql-released', OPQL_RELEASED, 'OPQL-pretrained with the released encoder'),
    ('opql-released-aligned', _ALIGNED_RELEASED, 'OPQL with the released encoder, and wordings'),
    ('kv-memory', _KV, 'baseline: a KV-memory of bags of words'),
    ('drkit', _DRKIT, 'baseline: a DrKIT-style index of mentions, which the knowledge base taught'),
    ('fae-kb', FAE_KB, "upper bound: a memory of the knowledge base's triples, not of text"),
    ('opql-and-kb', _BOTH, "OPQL: one memory of text and half of the knowledge base's triples"),
)
RECIPES = [
    *(
        Recipe(f'metaqa/{name}', summary, functools.partial(answered, row=name, system=system))
        for name, system, summary in _ROWS
    ),
    *(
        Recipe(
            f'metaqa/{form}',
            f'{summary}, of one number of hops',
            functools.partial(of_one_number_of_hops, form=form, system=system),
            {'hops': (2, 3)},
        )
        for form, system, summary in (
            ('only', OPQL, 'ablation of OPQL: a follower'),
            ('paper-form', _PAPER_FORM, "OPQL in the paper's form (section 3)"),
        )
    ),
]
