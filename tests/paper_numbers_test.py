"""The recipes at the paper's size state its numbers, and batches that devices can share."""

import ast
import itertools
import math

import pytest

import gin
from opql_jax import gin_utils
from opql_jax.data.batching import capacities_for
from opql_jax.data.markup import MARKUP_ROOM
from opql_jax.data.prepare import prepare
from opql_jax.data.sampling import NEGATIVES, POSITIVES
from opql_jax.kb.build_memory import build_memory
from opql_jax.memory.build import AVERAGED_MENTIONS
from opql_jax.models.encoder import RelationEncoder
from opql_jax.recipes import catalog, paper
from opql_jax.recipes.step import Options, placed
from opql_jax.training import trainer

from examples import examples

# What the paper says, by its section: the step, and settings whose product it is, or about so.
PAPER = """
    2.5 entities of the vocabulary | text | reader.Wikipedia.max_entities | 1_000_000
    2.5 tokens of a piece | text | prepare.prepare.max_tokens | 128
    2.5 a piece has no title | text | prepare.prepare.title_prefix | False
    2.5 mentions that E is learnt from | entities | Entities.rows * STEPS | about 93.5e6
    2.5 rows of 30.6M anchors, each with 2 positives and 8 negatives | relations |
      Relations.rows * STEPS | about 336.6e6
    2.5 pieces that must mention a pair | relations | Relations.min_count | 5
    2.5 pairs for L_rel | relations | Relations.max_pairs | 800_000
    2.5 all other mentions of a piece, of which few have more | relations |
      Relations.max_context | 16
    2.5 L_rel | relations | Relations.sampler | 'groups'
    2.5 L_rel | relations | Relations.anchors | 'mentions'
    2.4 pairs of the memory | memory | build_memory.build_memory.max_pairs | 800_000
    2.4 pairs of the memory | memory | build_memory.build_memory.mentions | 'average'
    2.4 pairs of the memory | memory | build_memory.build_memory.pairs | 'sentence'
    4.1 texts of the language model | opql-lm-pretrained | Cloze.rows * STEPS | about 85.6e6
    4.1 no answer is barred | opql-lm-webqsp | AnswerQuestions.absent_rate | 0.0
    4.1 no passage is read | opql-lm-webqsp | AnswerQuestions.text_rows | 0
    4.1 the loss | opql-lm-webqsp | AnswerQuestions.score_gold | False
    4.1 the mixture | opql-lm-webqsp | AnswerQuestions.mixing | 'embeddings'
    4.1 topics of a question | opql-lm-webqsp | AnswerQuestions.topics | 16
""".replace('|\n', '|')
OBJECTIVES = dict.fromkeys(('entities', 'entities-metaqa'), 'Entities')
OBJECTIVES |= {'relations': 'Relations', 'align-metaqa': 'Align', 'opql-lm-pretrained': 'Cloze'}
OBJECTIVES |= {'opql-lm-webqsp': 'AnswerQuestions', 'align-mentions-msf': 'AlignPassages'}
OBJECTIVES |= {'follow-opql-metaqa-2-hop': 'Follow'}
FUNCTIONS = {'prepare': prepare, 'build_memory': build_memory, 'train': trainer.train}
# The count of a batch, where it is not of rows.
BATCHES = {'align-mentions-msf': 'passages', 'follow-opql-metaqa-2-hop': 'questions'}


@pytest.fixture
def settings_of(fresh_gin, tmp_path):
    """By the name of a step, a function that gives its settings; ValueError if it states none."""
    steps = {}
    for name, chosen in {'webqsp': {}, 'metaqa': {}, 'msf': {'system': 'drkit'}}.items():
        built = catalog.find(f'paper/{name}').steps(Options(tmp_path / 'out', tmp_path, **chosen))
        steps |= {step.name: step for step in built}

    def read(name):
        gin.clear_config()
        step = steps[name]
        bindings = [f'{key}={placed(value, "out")!r}' for key, value in step.bindings.items()]
        gin_utils.configure(step.gin, bindings, FUNCTIONS[step.binary])

        def setting(path):
            value = gin.query_parameter(path)
            macro, _, _ = getattr(value, 'scoped_selector', '').rpartition('/')
            return gin.query_parameter(f'{macro}/gin.macro.value') if macro else value

        return setting

    read.steps = steps
    return read


def test_the_files_state_the_numbers_of_the_paper(settings_of):
    for step, rows in itertools.groupby(examples(PAPER), lambda row: row[1]):
        settings = settings_of(step)
        for what, _, names, number in rows:
            long = {'STEPS': 'trainer.TrainConfig.num_steps'}
            names = [long.get(name, name) for name in names.split(' * ')]
            found = [settings(n if n.count('.') > 1 else f'objectives.{n}') for n in names]
            if number.startswith('about '):
                assert math.prod(found) == pytest.approx(float(number[6:]), rel=0.03), what
            else:
                assert found == [ast.literal_eval(number)], (what, names)
    assert (POSITIVES, NEGATIVES, AVERAGED_MENTIONS) == (2, 8, 5)  # 2.5, 2.5 and 2.4


ROOM = {'entities': 3, 'relations': MARKUP_ROOM, 'opql-lm-pretrained': 4 + 16, 'entities-metaqa': 3}
ROOM |= {'align-metaqa': MARKUP_ROOM, 'align-mentions-msf': 3}


@pytest.mark.parametrize('name, room', ROOM.items())
def test_the_buckets_hold_every_piece_and_divide_over_the_pods_of_the_page(settings_of, name, room):
    settings, objective = settings_of(name), f'objectives.{OBJECTIVES[name]}'
    piece = 128 - MARKUP_ROOM
    rows, buckets = (settings(f'{objective}.{of}') for of in (BATCHES.get(name, 'rows'), 'buckets'))
    capacities = capacities_for([piece + room], [piece + room], rows, buckets)
    assert buckets and all(count % 64 == 0 for count in capacities.values())  # and by 8 and 16


@pytest.mark.parametrize('name', OBJECTIVES)
def test_hours_are_told_of_the_batches_that_the_files_state(settings_of, name):
    settings, objective = settings_of(name), f'objectives.{OBJECTIVES[name]}'
    batch = paper.BATCHES[settings_of.steps[name].gin]
    assert batch.rows == settings(f'{objective}.{BATCHES.get(name, "rows")}')
    if name not in ('opql-lm-webqsp', 'follow-opql-metaqa-2-hop'):  # of questions
        assert settings(f'{objective}.buckets') == ((batch.tokens, batch.rows),)
    if OBJECTIVES[name] == 'Relations':
        assert batch.products == settings(f'{objective}.max_context')
    if OBJECTIVES[name] in ('Cloze', 'AnswerQuestions'):
        assert batch.searches == settings(f'{objective}.topics')
    made = gin.get_configurable(RelationEncoder)(vocab_size=30_522, dtype='float32')
    assert made == paper.ENCODER
