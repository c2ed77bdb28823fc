"""Language models on questions over real text: mentions are given, not their entities."""

import functools
import pathlib
import types
from collections.abc import Mapping, Sequence
from typing import Any

from opql_jax.core import files
from opql_jax.core.checkout import RELEASED_ENCODER
from opql_jax.recipes import language_model as lm
from opql_jax.recipes import metaqa
from opql_jax.recipes.recipe import Recipe
from opql_jax.recipes.step import (
    Choices,
    Function,
    Options,
    Output,
    Step,
    bound,
    build_memory,
    prepare,
    stage,
    train,
)

_NO_DROPOUT = bound('encoder.RelationEncoder', dropout_rate=0.0)
_LINKED = bound('objectives.LinkNames', topic_scale=30.0)
_ASKED = functools.partial(bound, 'objectives.AnswerQuestions')
METAQA_STAGES = {
    # What of W_q meets E begins anew: the search is over the whole memory.
    'lm_names': stage('tiny', 'lm_names', 4000, 1e-3, _NO_DROPOUT, _LINKED),
    # At 1e-3 names and relations, which are learnt before, are lost within 150 steps. Names stay
    # beside the questions, as most entities are in few questions or none. No passages: most of
    # their pairs are in no other one, which would make null right for whatever a first hop asks.
    'lm_questions': stage(
        'tiny',
        'lm_questions',
        3000,
        1e-4,
        _NO_DROPOUT,
        _ASKED(name_rows=128, text_rows=0, filter=True, exclude_topic=True),
    ),
}
# Over Wikispeedia, from the released encoder, which knows English: a few hundred questions teach
# none. How many steps each stage of this size takes was not tuned.
_LAYER = {'ENTITY_LAYER': 2}  # of 6, as the paper's 4 of 12
STAGES = {
    'align': stage('released', 'align_passages', 200, 2e-4, _NO_DROPOUT),
    'lm_names': stage(
        'released',
        'lm_names',
        200,
        2e-4,
        {**_LAYER, **_NO_DROPOUT, **_LINKED},
        {'objectives.LinkNames.rows': 128, 'trainer.TrainConfig.warmup_steps': 10},
    ),
    'lm_cloze': stage('released', 'lm_cloze', 400, 2e-4, _LAYER),
    # A quarter of the default number of passages, in which most of the time of a step goes.
    'lm_questions': stage(
        'released', 'lm_questions', 400, 1e-4, _LAYER, _ASKED(name_rows=64, text_rows=16)
    ),
}
# An entry for each pair that two passages mention, as in the paper: a fifth of an entry for each
# mention. A pair is barred in the passages it was read in, so that 35 % of the topics of clozes
# have an entry of their pair, not 73 %.
MEMORY = {'MIN_COUNT': 2, **bound('build_memory.build_memory', mentions='average')}


def metaqa_questions(options: Options) -> list[Step | Function]:
    """MetaQA's questions from the model and memory of metaqa/opql, or for FaE of metaqa/fae-kb."""
    hops, kb = options.hops, '-fae-kb' if options.system == 'fae' else ''
    model = lm.LanguageModel(options, METAQA_STAGES, f'-{hops}-hop')
    row, text, memory = 'fae-kb' if kb else 'opql', f'text{kb}', f'memory{kb}'
    convert = lambda name, file: lm.converted(f'{name}{kb}', 'metaqa', file, text, HOPS=hops)
    converted = [
        convert(f'{hops}-hop-{part}', options.file(f'metaqa/{hops}-hop/{part}.txt'))
        for part in ('train', 'dev')
    ]
    trained, asked = (Output(step.output) for step in converted)
    start = {'TEXT': text, 'INIT_FROM': f'follow-{row}', 'MEMORY': memory, 'QUESTIONS': trained}
    # As many as a hop of metaqa/opql finds, in place of 32.
    bindings = {} if hops == 2 else _ASKED(k=128)
    names = f'names{kb}-{hops}-hop'
    return [
        *(metaqa.FAE_KB if kb else metaqa.OPQL).trained(options, f'follow-{row}').steps,
        *converted,
        train(names, METAQA_STAGES['lm_names'], options, **start),
        model.finetuned(names, memory, trained, text, **bindings),
        model.asked('all', memory, [asked], text),
    ]


def split_fifths(source: str, folder: str, seed: int) -> None:
    """Writes each fifth line from number `seed` to dev.jsonl of a folder, others to train.jsonl."""
    lines = pathlib.Path(source).read_bytes().splitlines(keepends=True)
    train = [line for i, line in enumerate(lines, 1) if (i - seed) % 5]
    for name, kept in (('train', train), ('dev', lines[(seed - 1) % 5 :: 5])):
        files.remove_partials(folder, f'{name}.jsonl')
        files.write_bytes(f'{folder}/{name}.jsonl', b''.join(kept))


def webqsp(options: Options, max_pairs: int | None = None) -> list[Step | Function]:
    """WebQuestionsSP over Wikispeedia: four fifths of its training questions, asked the rest."""
    source = options.file('openqa/webqsp_train.jsonl')
    arguments = {'source': source, 'folder': Output('parts'), 'seed': options.seed}
    parts = {part: Output(f'parts/{part}.jsonl') for part in ('train', 'dev')}
    split = Function('parts', split_fifths, arguments, 'parts')
    return over_wikispeedia(options, 'webqsp_lines', parts, [split], max_pairs)


def webqsp_official(options: Options) -> list[Step | Function]:
    """WebQuestionsSP's official split over Wikispeedia, from the user's files in webqsp/."""
    train, test = (options.file(f'webqsp/WebQSP.{part}.json') for part in ('train', 'test'))
    return over_wikispeedia(options, 'webqsp', {'train': train, 'dev': test})


def complexwebquestions(options: Options) -> list[Step | Function]:
    """ComplexWebQuestions over Wikispeedia, from the user's files in complexwebquestions/."""
    parts, tables = complexwebquestions_files(options)
    return over_wikispeedia(options, 'complexwebq', parts, tables=tables)


def complexwebquestions_files(options: Options) -> tuple[dict[str, str], dict[str, str]]:
    """{part: questions}, and {macro: file} of what names their topics, ids of Freebase."""
    file = lambda name: options.file(f'complexwebquestions/{name}')
    parts = {part: file(f'ComplexWebQuestions_{part}.json') for part in ('train', 'dev')}
    names = {'MID_TO_QID': 'mid_to_qid.tsv', 'QID_LABELS': 'qid_labels.json'}
    return parts, {macro: file(name) for macro, name in names.items()}


def over_wikispeedia(
    options: Options,
    question_format: str,
    parts: Mapping[str, str | Output],
    steps: Sequence[Function] = (),
    max_pairs: int | None = None,
    tables: Mapping[str, str] = types.MappingProxyType({}),
) -> list[Step | Function]:
    """A language model over Wikispeedia, pretrained, finetuned and evaluated.

    It begins with the encoder that comes with the package. `parts` are {'train' and 'dev': file of
    questions}, of a format of `data.question_conversion`, which `steps` make, and `tables` {macro:
    file} of what names their topics. The memory has `max_pairs` before the injection; all if None.
    """
    converted = [lm.converted(part, question_format, of, **tables) for part, of in parts.items()]
    questions = [Output(step.output) for step in converted]
    suffix = '-best' if max_pairs else ''
    memory, names = f'memory{suffix}', f'names{suffix}'
    model, start = lm.LanguageModel(options, STAGES, suffix), f'{options.system}-pretrained{suffix}'
    linked = {'INIT_FROM': 'align', 'MEMORY': memory, 'QUESTIONS': questions[0]}
    split = bound('objectives.AlignPassages', split=questions[0])
    limit: dict[str, Any] = {'MAX_PAIRS': max_pairs} if max_pairs else {}
    encoder = str(RELEASED_ENCODER)  # by its path, so that its files are part of the record
    text = {'DATA_DIR': options.file('wikispeedia'), 'TOKENIZER': encoder}
    memories = memory, f'{memory}-injected'
    return [
        prepare('text', 'gin/data/wikispeedia.gin', **text),
        *steps,
        *converted,
        train('entities', metaqa.STAGES['entities-released'], options, BERT=encoder),
        train('align', STAGES['align'], options, INIT_FROM='entities', **split),
        build_memory(memory, 'align', **MEMORY, **limit),
        # Names first, as over MetaQA; passages, which mention each of these entities often, keep
        # them.
        train(names, STAGES['lm_names'], options, **linked),
        model.cloze(names, memory),
        *model.finetuned_and_asked(start, 'align', *memories, questions),
    ]


# Half of the pairs that two passages mention, each an entry in both directions (80,292), so that
# the memory lacks answers which the text has, as the paper's (section 4) does.
BEST_PAIRS = 20_000

_ALL: Choices = {'system': lm.SYSTEMS}
_OWN_FILES = 'over Wikispeedia; needs your own files'
_OVER = 'a language model over Wikispeedia'
_OF_METAQA = 'a language model on questions of MetaQA whose topics are not linked'
_INJECTED = f'{_OVER}, before and after pairs of the topics are injected'
_HOPS = {'system': (*lm.SYSTEMS, 'fae'), 'hops': (2, 3)}
_best = functools.partial(webqsp, max_pairs=BEST_PAIRS)
RECIPES = [
    # With --out of the row metaqa/opql it shares its steps. FaE has a memory of the knowledge
    # base's triples.
    Recipe('metaqa-lm', _OF_METAQA, metaqa_questions, _HOPS),
    Recipe('webqsp', f'{_OVER}, on a part of the training questions of WebQSP', webqsp, _ALL),
    # With --out of webqsp it shares its text, encoder and questions.
    Recipe('webqsp-injection', _INJECTED, _best, {'system': ('opql-lm', 'opql-follow')}),
    Recipe('webqsp-official', f'the official split of WebQSP {_OWN_FILES}', webqsp_official, _ALL),
    Recipe('complexwebquestions', f'ComplexWebQuestions {_OWN_FILES}', complexwebquestions, _ALL),
]
