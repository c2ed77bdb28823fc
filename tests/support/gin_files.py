"""What every file under gin/ is run with in binaries_test, and what `--dry_run` must print."""

from examples import examples


def read(table: str) -> dict[str, tuple[str, list[str], list[str]]]:
    """Of rows `file | binary flags | printed`; a flag may be another gin file."""
    found = {}
    for name, words, shown in examples(table):
        binary, *flags = words.split()
        made = {'prepare': ['TEXT=new'], 'train': ['MODEL=new']}.get(binary, [])
        words = ['KB={kb}'] * (binary != 'fewshot') + made + flags
        flags = [f'--gin.{word}' if '=' in word else f'--gin_file=gin/{word}.gin' for word in words]
        found[name] = binary, flags, shown.split(' & ')
    return found


_LM = 'INIT_FROM=align ENTITY_LAYER=0'
_OPEN = f'{_LM} MEMORY=None QUESTIONS={{kb}}/open.jsonl'
_TEXT = 'objectives.TextRelations'
GIN = read(
    f"""
data/synthetic | prepare DOCUMENTS=7 | Synthetic(seed=0, num_documents=7
data/jsonl | prepare CORPUS=my.jsonl | JsonLines(path='my.jsonl', entities=None
data/text | prepare SOURCES=('articles',) | PlainText(sources=('articles',)
data/metaqa | prepare DATA_DIR=films | MetaQA(folder='films')
data/metaqa_with_kb | prepare DATA_DIR=films TRIPLES=facts | WithTriples(text=MetaQA(folder='films')
data/metaqa_kb | prepare DATA_DIR=films TRIPLES=facts SHARE=0.5 | beside_text=False, share=0.5)
data/wikispeedia | prepare DATA_DIR=wiki | Wikispeedia(folder='wiki')
data/wikipedia | prepare DUMP=dump WORK_DIR=work | Wikipedia(path='dump', work_folder='work'
data/slot_filling | prepare DOCUMENTS=d REL_INFO=r | part='all'
data/msf | prepare DATA_DIR=msf PART=test | Msf(folder='msf', part='test', hops=(1, 2, 3))
models/tiny | train runs/entities | layers_1/mlp_in/kernel  (128, 512) & entity_table  (64, 64)
models/small | train runs/entities | layers_3/mlp_in/kernel  (256, 1024) & w_r/kernel  (512, 256)
models/minilm | train runs/entities | layers_5/mlp_in/kernel  (384, 1536) & w_r/kernel  (768, 768)
models/released | train runs/entities | layers_5/mlp_in/kernel  (384, 1536) & w_r/kernel  (768, 256)
models/base | train runs/entities | layers_11/mlp_in/kernel  (768, 3072) & w_r/kernel  (1536, 512)
models/roberta_base | train runs/entities | layers_11/mlp_in/kernel  (768, 3072)
models/mpnet_base | train runs/entities | layers_11/mlp_in/kernel  (768, 3072)
models/modern_bert_base | train runs/entities | layers_21/mlp_in/kernel  (768, 2304)
models/bag_of_words | train runs/entities | w_r/kernel  (256, 256) & BagOfWords.window = 24
optimizers/adafactor | train models/tiny runs/entities optimizers/adafactor | OPTIMIZER = @
runs/entities | train | mentions/0/position  ( & Entities.rows = 256 & TrainConfig.clip_norm = 1.0
runs/relations | train INIT_FROM=entities | pairs/0/anchor  ( & Relations.entity_weight = 1.0
runs/relations_minilm | train BERT=None | Relations.frozen_layers = 3 & warmup_steps = 10
runs/align | train | questions/tokens  (128, & Align.questions_per_topic = 4
runs/align_passages | train | questions/tokens  (320, & AlignPassages.passages = 128
runs/align_mentions | train objectives.AlignPassages.split=1-hop/train | pair_encoding = 'mention'
runs/follow | train | follower/w_t  (3, 8, 8) & # frozen: & Follow.exclude_topic = True
runs/text_relations | train RELATIONS_PER_BATCH=0 PAIRS_PER_BATCH=2 BERT=None {_TEXT}.unrelated=0
    {_TEXT}.sentence_weight=0 | question_tokens  (4, 32) & first  (8, 2) & warmup_steps = 40
runs/reading | train EXAMPLES={{kb}}/examples.jsonl BERT=None | inputs/0/tokens  (16, 96)
runs/release | release MODEL=text_relations OUTPUT={{kb}}/new CARD={{kb}}/card.md | step = None
runs/lm_cloze | train {_LM} | texts/0/texts/gold  ( & lm/r_null  (8,) & Cloze.topics = 2
runs/lm_names | train {_OPEN} | texts/0/texts/used  ( & lm/w_v  (8, 8) & LinkNames.k = 32
runs/lm_questions | train {_OPEN} | questions/0/texts/used  ( & AnswerQuestions.k = 32
runs/convert_questions | convert_questions FORMAT=metaqa QUESTIONS={{kb}}/mine.txt OUTPUT={{kb}}/new
    | (metaqa) over 64 entities & HOPS = 1
runs/build_memory | build_memory MEMORY=new | title pair rows of 64 entities, d_r 8, float32
runs/update_memory | update_memory ACTION=inject | # 0 pair rows to add, 0 new passages
runs/eval | eval OUTPUT_DIR={{kb}}/new QUESTIONS=('2-hop/dev',) | # 2-hop/dev: & evaluate.k = None
runs/infer | infer QUESTIONS={{kb}}/asked.jsonl OUTPUT={{kb}}/new | : 7 questions over
runs/fewshot | fewshot SENTENCES={{kb}}/labelled.jsonl MODEL_DIR={{kb}}/relations WAYS=2
    OUTPUT_DIR={{kb}}/new | 'relations': 2, 'sentences': 4 & SHOTS = 1
""".replace('\n    ', ' ')
)
