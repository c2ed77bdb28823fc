"""The gin files of gin/experiments/paper/ state the paper's numbers, and a whole job's batch that
devices can share.
"""

import pytest

import gin
from opql_jax import gin_utils
from opql_jax.data.batching import capacities_for
from opql_jax.data.markup import MARKUP_ROOM
from opql_jax.data.prepare import prepare
from opql_jax.data.sampling import NEGATIVES, POSITIVES
from opql_jax.kb.build_memory import build_memory
from opql_jax.memory.build import AVERAGED_MENTIONS
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
KB = ["KB='kb'"]
# What each file needs besides.
BINDINGS = {
    'text': ["DUMP='dump'", "WORK_DIR='work'"],
    'entities': ["BERT='bert'"],
    'relations': ["INIT_FROM='entities'"],
    'memory': ["MODEL='relations'"],
    'lm_cloze': ["INIT_FROM='relations'"],
    'lm_questions': ["INIT_FROM='lm'", "QUESTIONS='q.jsonl'"],
    'qa_entities': ["BERT='relations'"],
}
OBJECTIVES = {
    'entities': 'Entities',
    'relations': 'Relations',
    'lm_cloze': 'Cloze',
    'lm_questions': 'AnswerQuestions',
}
OBJECTIVES |= {
    'qa_entities': 'Entities',
    'qa_align': 'Align',
    'qa_align_mentions': 'AlignPassages',
    'qa_follow': 'Follow',
}
# The count of a batch, where it is not of rows.
BATCHES = {'qa_align_mentions': 'passages', 'qa_follow': 'questions'}


@pytest.fixture
def settings_of(fresh_gin):
    """A function of a file: a function that gives its settings, 'objectives.Relations.rows' and so
    on; ValueError if it states none.
    """

    def read(name):
        gin.clear_config()
        function = {'text': prepare, 'memory': build_memory}.get(name, trainer.train)
        gin_utils.configure(
            [f'gin/experiments/paper/{name}.gin'], [*KB, *BINDINGS.get(name, [])], function
        )

        def setting(path):
            value = gin.query_parameter(path)
            macro = (
                value.scoped_selector.rpartition('/')[0]
                if hasattr(value, 'scoped_selector')
                else ''
            )
            return gin.query_parameter(f'{macro}/gin.macro.value') if macro else value

        return setting

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
    assert (
        relations('objectives.Relations.sampler') == 'groups'
        and relations('objectives.Relations.anchors') == 'mentions'
    )
    found['positives of an anchor (2.5)'] = POSITIVES
    found['hard negatives of an anchor (2.5)'] = NEGATIVES
    anchors = relations('objectives.Relations.rows') // (1 + POSITIVES + NEGATIVES)
    found['anchors of L_rel (2.5)'] = anchors * relations('trainer.TrainConfig.num_steps')
    found['pieces that must mention a pair (2.5)'] = relations('objectives.Relations.min_count')
    found['pairs for L_rel (2.5)'] = relations('objectives.Relations.max_pairs')

    memory = settings_of('memory')
    assert (
        memory('build_memory.build_memory.mentions') == 'average'
        and memory('build_memory.build_memory.pairs') == 'sentence'
    )
    found['mentions that an entry is the mean of (2.4)'] = AVERAGED_MENTIONS
    found['pairs of the memory (2.4)'] = memory('build_memory.build_memory.max_pairs')

    cloze = settings_of('lm_cloze')
    found['texts of the language model (4.1)'] = cloze('objectives.Cloze.rows') * cloze(
        'trainer.TrainConfig.num_steps'
    )

    assert found.keys() == PAPER.keys()
    for name, number in PAPER.items():
        assert found[name] == (
            pytest.approx(number, rel=0.03) if isinstance(number, float) else number
        ), name


@pytest.mark.parametrize('name', OBJECTIVES)
def test_what_the_paper_leaves_open_is_stated_for_each_stage(settings_of, name):
    """Batch, schedule and checkpoints are in the file: no default decides what a job on a pod
    trains.
    """
    settings, objective = settings_of(name), OBJECTIVES[name]
    batch = BATCHES.get(name, 'rows')
    assert settings(f'objectives.{objective}.{batch}') % 64 == 0  # so many devices share it
    config = {
        field: settings(f'trainer.TrainConfig.{field}')
        for field in (
            'num_steps',
            'learning_rate',
            'warmup_steps',
            'clip_norm',
            'log_every',
            'keep_checkpoints',
        )
    }
    assert (
        all(value is not None for value in config.values())
        and config['warmup_steps'] < config['num_steps'] / 5
    )
    assert settings('optimizer.adamw.weight_decay') is not None
    assert settings('trainer.TrainConfig.checkpoint_every') is None
    assert 10 <= settings('trainer.TrainConfig.checkpoint_minutes') <= 30


@pytest.mark.parametrize(
    ('name', 'room'),
    [
        ('entities', 3),
        ('relations', MARKUP_ROOM),
        ('lm_cloze', 4 + 16),
        ('qa_entities', 3),
        ('qa_align', MARKUP_ROOM),
        ('qa_align_mentions', 3),
    ],
)
def test_the_buckets_hold_every_piece_and_divide_over_the_pods_of_the_page(settings_of, name, room):
    settings, objective = settings_of(name), f'objectives.{OBJECTIVES[name]}'
    piece = PAPER['tokens of a piece (2.5)'] - MARKUP_ROOM
    capacities = capacities_for(
        [piece + room],
        [piece + room],
        settings(f'{objective}.{BATCHES.get(name, "rows")}'),
        settings(f'{objective}.buckets'),
    )
    assert settings(f'{objective}.buckets') and all(
        rows % devices == 0 for rows in capacities.values() for devices in (8, 16, 64)
    )


def test_finetuning_bars_no_answer_and_reads_no_passages_as_the_paper(settings_of):
    settings = settings_of('lm_questions')
    for name, value in {
        'absent_rate': 0.0,
        'text_rows': 0,
        'score_gold': False,
        'mixing': 'embeddings',
        'topics': 16,
    }.items():
        assert settings(f'objectives.AnswerQuestions.{name}') == value
