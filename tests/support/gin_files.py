"""What every file under gin/ is run with in binaries_test, and what `--dry_run` must print."""

import re

# Settings that no gin file names.
DEFAULTS = (
    'TrainConfig.clip_norm = 1.0',
    'TrainConfig.checkpoint_every = 500',
    'RelationEncoder.dropout_rate = 0.1',
)


def read(table: str) -> dict[str, tuple[str, list[str], list[str]]]:
    """Of lines `file: binary flags` and `= printed | ...`; a flag may be another gin file."""
    found = {}
    for name, binary, flags, shown in re.findall(
        r'^(\S+): (\w+)(.*?)((?:\n  = .*)+)', table.replace('\n    ', ' '), re.M
    ):
        made = {'prepare': ['TEXT=new'], 'train': ['MODEL=new']}.get(binary, [])
        words = ['KB={kb}', *made, *flags.split()]
        if binary == 'fewshot':
            words.remove('KB={kb}')
        flags = [f'--gin.{word}' if '=' in word else f'--gin_file=gin/{word}.gin' for word in words]
        printed = re.split(r'\n  = | \| ', shown)[1:]
        defaults = DEFAULTS if printed[-1] == 'DEFAULTS' else ()
        found[name] = binary, flags, [text for text in printed if text != 'DEFAULTS'] + [*defaults]
    return found


GIN = read("""
data/synthetic: prepare DOCUMENTS=7
  = Synthetic(seed=0, num_documents=7
data/jsonl: prepare CORPUS=my.jsonl
  = JsonLines(path='my.jsonl', entities=None | prepare.pair_mode =
data/text: prepare SOURCES=('articles',)
  = PlainText(sources=('articles',) | prepare.pair_mode = 'all'
data/metaqa: prepare DATA_DIR=films
  = MetaQA(folder='films')
data/metaqa_with_kb: prepare DATA_DIR=films TRIPLES=facts
  = WithTriples(text=MetaQA(folder='films'), path='facts')
data/metaqa_kb: prepare DATA_DIR=films TRIPLES=facts SHARE=0.5
  = Triples(text=MetaQA(folder='films'), path='facts', about_text=True
  = beside_text=False, share=0.5)
data/wikispeedia: prepare DATA_DIR=wiki
  = Wikispeedia(folder='wiki')
data/wikipedia: prepare DUMP=dump WORK_DIR=work
  = Wikipedia(path='dump', work_folder='work', processes=None, min_links=1, max_entities=1000000
data/slot_filling: prepare DOCUMENTS=d REL_INFO=r
  = part='all'
data/msf: prepare DATA_DIR=msf PART=test
  = Msf(folder='msf', part='test', hops=(1, 2, 3))
models/tiny: train runs/entities
  = layers_1/mlp_in/kernel  (128, 512) | encoder/w_r/kernel  (256, 256) | entity_table  (64, 64)
models/small: train runs/entities
  = layers_3/mlp_in/kernel  (256, 1024) | encoder/w_r/kernel  (512, 256) | entity_table  (64, 64)
models/minilm: train runs/entities
  = layers_5/mlp_in/kernel  (384, 1536) | encoder/w_r/kernel  (768, 768) | entity_table  (64, 128)
models/released: train runs/entities
  = layers_5/mlp_in/kernel  (384, 1536) | encoder/w_r/kernel  (768, 256) | entity_table  (64, 128)
models/base: train runs/entities
  = layers_11/mlp_in/kernel  (768, 3072) | encoder/w_r/kernel  (1536, 512) | entity_table  (64, 256)
models/roberta_base: train runs/entities
  = layers_11/mlp_in/kernel  (768, 3072) | encoder/w_r/kernel  (1536, 512) | entity_table  (64, 256)
models/mpnet_base: train runs/entities
  = layers_11/mlp_in/kernel  (768, 3072) | encoder/w_r/kernel  (1536, 512) | entity_table  (64, 256)
models/modern_bert_base: train runs/entities
  = layers_21/mlp_in/kernel  (768, 2304) | encoder/w_r/kernel  (1536, 512)
  = entity_table  (64, 256)
models/bag_of_words: train runs/entities
  = encoder/w_r/kernel  (256, 256) | entity_table  (64, 64) | BagOfWords.window = 24
optimizers/adafactor: train models/tiny runs/entities optimizers/adafactor
  = adafactor.multiply_by_parameter_scale = False | OPTIMIZER = @
runs/entities: train
  = mentions/0/position  ( | Entities.rows = 256 | DEFAULTS
runs/relations: train INIT_FROM=entities
  = pairs/0/anchor  ( | Relations.entity_weight = 1.0 | DEFAULTS
runs/relations_minilm: train BERT=None
  = pairs/0/anchor  ( | Relations.frozen_layers = 3 | TrainConfig.warmup_steps = 10
runs/align: train
  = questions/tokens  (128, | Align.questions_per_topic = 4 | DEFAULTS
runs/align_passages: train
  = questions/tokens  (320, | AlignPassages.passages = 128 | DEFAULTS
runs/align_mentions: train objectives.AlignPassages.split=1-hop/train
  = questions/tokens  (320, | AlignPassages.pair_encoding = 'mention' | DEFAULTS
runs/follow: train
  = follower/w_t  (3, 8, 8) | # frozen: | Follow.exclude_topic = True | DEFAULTS
runs/text_relations: train RELATIONS_PER_BATCH=0 PAIRS_PER_BATCH=2 BERT=None
    objectives.TextRelations.sentence_weight=0 objectives.TextRelations.unrelated=0
  = question_tokens  (4, 32) | first  (8, 2) | TextRelations.rows_per_label = 4
  = TrainConfig.warmup_steps = 40
runs/reading: train EXAMPLES={kb}/examples.jsonl BERT=None
  = inputs/0/tokens  (16, 96) | reader/kernel  ( | Reading.rows = | TrainConfig.warmup_steps = 40
runs/release: release MODEL=text_relations OUTPUT={kb}/new CARD={kb}/card.md
  = # RelationEncoder( | release.step = None
runs/lm_cloze: train INIT_FROM=align ENTITY_LAYER=0
  = texts/0/texts/gold  ( | lm/r_null  (8,) | Cloze.topics = 2 | DEFAULTS
runs/lm_names: train INIT_FROM=align MEMORY=None QUESTIONS={kb}/open.jsonl ENTITY_LAYER=0
  = texts/0/texts/used  ( | lm/w_v  (8, 8) | LinkNames.k = 32 | DEFAULTS
runs/lm_questions: train INIT_FROM=align MEMORY=None QUESTIONS={kb}/open.jsonl ENTITY_LAYER=0
  = questions/0/texts/used  ( | lm/w_v  (8, 8) | AnswerQuestions.k = 32 | DEFAULTS
runs/convert_questions: convert_questions FORMAT=metaqa QUESTIONS={kb}/mine.txt OUTPUT={kb}/new
  = (metaqa) over 64 entities | HOPS = 1
runs/build_memory: build_memory MEMORY=new
  = title pair rows of 64 entities, d_r 8, float32 | build_memory.shard_rows = 16384
runs/update_memory: update_memory ACTION=inject
  = # 0 pair rows to add, 0 new passages, 0 new entities | update_memory.step = None
runs/eval: eval OUTPUT_DIR={kb}/new QUESTIONS=('2-hop/dev',)
  = # 2-hop/dev: | evaluate.k = None
runs/infer: infer QUESTIONS={kb}/asked.jsonl OUTPUT={kb}/new
  = : 7 questions over | infer.evidence = 3
runs/fewshot: fewshot SENTENCES={kb}/labelled.jsonl MODEL_DIR={kb}/relations WAYS=2
    OUTPUT_DIR={kb}/new
  = 'relations': 2, 'sentences': 4 | SHOTS = 1
""")
