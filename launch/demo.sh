#!/usr/bin/env bash
# Builds a virtual knowledge base from generated text and asks it multi-hop questions, on a CPU.
# Every step resumes where it was stopped, so running it again costs little. Settings, all optional:
#   OUT   where everything is written (default: runs/demo)
#   SEED  the world, the initial weights and the order of the batches (default: 0)

# shellcheck source=launch/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

OUT=$(folder "${OUT:-$ROOT/runs/demo}")
SEED=${SEED:-0}

setup_env ''
cd -- "$ROOT"

stage "generating the text and its questions" prepare \
  --gin_file=gin/data/synthetic.gin --gin.DATA_DIR="'$OUT/data'" --gin.SEED="$SEED"
