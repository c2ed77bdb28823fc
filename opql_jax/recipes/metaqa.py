"""MetaQA: relation following over Wikipedia's film passages, ablations, and baselines.

The memory of OPQL comes from an encoder that was aligned with 1-hop questions, that of
OPQL-pretrained from one that saw no question. The rows share a folder, and in it all steps that
they have in common.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from opql_jax.core.checkout import GIN_ROOT, RELEASED_ENCODER
from opql_jax.recipes.recipe import (
    Options,
    Output,
    Recipe,
    Stage,
    Step,
    bound,
    build_memory,
    evaluate,
    prepare,
    stage,
    train,
)

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
    'entities': stage(
        'tiny', 'entities', 300, 1e-3, bound('trainer.TrainConfig', orthogonal_w_r=True)
    ),
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


def followed(
    options: Options,
    row: str,
    model: str,
    memory: str,
    text: str = 'text',
    stage: Stage = STAGES['follow'],
    hops: Sequence[int] = HOPS,
    **bindings,
) -> list[Step]:
    """Following over a memory, trained and evaluated."""
    names = [f'{number}-hop/{split}' for split in SPLITS for number in hops]
    there = [name for name in names if (options.data / f'metaqa/{name}.txt').exists()]
    follower = f'follow-{row}'
    return [
        train(follower, stage, options, INIT_FROM=model, TEXT=text, MEMORY=memory, **bindings),
        evaluate(f'results/{row}', follower, memory, there, text),
    ]


def aligned(options: Options) -> list[Step]:
    """Text prepared, and an encoder pretrained and aligned with 1-hop questions."""
    return [
        prepared(options),
        *pretrained(options),
        train('align', STAGES['align'], options, INIT_FROM='relations'),
    ]


def opql(options: Options, row: str = 'opql', **bindings) -> list[Step]:
    """OPQL: the memory of an encoder that was aligned with 1-hop questions."""
    return [
        *aligned(options),
        build_memory('memory', 'align'),
        *followed(options, row, 'align', 'memory', **bindings),
    ]


def released(options: Options) -> list[Step]:
    """Text prepared for the released encoder, and an entity table trained beside it."""
    encoder = str(RELEASED_ENCODER)  # by its path, so that its files are part of the record
    text, name = 'text-released', 'entities-released'
    source = {'DATA_DIR': options.file('metaqa'), 'TOKENIZER': encoder}
    return [
        prepare(text, 'gin/data/metaqa.gin', **source),
        train(name, STAGES[name], options, TEXT=text, BERT=encoder),
    ]


def opql_released(options: Options) -> list[Step]:
    """OPQL-pretrained with the released encoder, which read labelled sentences, none of MetaQA."""
    text, model, entries = 'text-released', 'entities-released', 'memory-released'
    return [
        *released(options),
        build_memory(entries, model, text),
        *followed(options, 'opql-released', model, entries, text, STAGES['follow-released']),
    ]


def opql_released_aligned(options: Options) -> list[Step]:
    """OPQL with the released encoder, aligned; its follower also learns from other wordings."""
    text, model, entries = 'text-released', 'align-released', 'memory-align-released'
    follow = STAGES['follow-released']
    return [
        *released(options),
        train(model, STAGES['align-released'], options, INIT_FROM='entities-released', TEXT=text),
        build_memory(entries, model, text),
        *followed(options, 'opql-released-aligned', model, entries, text, follow, **IN_OTHER_WORDS),
    ]


def mean_mentions(options: Options) -> list[Step]:
    """OPQL, ablation: an entry is the mean of up to 5 mentions of a pair."""
    average = bound('build_memory.build_memory', mentions='average')
    return [
        *aligned(options),
        build_memory('memory-mean', 'align', **average),
        *followed(options, 'mean-mentions', 'align', 'memory-mean'),
    ]


def one_number_of_hops(options: Options) -> list[Step]:
    """OPQL, ablation: a follower of one number of hops alone, as in the paper (section 3)."""
    hops = options.hops
    return opql(options, f'only-{hops}-hop', hops=(hops,), **splits_of(hops))


def splits_of(hops: int) -> dict[str, Any]:
    """The binding that trains a follower on questions of so many hops alone."""
    return bound('objectives.Follow', splits=(f'{hops}-hop/train',))


def opql_pretrained(
    options: Options, row: str = 'opql-pretrained', suffix: str = '', **bindings
) -> list[Step]:
    """OPQL-pretrained: the memory of an encoder that saw no question."""
    model, entries = f'relations{suffix}', f'memory-pretrained{suffix}'
    return [
        prepared(options),
        *pretrained(options, suffix, **bindings),
        build_memory(entries, model),
        *followed(options, row, model, entries),
    ]


def _over_marked_pairs(options: Options, form: str, suffix: str = '', **bindings) -> list[Step]:
    """The steps up to a memory `memory-FORM` of pairs marked in text, both names masked."""
    model, start = f'align-{form}', f'relations{suffix}'
    return [
        prepared(options),
        *pretrained(options, suffix, **bindings),
        train(model, STAGES['align-marked-pairs'], options, INIT_FROM=start),
        build_memory(f'memory-{form}', model),
    ]


def marked_pairs(options: Options) -> list[Step]:
    """OPQL, ablation: the paper's entries, each pair marked with both names masked."""
    steps, row = _over_marked_pairs(options, 'marked-pairs'), 'marked-pairs'
    return [*steps, *followed(options, row, f'align-{row}', f'memory-{row}')]


def paper_form(options: Options) -> list[Step]:
    """OPQL in the paper's form (section 3), for one number of hops.

    L_rel over groups, pairs marked with both names masked, and a follower which knows its topics by
    their centroid alone and may return to that of the question. Not the paper's: all pairs are
    learnt from, the title stands in front of passages that lack it, and the filter acts within the
    search.
    """
    hops, form = options.hops, 'paper-form'
    settings = bound('objectives.Follow', weigh_topics=False, exclude_topic=False)
    settings |= {'hops': (hops,), **splits_of(hops)}
    return [
        *_over_marked_pairs(options, form, '_paper_groups', **_GROUPS),
        *followed(options, f'{form}-{hops}-hop', f'align-{form}', f'memory-{form}', **settings),
    ]


def kv_memory(options: Options) -> list[Step]:
    """Baseline: a KV-memory of bags of words."""
    return [
        prepared(options),
        train('kv-entities', STAGES['kv-memory-entities'], options),
        train('kv-align', STAGES['kv-memory-align'], options, INIT_FROM='kv-entities'),
        build_memory('memory-kv', 'kv-align'),
        *followed(options, 'kv-memory', 'kv-align', 'memory-kv', stage=STAGES['kv-memory-follow']),
    ]


def with_kb(options: Options, row: str, data_gin: str, align: str, **bindings) -> list[Step]:
    """A system that reads the knowledge base, with the entities and tokenizer of the text."""
    text, model, entries = f'text-{row}', f'align-{row}', f'memory-{row}'
    bindings |= {'DATA_DIR': options.file('metaqa'), 'TRIPLES': options.file('metaqa/kb.txt')}
    return [
        prepared(options),
        *pretrained(options),
        prepare(text, data_gin, TOKENIZER=Output('text/tokenizer.json'), **bindings),
        train(model, STAGES[align], options, INIT_FROM='relations', TEXT=text),
        build_memory(entries, model, text),
        *followed(options, row, model, entries, text),
    ]


def fae_kb(options: Options) -> list[Step]:
    """Upper bound: a memory of the knowledge base's triples in place of the text."""
    return with_kb(options, 'fae-kb', 'gin/data/metaqa_kb.gin', 'align')


def drkit(options: Options) -> list[Step]:
    """Baseline: a DrKIT-style index of mentions, supervised by the knowledge base."""
    return with_kb(options, 'drkit', 'gin/data/metaqa_with_kb.gin', 'align-mentions')


def opql_and_kb(options: Options) -> list[Step]:
    """OPQL: one memory of the text and of half of the knowledge base's triples."""
    both: dict[str, Any] = {'BESIDE_TEXT': True, 'SHARE': 0.5}
    return with_kb(options, 'opql-and-kb', 'gin/data/metaqa_kb.gin', 'align', **both)


def opql_wordings(options: Options) -> list[Step]:
    """OPQL: its follower also learns from its training questions in other words."""
    return opql(options, 'opql-wordings', **IN_OTHER_WORDS)


def _row(name: str, build: Callable[[Options], list[Step]], summary: str = '', **choices) -> Recipe:
    """A row, whose summary is the first line of what builds it unless it is given."""
    summary = summary or str(build.__doc__).splitlines()[0].rstrip('.')
    return Recipe(f'metaqa/{name}', summary, build, choices)


def _follower_ablation(name: str, summary: str, **settings) -> Recipe:
    build = functools.partial(opql, row=name, **bound('objectives.Follow', **settings))
    return _row(name, build, f'ablation of OPQL: {summary}')


def _pretraining_ablation(name: str, summary: str, **settings) -> Recipe:
    changed = bound('objectives.Relations', **settings)
    suffix = f'_{name.replace("-", "_")}'
    build = functools.partial(opql_pretrained, row=name, suffix=suffix, **changed)
    return _row(name, build, f'ablation of OPQL-pretrained: {summary}')


_CENTROID = 'a hop knows its topics by their centroid alone, as in the paper'
RECIPES = [
    _row('opql', opql),
    _row('opql-pretrained', opql_pretrained),
    _row('marked-pairs', marked_pairs),
    _follower_ablation('no-filter', 'a hop searches the whole memory', filter=False),
    _follower_ablation('unweighed-topics', _CENTROID, weigh_topics=False),
    _row('only', one_number_of_hops, hops=(2, 3)),
    _row('paper-form', paper_form, hops=(2, 3)),
    _row('mean-mentions', mean_mentions),
    _pretraining_ablation('no-hard-negatives', 'L_rel without hard negatives', neighbours=1),
    _pretraining_ablation('no-el', 'without L_el', entity_weight=0.0),
    _pretraining_ablation('paper-groups', "the paper's groups of 11 mentions", sampler='groups'),
    _row('opql-wordings', opql_wordings),
    _row('opql-released', opql_released),
    _row('opql-released-aligned', opql_released_aligned),
    _row('kv-memory', kv_memory),
    _row('drkit', drkit),
    _row('fae-kb', fae_kb),
    _row('opql-and-kb', opql_and_kb),
]
