#!/usr/bin/env bash
# Real text: the Wikipedia passages and the questions of MetaQA, from text to the table of results.
# Every step resumes where it was stopped.
#   launch/metaqa.sh [--data FOLDER] [--out FOLDER]
#   --data  holds passages.jsonl, entities.txt and {1,2,3}-hop/{train,dev}.txt; test.txt and dev_official.txt are
#           evaluated too where they are there (default: ../shared/data/metaqa)
#   --out   where everything is written (default: runs/metaqa)
# Environment variables: SEED (default 0), PERCENT of the training steps (default 100)

# shellcheck source=launch/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

DATA=$ROOT/../shared/data/metaqa
OUT=$ROOT/runs/metaqa
SEED=${SEED:-0}
while [ $# -gt 0 ]; do
  case $1 in
    --data=*) DATA=${1#*=}; shift ;;
    --out=*) OUT=${1#*=}; shift ;;
    --data | --out)
      [ $# -gt 1 ] || fail "$1 needs a folder"
      if [ "$1" = --data ]; then DATA=$2; else OUT=$2; fi
      shift 2
      ;;
    *) fail "unknown argument $1; usage: launch/metaqa.sh [--data FOLDER] [--out FOLDER]" ;;
  esac
done
[ -d "$DATA" ] || fail "no folder $DATA; name the MetaQA folder with --data"
for name in passages.jsonl entities.txt {1,2,3}-hop/{train,dev}.txt; do
  [ -f "$DATA/$name" ] || fail "$DATA has no $name"
done

DATA=$(cd -- "$DATA" && pwd)
OUT=$(folder "$OUT")

setup_env ''
cd -- "$ROOT"

SIZE=gin/models/tiny.gin
PREPARED=$OUT/prepared
SPLITS=
for split in dev test dev_official; do
  for hops in 1 2 3; do
    [ ! -f "$DATA/$hops-hop/$split.txt" ] || SPLITS+="'$hops-hop/$split', "
  done
done

# train STAGE WORKDIR INIT_FROM STEPS LEARNING_RATE [FLAG...]
train() {
  stage "training: $2" train --gin_file=$SIZE --gin_file="gin/runs/$1.gin" --gin.PREPARED_DIR="$PREPARED" \
    --gin.WORKDIR="$OUT/$2" --gin.INIT_FROM="$3" --gin.STEPS="$(steps "$4")" --gin.LEARNING_RATE="$5" --gin.SEED="$SEED" "${@:6}"
}

# memory NAME MODEL
memory() {
  stage "building: $1" build_memory --gin_file=gin/runs/build_memory.gin --gin.PREPARED_DIR="$PREPARED" \
    --gin.MODEL_DIR="$OUT/$2" --gin.MEMORY_DIR="$OUT/$1"
}

# evaluate NAME MODEL MEMORY
evaluate() {
  stage "results: $1" eval --gin_file=gin/runs/eval.gin --gin.PREPARED_DIR="$PREPARED" --gin.MODEL_DIR="$OUT/$2" \
    --gin.MEMORY_DIR="$OUT/$3" --gin.OUTPUT_DIR="$OUT/$1" --gin.SPLITS="($SPLITS)"
}

stage "preparing the text and its questions" prepare \
  --gin_file=gin/data/metaqa.gin --gin.DATA_DIR="$DATA" --gin.PREPARED_DIR="$PREPARED"
train entities entities None 200 1e-3
train relations pretrained "$OUT/entities" 600 1e-3

# OPQL: the memory's encoder is finetuned on distantly aligned 1-hop questions.
train align aligned "$OUT/pretrained" 1200 1e-3
memory memory aligned
train follow follow "$OUT/aligned" 2000 5e-4 --gin.MEMORY_DIR="$OUT/memory"
evaluate results follow memory

# OPQL-pretrained: the memory comes from the pretrained encoder, which saw no question.
memory memory_pretrained pretrained
train follow follow_pretrained "$OUT/pretrained" 2000 5e-4 --gin.MEMORY_DIR="$OUT/memory_pretrained"
evaluate results_pretrained follow_pretrained memory_pretrained
