"""The paper at its size: from a dump of Wikipedia to a language model over 1.6 M entries, for a machine with accelerators."""

from opql_jax.recipes import language_model as lm
from opql_jax.recipes.open_questions import split_fifths
from opql_jax.recipes.recipe import Function, Options, Output, Recipe, Step, build_memory, prepare, train

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
    """OPQL-LM, asked the fifth of WebQuestionsSP's training questions that it was not finetuned on."""
    source = {'source': options.file('openqa/webqsp_train.jsonl'), 'folder': Output('parts'), 'seed': options.seed}
    questions = {part: Output(f'questions/{part}.jsonl') for part in ('train', 'dev')}
    return [
        *pretrained(options),
        Function('parts', split_fifths, source, 'parts'),
        *(lm.converted(part, 'webqsp_lines', Output(f'parts/{part}.jsonl')) for part in questions),
        lm.finetuned(options, 'paper', 'opql-lm', 'opql-lm-pretrained', 'memory', questions['train']),
        lm.asked('opql-lm', 'memory', 'memory', [questions['dev']]),
    ]


RECIPES = [
    Recipe(
        'paper/opql-lm-pretrained',
        'the paper at its size without questions, for Cloud TPU',
        pretrained,
    ),
    Recipe('paper/opql-lm', 'the paper at its size, for Cloud TPU: weeks on anything smaller', opql_lm),
]
