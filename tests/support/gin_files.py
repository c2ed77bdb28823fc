"""What every file under gin/ is run with in binaries_test."""

# What each file under gin/ is run with: binary, flags ({kb} is a knowledge base), and what
# --dry_run must print.
INTO = '--gin.KB={kb} --gin.MODEL=new'
TEXT = '--gin.KB={kb} --gin.TEXT=new'
# Settings that no gin file names.
DEFAULTS = [
    'TrainConfig.clip_norm = 1.0',
    'TrainConfig.checkpoint_every = 500',
    'RelationEncoder.dropout_rate = 0.1',
]


def size(hidden, layers, relation, entity):
    """How a model file of that size is run, and the shapes that follow from it."""
    shapes = (
        f'encoder/layers_{layers - 1}/mlp_in/kernel  ({hidden}, {4 * hidden})',
        f'encoder/w_r/kernel  ({2 * hidden}, {relation})',
        f'entity_table  (64, {entity})',
    )
    return 'train', f'--gin_file=gin/runs/entities.gin {INTO}', shapes


GIN = {
    'data/synthetic': ('prepare', f'{TEXT} --gin.DOCUMENTS=7',
        ['Synthetic(seed=0, num_documents=7']),
    'data/jsonl': ('prepare', f'{TEXT} --gin.CORPUS=my.jsonl',
        ["JsonLines(path='my.jsonl', entities=None", 'prepare.pair_mode = ']),
    'data/text': ('prepare', f"{TEXT} --gin.SOURCES=('articles',)",
        ["PlainText(sources=('articles',)", "prepare.pair_mode = 'all'"]),
    'data/metaqa': ('prepare', f'{TEXT} --gin.DATA_DIR=films', ["MetaQA(folder='films')"]),
    'data/metaqa_with_kb': ('prepare', f'{TEXT} --gin.DATA_DIR=films --gin.TRIPLES=facts',
        ["WithTriples(text=MetaQA(folder='films'), path='facts')"]),
    'data/metaqa_kb': (
        'prepare',
        f'{TEXT} --gin.DATA_DIR=films --gin.TRIPLES=facts --gin.SHARE=0.5',
        [
            "Triples(text=MetaQA(folder='films'), path='facts', about_text=True, "
            'beside_text=False, share=0.5)'
        ],
    ),
    'data/wikispeedia': ('prepare', f'{TEXT} --gin.DATA_DIR=wiki', ["Wikispeedia(folder='wiki')"]),
    'data/wikipedia': (
        'prepare',
        f'{TEXT} --gin.DUMP=dump --gin.WORK_DIR=work',
        [
            (
                "Wikipedia(path='dump', work_folder='work', processes=None, min_links=1, "
                'max_entities=1000000'
            )
        ],
    ),
    'data/slot_filling': ('prepare', f'{TEXT} --gin.DOCUMENTS=d --gin.REL_INFO=r', ["part='all'"]),
    'data/msf': ('prepare', f'{TEXT} --gin.DATA_DIR=msf --gin.PART=test',
        ["Msf(folder='msf', part='test', hops=(1, 2, 3))"]),
    'models/tiny': size(128, 2, 256, 64),
    'models/small': size(256, 4, 256, 64),
    'models/minilm': size(384, 6, 768, 128),
    'models/released': size(384, 6, 256, 128),
    'models/base': size(768, 12, 512, 256),
    'models/roberta_base': size(768, 12, 512, 256),
    'models/mpnet_base': size(768, 12, 512, 256),
    'models/modern_bert_base': (
        'train',
        f'--gin_file=gin/runs/entities.gin {INTO}',
        [
            'encoder/layers_21/mlp_in/kernel  (768, 2304)',
            'encoder/w_r/kernel  (1536, 512)',
            'entity_table  (64, 256)',
        ],
    ),
    'optimizers/adafactor': (
        'train',
        (
            '--gin_file=gin/models/tiny.gin --gin_file=gin/runs/entities.gin '
            f'--gin_file=gin/optimizers/adafactor.gin {INTO}'
        ),
        ['adafactor.multiply_by_parameter_scale = False', 'OPTIMIZER = @'],
    ),
    'models/bag_of_words': ('train', f'--gin_file=gin/runs/entities.gin {INTO}',
        ['encoder/w_r/kernel  (256, 256)', 'entity_table  (64, 64)', 'BagOfWords.window = 24']),
    'runs/entities': ('train', INTO, ['mentions/0/position  (', 'Entities.rows = 256', *DEFAULTS]),
    'runs/relations': ('train', f'{INTO} --gin.INIT_FROM=entities',
        ['pairs/0/anchor  (', 'Relations.entity_weight = 1.0', *DEFAULTS]),
    'runs/relations_minilm': ('train', f'{INTO} --gin.BERT=None',
        ['pairs/0/anchor  (', 'Relations.frozen_layers = 3', 'TrainConfig.warmup_steps = 10']),
    'runs/align': ('train', INTO,
        ['questions/tokens  (128, ', 'Align.questions_per_topic = 4', *DEFAULTS]),
    'runs/align_passages': ('train', INTO,
        ['questions/tokens  (320, ', 'AlignPassages.passages = 128', *DEFAULTS]),
    'runs/align_mentions': ('train', f'{INTO} --gin.objectives.AlignPassages.split=1-hop/train',
        ['questions/tokens  (320, ', "AlignPassages.pair_encoding = 'mention'", *DEFAULTS]),
    'runs/follow': ('train', INTO,
        ['follower/w_t  (3, 8, 8)', '# frozen: ', 'Follow.exclude_topic = True', *DEFAULTS]),
    'runs/text_relations': (
        'train',
        f'{INTO} --gin.objectives.TextRelations.sentence_weight=0 --gin.RELATIONS_PER_BATCH=0 '
        '--gin.PAIRS_PER_BATCH=2 --gin.BERT=None --gin.objectives.TextRelations.unrelated=0',
        [
            'question_tokens  (4, 32)',
            'first  (8, 2)',
            'TextRelations.rows_per_label = 4',
            'TrainConfig.warmup_steps = 40',
        ],
    ),
    'runs/reading': (
        'train',
        f'{INTO} --gin.EXAMPLES={{kb}}/examples.jsonl --gin.BERT=None',
        [
            'inputs/0/tokens  (16, 96)',
            'reader/kernel  (',
            'Reading.rows = ',
            'TrainConfig.warmup_steps = 40',
        ],
    ),
    'runs/release': ('release',
        '--gin.KB={kb} --gin.MODEL=text_relations --gin.OUTPUT={kb}/new --gin.CARD={kb}/card.md',
        ['# RelationEncoder(', 'release.step = None']),
    'runs/lm_cloze': ('train', f'{INTO} --gin.INIT_FROM=align --gin.ENTITY_LAYER=0',
        ['texts/0/texts/gold  (', 'lm/r_null  (8,)', 'Cloze.topics = 2', *DEFAULTS]),
    'runs/lm_names': (
        'train',
        (
            f'{INTO} --gin.INIT_FROM=align --gin.MEMORY=None --gin.QUESTIONS={{kb}}/open.jsonl '
            '--gin.ENTITY_LAYER=0'
        ),
        ['texts/0/texts/used  (', 'lm/w_v  (8, 8)', 'LinkNames.k = 32', *DEFAULTS],
    ),
    'runs/lm_questions': (
        'train',
        (
            f'{INTO} --gin.INIT_FROM=align --gin.MEMORY=None --gin.QUESTIONS={{kb}}/open.jsonl '
            '--gin.ENTITY_LAYER=0'
        ),
        ['questions/0/texts/used  (', 'lm/w_v  (8, 8)', 'AnswerQuestions.k = 32', *DEFAULTS],
    ),
    'runs/convert_questions': ('convert_questions',
        '--gin.KB={kb} --gin.FORMAT=metaqa --gin.QUESTIONS={kb}/mine.txt --gin.OUTPUT={kb}/new',
        ['(metaqa) over 64 entities', 'HOPS = 1']),
    'runs/build_memory': ('build_memory', '--gin.KB={kb} --gin.MEMORY=new',
        [' title pair rows of 64 entities, d_r 8, float32', 'build_memory.shard_rows = 16384']),
    'runs/update_memory': ('update_memory', '--gin.KB={kb} --gin.ACTION=inject',
        ['# 0 pair rows to add, 0 new passages, 0 new entities', 'update_memory.step = None']),
    'runs/eval': ('eval', "--gin.KB={kb} --gin.OUTPUT_DIR={kb}/new --gin.QUESTIONS=('2-hop/dev',)",
        ['# 2-hop/dev: ', 'evaluate.k = None']),
    'runs/infer': ('infer', '--gin.KB={kb} --gin.QUESTIONS={kb}/asked.jsonl --gin.OUTPUT={kb}/new',
        [': 7 questions over ', 'infer.evidence = 3']),
    'runs/fewshot': (
        'fewshot',
        (
            '--gin.SENTENCES={kb}/labelled.jsonl --gin.MODEL_DIR={kb}/relations '
            '--gin.OUTPUT_DIR={kb}/new --gin.WAYS=2'
        ),
        ["'relations': 2, 'sentences': 4", 'SHOTS = 1'],
    ),
}  # fmt: skip
