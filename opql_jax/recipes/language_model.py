"""What the recipes of language models share: their systems, training, questions, and memories that facts are injected into."""

from opql_jax.recipes.memory_copy import copy_memory
from opql_jax.recipes.recipe import KB, Function, Options, Step, evaluate, train

SYSTEMS = {
    'opql-lm': 'OPQL-LM',
    'eae': 'EaE: the same model without a memory',
    'opql-follow': 'ablation: the memory alone answers',
    'null-of-no-entity': 'ablation: the null entry is the same for all topics',
}
# Ablations that put back the paper's form of one part.
PAPER_FORMS = {
    'mixed-embeddings': 'ablation: embeddings are mixed and added up over the topics, with the loss of one answer, as in the paper',
    'all-topics': 'ablation: up to 8 mentions beside a hidden one, not 2, are topics (in the paper all are)',
    'no-gold': 'ablation: entries that state an answer are scored only where the search finds them, as in the paper',
}
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


def cloze(options: Options, folder: str, system: str, start: str, memory: str, suffix: str = '', variant: str = '') -> Step:
    """Pretraining on text with a hidden mention; `suffix` and `variant` as of `finetuned`."""
    bindings = {'INIT_FROM': start, 'MEMORY': memory_of(system, memory)} | ablation(system, 'objectives.Cloze')
    return train(f'{system}-pretrained{suffix}', f'gin/experiments/{folder}/lm_cloze{variant}.gin', options, **bindings)


def finetuned(
    options: Options,
    folder: str,
    system: str,
    start: str,
    memory: str,
    questions: str,
    text: str = 'text',
    suffix: str = '',
    variant: str = '',
    **bindings,
) -> Step:
    """Finetuning on questions; `suffix` tells the models of a system apart, the name of the gin file ends in `variant`, such as '_released'."""
    bindings |= {'INIT_FROM': start, 'MEMORY': memory_of(system, memory), 'TEXT': text}
    bindings |= {'QUESTIONS': questions} | ablation(system, 'objectives.AnswerQuestions')
    return train(f'{system}{suffix}', f'gin/experiments/{folder}/lm_questions{variant}.gin', options, **bindings)


def asked(system: str, name: str, memory: str, questions: list[str], text: str = 'text', suffix: str = '') -> Step:
    """The answers of a system over a memory, and their metrics."""
    return evaluate(f'results/{system}{suffix}/{name}', f'{system}{suffix}', memory_of(system, memory), questions, text)


def injected(name: str, memory: str, text: str, model: str, **bindings) -> list[Step | Function]:
    """A copy of a memory with pairs of another corpus, or of questions, added."""
    parts = {**KB, 'TEXT': text, 'MODEL': model, 'MEMORY': name}
    return [
        Function(f'{name}-copy', copy_memory, {'source': f'{{out}}/{memory}', 'target': f'{{out}}/{name}'}, name),
        Step(name, 'update_memory', ('gin/runs/update_memory.gin',), {'ACTION': 'inject', **parts, **bindings}, name),
    ]


def converted(name: str, question_format: str, source: str, text: str = 'text', **bindings) -> Step:
    """A question file of another format as questions over a prepared text, with what its vocabulary covers beside it."""
    output = f'questions/{name}.jsonl'
    bindings |= {**KB, 'TEXT': text, 'QUESTIONS': source, 'OUTPUT': f'{{out}}/{output}', 'FORMAT': question_format}
    return Step(output, 'convert_questions', ('gin/runs/convert_questions.gin',), bindings, output)
