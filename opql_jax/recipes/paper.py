"""The paper at its size: from a dump of Wikipedia to its tables, for a machine with accelerators.

All rows share what Wikipedia teaches.

The dump (`wikipedia/`), a BERT-base of Hugging Face (`bert-base-uncased/`) and the questions are
the user's own.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from opql_jax.models.encoder import RelationEncoder
from opql_jax.recipes import cost, msf, open_questions
from opql_jax.recipes import language_model as lm
from opql_jax.recipes import metaqa as small_metaqa
from opql_jax.recipes.following import System
from opql_jax.recipes.recipe import Recipe
from opql_jax.recipes.step import (
    Choices,
    Function,
    Options,
    Output,
    Stage,
    Step,
    bound,
    build_memory,
    evaluate,
    numbers,
    prepare,
    train,
    training_steps,
)

_gin = 'gin/experiments/paper/{}.gin'.format
# Stages over Wikipedia have a file each, of one's own runs on a TPU (docs/how-to/paper_on_tpu.md).
STAGES = {n: Stage((_gin(n),)) for n in ('entities', 'relations', 'lm_cloze', 'lm_questions')}


def _short_stage(run: str, steps: int, learning_rate: float, target: str, **settings) -> Stage:
    """A stage over the questions of MetaQA or MSF, of the size that all stages share."""
    schedule = bound('trainer.TrainConfig', warmup_steps=100, log_every=50)
    schedule |= {'STEPS': steps, 'LEARNING_RATE': learning_rate}
    settings = {**schedule, **bound(f'objectives.{target}', **settings)}
    return Stage((_gin('training'), f'gin/runs/{run}.gin'), settings)


def _piece(rows: int) -> tuple[tuple[int, int]]:
    """The one bucket of a batch of pieces: 122 tokens, and their markup."""
    return ((128, rows),)


# The paper's follower (section 3).
_PAPER_FOLLOWER = {'weigh_topics': False, 'exclude_topic': False}
# {stage of `metaqa.STAGES`: how the encoder that Wikipedia taught is trained}. While entities are
# learnt, it stays as it is.
QUESTION_STAGES = {
    'entities': _short_stage(
        'entities', 2000, 1e-3, 'Entities', rows=512, buckets=_piece(512), frozen_encoder=True
    ),
    'align': _short_stage('align', 4000, 3e-5, 'Align', rows=256, buckets=_piece(256)),
    'align-mentions': _short_stage(
        'align_mentions', 4000, 3e-5, 'AlignPassages', passages=128, buckets=_piece(128)
    ),
    'follow': _short_stage('follow', 6000, 3e-5, 'Follow', questions=64, k=128, **_PAPER_FOLLOWER),
}


def relations(options: Options) -> list[Step]:
    """The relation encoder that Wikipedia teaches."""
    bert, dump = options.file('bert-base-uncased'), options.file('wikipedia')
    text = {'DUMP': dump, 'WORK_DIR': Output('articles'), 'TOKENIZER': bert}
    text |= bound('prepare.prepare', title_prefix=False)
    return [
        prepare('text', 'gin/data/wikipedia.gin', **text),
        train('entities', STAGES['entities'], options, BERT=bert),
        train('relations', STAGES['relations'], options, INIT_FROM='entities'),
    ]


def pretrained(options: Options) -> list[Step]:
    """A language model, pretrained on Wikipedia: all that needs no question."""
    options = dataclasses.replace(options, system=options.system or 'opql-lm')
    memory = build_memory('memory', 'relations', gin=_gin('memory'))
    cloze = lm.LanguageModel(options, STAGES).cloze('relations', 'memory')
    return [*relations(options), memory, cloze]


def questions(
    options: Options,
    name: str,
    question_format: str,
    parts: Mapping[str, str],
    tables: Mapping[str, str],
) -> list[Step | Function]:
    """A language model finetuned on `parts['train']` and asked others, see `over_wikispeedia`."""
    converted = [
        lm.converted(f'{name}-{part}', question_format, source, **tables)
        for part, source in parts.items()
    ]
    start, read = f'{options.system}-pretrained', [Output(step.output) for step in converted]
    memories = 'memory', f'memory-injected-{name}'
    model = lm.LanguageModel(options, STAGES, f'-{name}')
    return [
        *pretrained(options),
        *converted,
        *model.finetuned_and_asked(start, 'relations', *memories, read),
    ]


def webqsp(options: Options) -> list[Step | Function]:
    """WebQuestionsSP's training questions and those of its test set, as WebQSP.zip has them."""
    parts = {part: options.file(f'webqsp/WebQSP.{part}.json') for part in ('train', 'test')}
    return questions(options, 'webqsp', 'webqsp', parts, {})


def complexwebquestions(options: Options) -> list[Step | Function]:
    """ComplexWebQuestions, asked its development set."""
    files = open_questions.complexwebquestions_files(options)
    return questions(options, 'complexwebquestions', 'complexwebq', *files)


def entities_of(name: str, options: Options, text: str) -> list[Step]:
    """The encoder of Wikipedia with the entities of another text."""
    bindings: dict[str, Any] = {'TEXT': text, 'BERT': Output('relations')}
    stage = QUESTION_STAGES['entities']
    return [*relations(options), train(f'entities-{name}', stage, options, **bindings)]


def metaqa(options: Options) -> list[Step]:
    """MetaQA (§3), by a follower of one number of hops over the Wikipedia encoder's memory."""
    hops, text, model = options.hops, 'text-metaqa', 'entities-metaqa'
    data = {'DATA_DIR': options.file('metaqa'), 'TOKENIZER': options.file('bert-base-uncased')}
    source = prepare(text, 'gin/data/metaqa.gin', **data)
    pretraining = [source, *entities_of('metaqa', options, text)]
    align = ('align-metaqa', QUESTION_STAGES['align'], {}) if options.system == 'opql' else None
    memory, follow = f'memory-{align[0] if align else model}', QUESTION_STAGES['follow']
    how: dict[str, Any] = {'following': small_metaqa.splits_of(hops), 'text': text}
    system = System(lambda _: pretraining, model, memory, follow, align, **how)
    row = f'{options.system}-metaqa'
    steps, _, memory, follower = system.trained(options, f'follow-{row}-{hops}-hop')
    results = f'results/{row}/{hops}-hop'
    return [*steps, evaluate(results, follower, memory, [f'{hops}-hop/dev'], text)]


def slot_filling(options: Options) -> list[Step]:
    """MSF (§3) over the memory of the encoder of Wikipedia."""
    text = {'TOKENIZER': options.file('bert-base-uncased')}
    pretraining = functools.partial(entities_of, 'msf')
    return msf.msf(options, msf.Start(QUESTION_STAGES, pretraining, '-msf', text))


# The paper's vocabulary and memory.
ENTITIES, ENTRIES = 1_000_000, 1_600_000
ENCODER = RelationEncoder(vocab_size=30_522, **numbers('gin/models/base.gin'))
# {gin files of a stage: its batch}; a question is taken to have 32 tokens.
_ENTITIES = cost.Batch(512, 128, 3, products=1)
BATCHES = {
    STAGES['entities'].gin: _ENTITIES,
    STAGES['relations'].gin: cost.Batch(512, 128, 2 + 16, products=16),
    STAGES['lm_cloze'].gin: cost.of_language_model(512, 144, topics=16),
    STAGES['lm_questions'].gin: cost.of_language_model(128, 32, topics=16),
    QUESTION_STAGES['entities'].gin: _ENTITIES,
    QUESTION_STAGES['align'].gin: cost.Batch(256, 128, 2),
    QUESTION_STAGES['align-mentions'].gin: cost.Batch(128, 128, 2),
    QUESTION_STAGES['follow'].gin: cost.Batch(64, 32, 2),
}
_SIZES = """# sizes: the dump some 24 GB, BERT 0.4 GB, MetaQA 0.06 GB, other question files under 0.1 GB each, a checkpoint 4.4 GB, of which three lie there at a time
# prepare: one machine, or Spark; pairs of 100 M mentions took 12 GB of main memory, 40 GB of disk beside them and 19 minutes on 2 cores
# relations, build_memory: 57 to 102 GB of main memory on each host, for all pairs of 100 M mentions (73 to 130 bytes each)
# devices: 8 or more, whose number divides 512 (and 128 for questions), with 16 GB each"""  # noqa: E501


def step_flops(gin: tuple[str, ...], has_memory: bool = True) -> float:
    """FLOPs of a training step of the stage with these gin files."""
    return BATCHES[gin].flops(ENCODER, ENTITIES, ENTRIES if has_memory else 0)


def needs(steps: Sequence[Step | Function], machines: Mapping[str, cost.Machine]) -> list[str]:
    """Lines on what the steps of a recipe take, by estimates: none was run."""
    flops = {
        step.name: step_flops(step.gin, step.bindings.get('MEMORY') is not None)
        * training_steps(step.gin, step.bindings)
        for step in steps
        if step.gin in BATCHES
    }
    if not flops:
        return ['# hours: a few minutes on any machine, as no transformer is trained']
    return [_SIZES, *cost.cost_lines(flops, machines)]


# The last has one null entry for all topics.
_SYSTEMS: Choices = {'system': (*lm.SYSTEMS, 'null-of-no-entity')}
_FOLLOWED: Choices = {'system': ('opql', 'opql-pretrained'), 'hops': (2, 3)}
RECIPES = [
    Recipe(f'paper/{name}', f'the paper at its size, for Cloud TPU: {what}', build, choices, needs)
    for name, what, build, choices in (
        ('opql-lm-pretrained', 'OPQL-LM without questions', pretrained, {}),
        ('webqsp', 'the official test questions of WebQuestionsSP', webqsp, _SYSTEMS),
        ('complexwebquestions', 'ComplexWebQuestions', complexwebquestions, _SYSTEMS),
        ('metaqa', 'MetaQA', metaqa, _FOLLOWED),
        ('msf', 'multi-hop slot filling (MSF)', slot_filling, msf.CHOICES),
    )
]
