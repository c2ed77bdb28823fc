#!/usr/bin/env bash
# Builds a virtual knowledge base from generated text and asks it multi-hop questions, on a CPU.
# Every step resumes where it was stopped, so running it again costs little. Settings, all optional:
#   OUT   where everything is written (default: runs/demo)
#   SEED  the initial weights and the order of the batches (default: 0)
#   WORLD  the seed of the text and its questions (default: SEED)
#   DOCUMENTS  size of the world (default: 2000)
#   PERCENT    of the training steps (default: 100)

# shellcheck source=launch/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

OUT=$(folder "${OUT:-$ROOT/runs/demo}")
SEED=${SEED:-0}
WORLD=${WORLD:-$SEED}
DOCUMENTS=${DOCUMENTS:-2000}

setup_env ''
cd -- "$ROOT"

# In so few steps, relations of half the width of [h_R1 ; h_R2] are learnt better than those of all of it.
SIZE=(--gin_file=gin/models/tiny.gin --gin.encoder.RelationEncoder.relation_dim=128)
PREPARED=$OUT/prepared

# train STAGE WORKDIR INIT_FROM STEPS LEARNING_RATE [FLAG...]
train() {
  stage "training: $2" train "${SIZE[@]}" --gin_file="gin/runs/$1.gin" --gin.PREPARED_DIR="$PREPARED" \
    --gin.WORKDIR="$OUT/$2" --gin.INIT_FROM="$3" --gin.STEPS="$(steps "$4")" --gin.LEARNING_RATE="$5" --gin.SEED="$SEED" "${@:6}"
}

stage "generating the text and its questions" prepare \
  --gin_file=gin/data/synthetic.gin --gin.PREPARED_DIR="$PREPARED" --gin.SEED="$WORLD" \
  --gin.DOCUMENTS="$DOCUMENTS"
train entities entities None 50 1e-3
train relations pretrained "$OUT/entities" 200 1e-3
train align aligned "$OUT/pretrained" 440 1e-3 --gin.stages.AlignStage.rows_per_topic=8
stage "building the memory" build_memory --gin_file=gin/runs/build_memory.gin --gin.PREPARED_DIR="$PREPARED" \
  --gin.MODEL_DIR="$OUT/aligned" --gin.MEMORY_DIR="$OUT/memory"
train follow follow "$OUT/aligned" 600 1e-3 --gin.MEMORY_DIR="$OUT/memory"

KB=(--gin.PREPARED_DIR="$PREPARED" --gin.MODEL_DIR="$OUT/follow" --gin.MEMORY_DIR="$OUT/memory")
stage "results on test questions, whose topics were in no training question" eval --gin_file=gin/runs/eval.gin "${KB[@]}" \
  --gin.OUTPUT_DIR="$OUT/results" --gin.SHOW=1 \
  --gin.QUESTIONS="('1-hop/test', '2-hop/test', '3-hop/test', '1-hop/unseen_wording')"
say "ask it yourself, with any name of the generated world in the brackets ($PREPARED/questions has more):"
say "$(printf '%q ' "$PYTHON" -m opql_jax.ask --gin_file=gin/runs/ask.gin "${KB[@]}") --hops=2 --question '...[Name]...'"
