# Sourced by the scripts that train language models; after common.sh, with OUT and SEED set.
# shellcheck shell=bash

LM_SYSTEMS='opql-lm eae opql-follow null-of-no-entity'

# is_lm SYSTEM: whether there is one of that name
is_lm() { [[ " $LM_SYSTEMS " == *" $1 "* ]]; }

# train STAGE FOLDER PREPARED INIT_FROM STEPS LEARNING_RATE [FLAG...]
train() {
  stage "training: $2" train --gin_file=gin/models/tiny.gin --gin_file="gin/runs/$1.gin" --gin.PREPARED_DIR="$3" \
    --gin.WORKDIR="$OUT/$2" --gin.INIT_FROM="$4" --gin.STEPS="$(steps "$5")" --gin.LEARNING_RATE="$6" --gin.SEED="$SEED" "${@:7}"
}

# train_lm SYSTEM PREPARED INIT_FROM MEMORY QUESTIONS CLOZE_STEPS QUESTION_STEPS [FLAG...]: pretrains it over a memory, unless that is
# for 0 steps, and finetunes it, the latter with the flags
train_lm() {
  local flags=()
  case $1 in
    opql-follow) flags=(--gin.lm_stages.STAGE.own_prediction=False) ;;
    null-of-no-entity) flags=(--gin.lm_stages.STAGE.null_entity=False) ;;
  esac
  local memory=$4 start=$3
  [ "$1" != eae ] || memory=
  if [ "$6" -gt 0 ]; then
    start=$OUT/$1-pretrained
    train lm_cloze "$1-pretrained" "$2" "$3" "$6" 1e-3 --gin.MEMORY_DIR="$memory" "${flags[@]/STAGE/ClozeStage}"
  fi
  train lm_questions "$1" "$2" "$start" "$7" 1e-3 --gin.MEMORY_DIR="$memory" --gin.QUESTIONS="$5" \
    "${flags[@]/STAGE/OpenQuestionStage}" "${@:8}"
}

# ask SYSTEM NAME PREPARED MEMORY FILE...: metrics go to results/SYSTEM/NAME
ask() {
  local memory=$4 files=
  [ "$1" != eae ] || memory=
  for file in "${@:5}"; do files+="'$file', "; done
  stage "results: $1, $2" eval --gin_file=gin/runs/eval.gin --gin.PREPARED_DIR="$3" --gin.MODEL_DIR="$OUT/$1" \
    --gin.MEMORY_DIR="$memory" --gin.QUESTIONS="($files)" --gin.OUTPUT_DIR="$OUT/results/$1/$2"
}

# inject MEMORY FROM PREPARED MODEL [FLAG...]: a copy of a memory, with pairs of another corpus; made once
inject() {
  [ ! -e "$OUT/$1" ] || return 0
  rm -rf -- "$OUT/$1.partial"
  cp -r -- "$OUT/$2" "$OUT/$1.partial"
  stage "injecting: $1" update_memory --gin_file=gin/runs/update_memory.gin --gin.ACTION=inject --gin.PREPARED_DIR="$3" --gin.MODEL_DIR="$4" \
    --gin.MEMORY_DIR="$OUT/$1.partial" "${@:5}"
  mv -- "$OUT/$1.partial" "$OUT/$1"
}
