"""What the recipes of language models share: systems, training, questions, and memories.

Facts are injected into the latter.
"""

from opql_jax.recipes.memory_copy import copy_memory
from opql_jax.recipes.recipe import KB, Function, Options, Output, Step, evaluate, train

# OPQL-LM; EaE, the same model without a memory; and OPQL-follow, where the memory alone answers.
SYSTEMS = ('opql-lm', 'eae', 'opql-follow')
# The null entry is the same for all topics; and the paper's form of one part each: embeddings are
# mixed and added up over the topics, with the loss of one answer; up to 8 mentions beside a hidden
# one, not 2, are topics (in the paper all are); entries that state an answer are scored only where
# the search finds them.
ABLATIONS = ('null-of-no-entity', 'mixed-embeddings', 'all-topics', 'no-gold')
# Settings of the objectives in which a system differs from OPQL-LM.
_SETTINGS: dict[str, dict] = {
    'opql-follow': {'own_prediction': False},
    'null-of-no-entity': {'null_entity': False},
    'mixed-embeddings': {'mixing': 'embeddings'},
    'all-topics': {'topics': 8},
    'no-gold': {'score_gold': False},
}


def memory_of(system: str, memory: str) -> str | None:
    """The memory of a system; EaE has none."""
    return None if system == 'eae' else memory


def ablation(system: str, objective: str) -> dict:
    """The bindings that make a system of OPQL-LM."""
    return {f'{objective}.{name}': value for name, value in _SETTINGS.get(system, {}).items()}


def cloze(
    options: Options, folder: str, system: str, start: str, memory: str, suffix: str = ''
) -> Step:
    """Pretraining on text with a hidden mention; `suffix` as of `finetuned`."""
    bindings = {'INIT_FROM': start, 'MEMORY': memory_of(system, memory)} | ablation(
        system, 'objectives.Cloze'
    )
    return train(
        f'{system}-pretrained{suffix}',
        f'gin/experiments/{folder}/lm_cloze.gin',
        options,
        **bindings,
    )


def finetuned(
    options: Options,
    folder: str,
    system: str,
    start: str,
    memory: str,
    questions: Output,
    text: str = 'text',
    suffix: str = '',
    **bindings,
) -> Step:
    """Finetuning on questions; `suffix` tells the models of a system apart."""
    bindings |= {'INIT_FROM': start, 'MEMORY': memory_of(system, memory), 'TEXT': text}
    bindings |= {'QUESTIONS': questions} | ablation(system, 'objectives.AnswerQuestions')
    return train(
        f'{system}{suffix}', f'gin/experiments/{folder}/lm_questions.gin', options, **bindings
    )


def asked(
    system: str,
    name: str,
    memory: str,
    questions: list[Output],
    text: str = 'text',
    suffix: str = '',
) -> Step:
    """The answers of a system over a memory, and their metrics."""
    return evaluate(
        f'results/{system}{suffix}/{name}',
        f'{system}{suffix}',
        memory_of(system, memory),
        questions,
        text,
    )


def injected(name: str, memory: str, text: str, model: str, **bindings) -> list[Step | Function]:
    """A copy of a memory with pairs of another corpus, or of questions, added."""
    parts = {**KB, 'TEXT': text, 'MODEL': model, 'MEMORY': name}
    return [
        Function(
            f'{name}-copy', copy_memory, {'source': Output(memory), 'target': Output(name)}, name
        ),
        Step(
            name,
            'update_memory',
            ('gin/runs/update_memory.gin',),
            {'ACTION': 'inject', **parts, **bindings},
            name,
        ),
    ]


def converted(
    name: str, question_format: str, source: str | Output, text: str = 'text', **bindings
) -> Step:
    """A question file of another format as questions over a prepared text, and its coverage."""
    output = f'questions/{name}.jsonl'
    bindings |= {
        **KB,
        'TEXT': text,
        'QUESTIONS': source,
        'OUTPUT': Output(output),
        'FORMAT': question_format,
    }
    return Step(output, 'convert_questions', ('gin/runs/convert_questions.gin',), bindings, output)
