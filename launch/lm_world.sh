#!/usr/bin/env bash
# OPQL-LM over a generated world some of whose facts no training text states: answers from a memory that holds these, from one
# that does not, and from one that holds other facts in their place, without a training step between.
# Every step resumes where it was stopped.
#   launch/lm_world.sh [SYSTEM...] [--out FOLDER]
#   SYSTEM  opql-lm (default), eae (no memory), opql-follow (the memory alone answers), null-of-no-entity (null is the same for all)
#   --out   where everything is written (default: runs/lm_world): metrics go to results/SYSTEM/MEMORY
# Environment variables:
#   SEED     of the world, the initial weights and the order of the batches (default: 0)
#   PERCENT  of the training steps (default: 100)
#   DOCUMENTS of the world (default: 2000)

# shellcheck source=launch/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

OUT=$ROOT/runs/lm_world
SEED=${SEED:-0}
DOCUMENTS=${DOCUMENTS:-2000}
systems=()
while [ $# -gt 0 ]; do
  case $1 in
    --out=*) OUT=${1#*=} ;;
    --out)
      [ $# -gt 1 ] || fail "--out needs a folder"
      OUT=$2
      shift
      ;;
    opql-lm | eae | opql-follow | null-of-no-entity) systems+=("$1") ;;
    *) fail "unknown argument $1; usage: launch/lm_world.sh [SYSTEM...] [--out FOLDER]" ;;
  esac
  shift
done
OUT=$(folder "$OUT")
setup_env ''
cd -- "$ROOT"

settings="SEED=$SEED PERCENT=${PERCENT:-100} DOCUMENTS=$DOCUMENTS"
one_setting "$OUT" "$settings"
if [ ! -f "$OUT/settings" ]; then
  "$PYTHON" -c 'import sys
from opql_jax.corpus.synthetic_lm import write_lm_world
write_lm_world(sys.argv[1], seed=int(sys.argv[2]), num_documents=int(sys.argv[3]))' "$OUT/world" "$SEED" "$DOCUMENTS"
  printf '%s\n' "$settings" >"$OUT/settings"
fi

# prepared NAME [FLAG...]
prepared() {
  stage "preparing: $1" prepare --gin_file=gin/data/jsonl.gin --gin.PREPARED_DIR="$OUT/$1" \
    --gin.CORPUS="$OUT/world/$1/corpus.jsonl" --gin.ENTITIES="$OUT/world/entities.jsonl" --gin.prepare.prepare.wordpieces=4000 \
    --gin.prepare.prepare.max_tokens=40 --gin.prepare.prepare.drop_above_rate=1.0 "${@:2}"
}

# train STAGE FOLDER INIT_FROM STEPS LEARNING_RATE [FLAG...]
train() {
  stage "training: $2" train --gin_file=gin/models/tiny.gin --gin_file="gin/runs/$1.gin" --gin.PREPARED_DIR="$OUT/train" \
    --gin.WORKDIR="$OUT/$2" --gin.INIT_FROM="$3" --gin.STEPS="$(steps "$4")" --gin.LEARNING_RATE="$5" --gin.SEED="$SEED" "${@:6}"
}

# inject MEMORY CORPUS: a copy of the memory, with the pairs of another corpus; made once
inject() {
  [ ! -e "$OUT/$1" ] || return 0
  rm -rf -- "$OUT/$1.partial"
  cp -r -- "$OUT/memory" "$OUT/$1.partial"
  stage "injecting: $1" inject --gin_file=gin/runs/inject.gin --gin.PREPARED_DIR="$OUT/$2" --gin.MODEL_DIR="$OUT/aligned" \
    --gin.MEMORY_DIR="$OUT/$1.partial"
  mv -- "$OUT/$1.partial" "$OUT/$1"
}

# ask SYSTEM NAME PREPARED MEMORY QUESTIONS...
ask() {
  local files=
  for name in "${@:5}"; do files+="'$OUT/world/questions/$name.jsonl', "; done
  stage "results: $1, $2" eval_open --gin_file=gin/runs/eval_open.gin --gin.PREPARED_DIR="$OUT/$3" --gin.MODEL_DIR="$OUT/$1" \
    --gin.MEMORY_DIR="$4" --gin.QUESTIONS="($files)" --gin.OUTPUT_DIR="$OUT/results/$1/$2"
}

# system NAME [FLAG of both stages, with STAGE for the stage...]: pretrains, finetunes and asks
system() {
  local memory=$OUT/memory flags=("${@:2}")
  [ "$1" != eae ] || memory=
  train lm_cloze "$1-pretrained" "$OUT/aligned" 2000 1e-3 --gin.MEMORY_DIR="$memory" "${flags[@]/STAGE/ClozeStage}"
  train lm_questions "$1" "$OUT/$1-pretrained" 4000 1e-3 --gin.MEMORY_DIR="$memory" \
    --gin.QUESTIONS="$OUT/world/questions/train.jsonl" "${flags[@]/STAGE/OpenQuestionStage}"
  if [ -z "$memory" ]; then
    ask "$1" none train '' dev_known held_out changed two_hop conjunction
    return
  fi
  # The memory holds the facts; it lacks them; it holds others in their place.
  ask "$1" facts facts "$OUT/memory-facts" dev_known held_out two_hop conjunction
  ask "$1" without train "$OUT/memory" dev_known held_out
  ask "$1" changed changed "$OUT/memory-changed" dev_known changed
}

prepared train --gin.QUESTIONS="$OUT/world/linked"
train entities entities None 500 1e-3
train relations pretrained "$OUT/entities" 2000 1e-3
# The questions that are trained on say what a topic's relations are: they are aligned with the text, by the names in them.
train align aligned "$OUT/pretrained" 600 1e-3
stage 'building: memory' build_memory --gin_file=gin/runs/build_memory.gin --gin.PREPARED_DIR="$OUT/train" \
  --gin.MODEL_DIR="$OUT/aligned" --gin.MEMORY_DIR="$OUT/memory"
for corpus in facts changed; do
  prepared $corpus --gin.EXTENDS="$OUT/train"
  inject memory-$corpus $corpus
done
for name in "${systems[@]:-opql-lm}"; do
  case $name in
    opql-lm | eae) system "$name" ;;
    opql-follow) system "$name" --gin.lm_stages.STAGE.own_prediction=False ;;
    null-of-no-entity) system "$name" --gin.lm_stages.STAGE.null_entity=False ;;
  esac
done
