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
# shellcheck source=launch/lm.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lm.sh"

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
    *)
      is_lm "$1" || fail "unknown argument $1; usage: launch/lm_world.sh [SYSTEM...] [--out FOLDER]"
      systems+=("$1")
      ;;
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
from opql_jax.datasets.synthetic.lm_world import write_lm_world
write_lm_world(sys.argv[1], seed=int(sys.argv[2]), num_documents=int(sys.argv[3]))' "$OUT/world" "$SEED" "$DOCUMENTS"
  printf '%s\n' "$settings" >"$OUT/settings"
fi

# prepared NAME [FLAG...]
prepared() {
  stage "preparing: $1" prepare --gin_file=gin/data/jsonl.gin --gin.PREPARED_DIR="$OUT/$1" \
    --gin.CORPUS="$OUT/world/$1/corpus.jsonl" --gin.ENTITIES="$OUT/world/entities.jsonl" --gin.prepare.prepare.wordpieces=4000 \
    --gin.prepare.prepare.max_tokens=40 --gin.prepare.prepare.drop_above_rate=1.0 "${@:2}"
}

# system NAME: trains it and asks it
system() {
  local questions=$OUT/world/questions absent=(--gin.lm_stages.OpenQuestionStage.absent_rate=0.4)
  # Many questions about one topic must do without what they ask for: these texts state nearly all of it, and null is to be learned, too.
  train_lm "$1" "$OUT/train" "$OUT/aligned" "$OUT/memory" "$questions/train.jsonl" 2000 4000 "${absent[@]}"
  if [ "$1" = eae ]; then
    ask eae none "$OUT/train" '' "$questions"/{dev_known,held_out,changed,two_hop,conjunction}.jsonl
    return
  fi
  # The memory holds the facts; it lacks them; it holds others in their place.
  ask "$1" facts "$OUT/facts" "$OUT/memory-facts" "$questions"/{dev_known,held_out,two_hop,conjunction}.jsonl
  ask "$1" without "$OUT/train" "$OUT/memory" "$questions"/{dev_known,held_out}.jsonl
  ask "$1" changed "$OUT/changed" "$OUT/memory-changed" "$questions"/{dev_known,changed}.jsonl
}

prepared train --gin.QUESTIONS="$OUT/world/linked"
train entities entities "$OUT/train" None 500 1e-3
train relations pretrained "$OUT/train" "$OUT/entities" 2000 1e-3
# The questions that are trained on say what a topic's relations are: they are aligned with the text, by the names in them.
train align aligned "$OUT/train" "$OUT/pretrained" 600 1e-3
stage 'building: memory' build_memory --gin_file=gin/runs/build_memory.gin --gin.PREPARED_DIR="$OUT/train" \
  --gin.MODEL_DIR="$OUT/aligned" --gin.MEMORY_DIR="$OUT/memory"
for corpus in facts changed; do
  prepared $corpus --gin.EXTENDS="$OUT/train"
  inject "memory-$corpus" memory "$OUT/$corpus" "$OUT/aligned"
done
for name in "${systems[@]:-opql-lm}"; do
  system "$name"
done
