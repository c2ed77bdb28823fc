#!/usr/bin/env bash
# Slot filling over documents with relation labels: trained over the memory of one part of them, asked over that of the
# other part, and over that of any other such file, which can be given later and needs no training again.
# Every step resumes where it was stopped.
#   launch/slot_filling.sh [--documents FILE] [--test FILE] [--out FOLDER]
#   --documents  a JSON list in the form of (Re-)DocRED, with rel_info.json, the names of the relations, beside it
#                (default: ../shared/data/redocred/documents.json); a fifth of the documents are not trained on but asked about
#   --test       another such file, asked about as well
#   --out        where everything is written (default: runs/slot_filling)
# Environment variables: SEED (default 0), PERCENT of the training steps (default 100)

# shellcheck source=launch/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

DOCUMENTS=$ROOT/../shared/data/redocred/documents.json
TEST=
OUT=$ROOT/runs/slot_filling
SEED=${SEED:-0}
while [ $# -gt 0 ]; do
  case $1 in
    --documents=*) DOCUMENTS=${1#*=}; shift ;;
    --test=*) TEST=${1#*=}; shift ;;
    --out=*) OUT=${1#*=}; shift ;;
    --documents | --test | --out)
      [ $# -gt 1 ] || fail "$1 needs a $([ "$1" = --out ] && echo folder || echo file)"
      case $1 in
        --documents) DOCUMENTS=$2 ;;
        --test) TEST=$2 ;;
        --out) OUT=$2 ;;
      esac
      shift 2
      ;;
    *) fail "unknown argument $1; usage: launch/slot_filling.sh [--documents FILE] [--test FILE] [--out FOLDER]" ;;
  esac
done
RELATIONS=$(dirname -- "$DOCUMENTS")/rel_info.json
for file in "$DOCUMENTS" "$RELATIONS" ${TEST:+"$TEST"}; do
  [ -f "$file" ] || fail "no file $file; name the documents with --documents"
done

DOCUMENTS=$(realpath -- "$DOCUMENTS")
RELATIONS=$(realpath -- "$RELATIONS")
[ -z "$TEST" ] || TEST=$(realpath -- "$TEST")
OUT=$(folder "$OUT")

setup_env ''
cd -- "$ROOT"

SIZE=gin/models/tiny.gin
PREPARED=$OUT/prepared

# prepared NAME FILE PART [FLAG...]
prepared() {
  stage "preparing: $1" prepare --gin_file=gin/data/slot_filling.gin --gin.DOCUMENTS="$2" --gin.REL_INFO="$RELATIONS" \
    --gin.PART="$3" --gin.PREPARED_DIR="$OUT/$1" "${@:4}"
}

# train STAGE WORKDIR INIT_FROM STEPS LEARNING_RATE [FLAG...]
train() {
  stage "training: $2" train --gin_file=$SIZE --gin_file="gin/runs/$1.gin" --gin.PREPARED_DIR="$PREPARED" \
    --gin.WORKDIR="$OUT/$2" --gin.INIT_FROM="$3" --gin.STEPS="$(steps "$4")" --gin.LEARNING_RATE="$5" --gin.SEED="$SEED" "${@:6}"
}

# memory NAME PREPARED [FLAG...]
memory() {
  stage "building: $1" build_memory --gin_file=gin/runs/build_memory.gin --gin.PREPARED_DIR="$OUT/$2" \
    --gin.MODEL_DIR="$OUT/aligned" --gin.MEMORY_DIR="$OUT/$1" --gin.PAIRS=all "${@:3}"
}

# corpus NAME FILE [FLAG...]: another corpus than the one trained on, from text to results
corpus() {
  local splits=
  prepared "$1" "$2" dev --gin.EXTENDS="$PREPARED" "${@:3}"
  memory "memory_$1" "$1" --gin.ONLY_NEW=True
  for hops in 1 2 3; do
    # A small corpus may have no chain of three facts.
    [ ! -f "$OUT/$1/questions/$hops-hop/dev.parquet" ] || splits+="'$hops-hop/dev', "
  done
  stage "results: $1" eval --gin_file=gin/runs/eval.gin --gin.PREPARED_DIR="$OUT/$1" --gin.MODEL_DIR="$OUT/follow" \
    --gin.MEMORY_DIR="$OUT/memory_$1" --gin.OUTPUT_DIR="$OUT/results_$1" --gin.SPLITS="($splits)"
}

prepared prepared "$DOCUMENTS" train
train entities entities None 200 1e-3
train relations pretrained "$OUT/entities" 400 1e-3
train align aligned "$OUT/pretrained" 500 1e-3 --gin.PAIRS=all
memory memory prepared
train follow follow "$OUT/aligned" 1200 5e-4 --gin.MEMORY_DIR="$OUT/memory"
corpus dev "$DOCUMENTS"
[ -z "$TEST" ] || corpus "test_$(basename -- "$TEST" .json)" "$TEST" --gin.DEV_FRACTION=1.0
