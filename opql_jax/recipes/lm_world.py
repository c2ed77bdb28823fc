"""OPQL-LM over a generated world some of whose facts no training text states.

It is asked over a memory that holds these facts, over one that lacks them, and over one that holds
others in their place, without a training step between.
"""

from opql_jax.datasets.synthetic.lm_world import write_lm_world
from opql_jax.recipes import language_model as lm
from opql_jax.recipes.recipe import Recipe
from opql_jax.recipes.step import (
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

# Many questions about one topic must do without what they ask for: these texts state nearly all of
# it, and null is to be learnt, too.
_ABSENT = bound('objectives.AnswerQuestions', absent_rate=0.4)
STAGES = {
    'entities': stage('tiny', 'entities', 500, 1e-3),
    'relations': stage('tiny', 'relations', 2000, 1e-3),
    'align': stage('tiny', 'align', 600, 1e-3),
    'lm_cloze': stage('tiny', 'lm_cloze', 2000, 1e-3),
    'lm_questions': stage('tiny', 'lm_questions', 4000, 1e-3, _ABSENT),
}


def prepared(text: str, corpus: str, **bindings) -> Step:
    """A prepared part of the generated world."""
    settings = {
        'CORPUS': Output(f'world/{corpus}/corpus.jsonl'),
        'ENTITIES': Output('world/entities.jsonl'),
        'prepare.prepare.wordpieces': 4000,
        'prepare.prepare.max_tokens': 40,
        'prepare.prepare.drop_above_rate': 1.0,
    }
    return prepare(text, 'gin/data/jsonl.gin', **settings, **bindings)


def lm_world(options: Options) -> list[Step | Function]:
    """A language model over a generated world, part of which is only in the memory."""
    model, system = lm.LanguageModel(options, STAGES), options.system
    training = Output('world/questions/train.jsonl')
    questions = lambda *names: [Output(f'world/questions/{name}.jsonl') for name in names]
    world = {'directory': Output('world'), 'seed': options.world_seed}
    world |= {'num_documents': options.documents}
    steps: list[Step | Function] = [
        Function('world', write_lm_world, world, 'world'),
        prepared('text', 'train', QUESTION_FOLDER=Output('world/linked')),
        train('entities', STAGES['entities'], options),
        train('relations', STAGES['relations'], options, INIT_FROM='entities'),
        # The questions that are trained on say what a topic's relations are: they are aligned with
        # the text, by the names in them.
        train('align', STAGES['align'], options, INIT_FROM='relations'),
        build_memory('memory', 'align'),
        model.cloze('align', 'memory'),
        model.finetuned(f'{system}-pretrained', 'memory', training),
    ]
    if system == 'eae':
        sets = questions('dev_known', 'held_out', 'changed', 'two_hop', 'conjunction')
        return [*steps, model.asked('none', 'memory', sets)]
    for corpus in ('facts', 'changed'):
        steps += [prepared(f'text-{corpus}', corpus, EXTENDS='text')]
        steps += lm.injected(f'memory-{corpus}', 'memory', f'text-{corpus}', 'align')
    of_facts = questions('dev_known', 'held_out', 'two_hop', 'conjunction')
    of_changed = questions('dev_known', 'changed')
    return [
        *steps,
        model.asked('facts', 'memory-facts', of_facts, 'text-facts'),
        model.asked('without', 'memory', questions('dev_known', 'held_out')),
        model.asked('changed', 'memory-changed', of_changed, 'text-changed'),
    ]


RECIPES = [
    Recipe(
        'lm-world',
        'a language model over a generated world, whose memory gains, loses and changes facts',
        lm_world,
        {'system': (*lm.SYSTEMS, *lm.ABLATIONS)},
    )
]
