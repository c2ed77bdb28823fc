"""The paper at its size: from a dump of Wikipedia to a language model over 1.6 M entries, for a machine with accelerators."""

from opql_jax.recipes import language_model as lm
from opql_jax.recipes.recipe import Function, Options, Output, Recipe, Step, build_memory, macro, prepare, train

gin = 'gin/experiments/paper/{}.gin'.format


def pretrained(options: Options) -> list[Step | Function]:
    """OPQL-LM, pretrained on Wikipedia: of the language model, all that needs no question.

    The dump (`wikipedia/`) and a BERT-base of Hugging Face (`bert-base-uncased/`) are the user's own.
    """
    bert = options.file('bert-base-uncased')
    return [
        prepare('text', gin('text'), DUMP=options.file('wikipedia'), WORK_DIR=Output('articles'), TOKENIZER=bert),
        train('entities', gin('entities'), options, BERT=bert),
        train('relations', gin('relations'), options, INIT_FROM='entities'),
        build_memory('memory', 'relations', gin=gin('memory')),
        lm.cloze(options, 'paper', 'opql-lm', 'relations', 'memory'),
    ]


def opql_lm(options: Options) -> list[Step | Function]:
    """OPQL-LM, finetuned on WebQuestionsSP's training questions and asked those of its test set, as WebQSP.zip has them."""
    sources = {part: options.file(f'webqsp/WebQSP.{part}.json') for part in ('train', 'test')}
    questions = {part: Output(f'questions/{part}.jsonl') for part in sources}
    return [
        *pretrained(options),
        *(lm.converted(part, 'webqsp', source) for part, source in sources.items()),
        lm.finetuned(options, 'paper', 'opql-lm', 'opql-lm-pretrained', 'memory', questions['train']),
        lm.asked('opql-lm', 'memory', 'memory', [questions['test']]),
    ]


# Estimated milliseconds of a step, and chips, by the compiler (docs/how-to/paper_on_tpu.md).
ESTIMATES = {
    '8 chips of v5e': (8, {'entities': 39, 'relations': 40, 'lm_cloze': 171}),
    '64 chips of v4': (64, {'entities': 11, 'relations': 11, 'lm_cloze': 18}),
}
# Dollars of a chip for an hour that are assumed.
_PRICES = {'8 chips of v5e': 1.20, '64 chips of v4': 3.22}
_SIZES = """# sizes: the dump some 24 GB, BERT 0.4 GB, a checkpoint 4.4 GB, of which three lie there at a time
# prepare: one machine, or Spark; pairs of 100 M mentions took 12 GB of main memory, 40 GB of disk beside them and 19 minutes on 2 cores
# relations, build_memory: 57 to 102 GB of main memory on each host, for all pairs of 100 M mentions (73 to 130 bytes each)
# devices: 8 or more, whose number divides 512 (and 128 for questions), with 16 GB each"""


def needs() -> str:
    """What the stages take, by estimates: none was run."""
    lines = [_SIZES]
    for devices, (chips, milliseconds) in ESTIMATES.items():
        hours = {stage: macro(gin(stage), 'STEPS') * ms / 3.6e6 for stage, ms in milliseconds.items()}
        stages = ', '.join(f'{stage} {time:.1f}' for stage, time in hours.items())
        cost = sum(hours.values()) * chips * _PRICES[devices]
        lines.append(f'# hours on {devices}, estimated: {stages}; {cost:,.0f} dollars at {_PRICES[devices]:.2f} a chip-hour')
    return '\n'.join(lines)


RECIPES = [
    Recipe(
        'paper/opql-lm-pretrained',
        'the paper at its size without questions, for Cloud TPU',
        pretrained,
        needs=needs,
    ),
    Recipe('paper/opql-lm', 'the paper at its size, for Cloud TPU: weeks on anything smaller', opql_lm, needs=needs),
]
