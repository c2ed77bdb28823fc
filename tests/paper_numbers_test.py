"""The recipes at the paper's size state its numbers, and batches that devices can share."""

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
from opql_jax.recipes.options import Options
from opql_jax.recipes.step import placed
from opql_jax.training import trainer

# What the paper says, by its section.
PAPER = {
    'entities of the vocabulary (2.5)': 1_000_000,
    'tokens of a piece (2.5)': 128,
    'pieces that must mention a pair (2.5)': 5,
    'pairs for L_rel (2.5)': 800_000,
    'positives of an anchor (2.5)': 2,
    'hard negatives of an anchor (2.5)': 8,
    'anchors of L_rel (2.5)': 30.6e6,
    'mentions that E is learnt from (2.5)': 93.5e6,
    'mentions that an entry is the mean of (2.4)': 5,
    'pairs of the memory (2.4)': 800_000,
    'texts of the language model (4.1)': 85.6e6,
}
OBJECTIVES = {
    'entities': 'Entities',
    'relations': 'Relations',
    'opql-lm-pretrained': 'Cloze',
    'opql-lm-webqsp': 'AnswerQuestions',
    'entities-metaqa': 'Entities',
    'align-metaqa': 'Align',
    'align-mentions-msf': 'AlignPassages',
    'follow-opql-metaqa-2-hop': 'Follow',
}
FUNCTIONS = {'prepare': prepare, 'build_memory': build_memory, 'train': trainer.train}
# The count of a batch, where it is not of rows.
BATCHES = {'align-mentions-msf': 'passages', 'follow-opql-metaqa-2-hop': 'questions'}


@pytest.fixture
def settings_of(fresh_gin, tmp_path):
    """By the name of a step, a function that gives its settings; ValueError if it states none."""
    steps = {}
    for name, chosen in {'webqsp': {}, 'metaqa': {}, 'msf': {'system': 'drkit'}}.items():
        options = Options(tmp_path / 'out', tmp_path, **chosen)
        built = catalog.find(f'paper/{name}').steps(options)
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
    text = settings_of('text')
    found = {
        'entities of the vocabulary (2.5)': text('reader.Wikipedia.max_entities'),
        'tokens of a piece (2.5)': text('prepare.prepare.max_tokens'),
    }
    assert not text('prepare.prepare.title_prefix')

    entities = settings_of('entities')
    found['mentions that E is learnt from (2.5)'] = entities('objectives.Entities.rows') * entities(
        'trainer.TrainConfig.num_steps'
    )

    relations = settings_of('relations')
    # The paper has all other mentions of a piece, of which few have more.
    assert relations('objectives.Relations.max_context') == 16
    assert relations('objectives.Relations.sampler') == 'groups'
    assert relations('objectives.Relations.anchors') == 'mentions'
    found['positives of an anchor (2.5)'] = POSITIVES
    found['hard negatives of an anchor (2.5)'] = NEGATIVES
    anchors = relations('objectives.Relations.rows') // (1 + POSITIVES + NEGATIVES)
    found['anchors of L_rel (2.5)'] = anchors * relations('trainer.TrainConfig.num_steps')
    found['pieces that must mention a pair (2.5)'] = relations('objectives.Relations.min_count')
    found['pairs for L_rel (2.5)'] = relations('objectives.Relations.max_pairs')

    memory = settings_of('memory')
    assert memory('build_memory.build_memory.mentions') == 'average'
    assert memory('build_memory.build_memory.pairs') == 'sentence'
    found['mentions that an entry is the mean of (2.4)'] = AVERAGED_MENTIONS
    found['pairs of the memory (2.4)'] = memory('build_memory.build_memory.max_pairs')

    cloze = settings_of('opql-lm-pretrained')
    found['texts of the language model (4.1)'] = cloze('objectives.Cloze.rows') * cloze(
        'trainer.TrainConfig.num_steps'
    )

    assert found.keys() == PAPER.keys()
    for name, number in PAPER.items():
        about = pytest.approx(number, rel=0.03) if isinstance(number, float) else number
        assert found[name] == about, name


@pytest.mark.parametrize('name', OBJECTIVES)
def test_what_the_paper_leaves_open_is_stated_for_each_stage(settings_of, name):
    """The file states batch, schedule and checkpoints: no default decides what a pod trains."""
    settings, objective = settings_of(name), OBJECTIVES[name]
    batch = BATCHES.get(name, 'rows')
    assert settings(f'objectives.{objective}.{batch}') % 64 == 0  # so many devices share it
    config = lambda field: settings(f'trainer.TrainConfig.{field}')
    for field in ('learning_rate', 'clip_norm', 'log_every', 'keep_checkpoints'):
        assert config(field) is not None
    assert config('warmup_steps') < config('num_steps') / 5
    assert settings('optimizer.adamw.weight_decay') is not None
    assert config('checkpoint_every') is None
    assert 10 <= config('checkpoint_minutes') <= 30


@pytest.mark.parametrize(
    ('name', 'room'),
    [
        ('entities', 3),
        ('relations', MARKUP_ROOM),
        ('opql-lm-pretrained', 4 + 16),
        ('entities-metaqa', 3),
        ('align-metaqa', MARKUP_ROOM),
        ('align-mentions-msf', 3),
    ],
)
def test_the_buckets_hold_every_piece_and_divide_over_the_pods_of_the_page(settings_of, name, room):
    settings, objective = settings_of(name), f'objectives.{OBJECTIVES[name]}'
    piece = PAPER['tokens of a piece (2.5)'] - MARKUP_ROOM
    rows, buckets = (settings(f'{objective}.{of}') for of in (BATCHES.get(name, 'rows'), 'buckets'))
    capacities = capacities_for([piece + room], [piece + room], rows, buckets)
    assert buckets and all(count % 64 == 0 for count in capacities.values())  # and by 8 and 16


def test_finetuning_bars_no_answer_and_reads_no_passages_as_the_paper(settings_of):
    settings = settings_of('opql-lm-webqsp')
    paper = {'absent_rate': 0.0, 'text_rows': 0, 'score_gold': False}
    for name, value in {**paper, 'mixing': 'embeddings', 'topics': 16}.items():
        assert settings(f'objectives.AnswerQuestions.{name}') == value


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
    assert gin.get_configurable(RelationEncoder)(vocab_size=30_522, dtype='float32') == (
        paper.ENCODER
    )
