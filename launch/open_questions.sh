#!/usr/bin/env bash
# Language models with and without a memory, on open questions over real text: where a question mentions something is known, what is not.
# Every step resumes where it was stopped.
#   launch/open_questions.sh DATASET [SYSTEM...] [--data FOLDER] [--out FOLDER] [--rows FOLDER]
#   DATASET  metaqa: 2-hop questions over MetaQA's passages, from the model and over the memory of launch/reproduce.sh's row opql, which
#            is run first
#            webqsp: every fifth question of WebQuestionsSP's training part, by the others, over Wikispeedia; the memory has the
#            pairs that two passages mention, each once, and then also the 100 best pairs of every entity that these questions ask about
#   SYSTEM   opql-lm (default), eae (no memory), opql-follow (the memory alone answers), null-of-no-entity (null is the same for all);
#            over metaqa also fae: the memory, of the row fae-kb, is of the knowledge base's triples
#   --data   holds metaqa/, or wikispeedia/ and openqa/ (default: ../shared/data)
#   --out    where everything is written (default: runs/open_questions/DATASET): metrics go to results/SYSTEM/MEMORY
#   --rows   of launch/reproduce.sh (default: runs/metaqa)
# Environment variables:
#   SEED     of the initial weights and the order of the batches (default: 0)
#   PERCENT  of the training steps (default: 100)

# shellcheck source=launch/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=launch/lm.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lm.sh"

USAGE='usage: launch/open_questions.sh metaqa|webqsp [SYSTEM...] [--data FOLDER] [--out FOLDER] [--rows FOLDER]'
DATA=$ROOT/../shared/data
OUT=
ROWS=$ROOT/runs/metaqa
SEED=${SEED:-0}
dataset=
systems=()
while [ $# -gt 0 ]; do
  case $1 in
    --data=* | --out=* | --rows=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" ;;
    --data | --out | --rows)
      [ $# -gt 1 ] || fail "$1 needs a folder"
      case $1 in
        --data) DATA=$2 ;;
        --out) OUT=$2 ;;
        --rows) ROWS=$2 ;;
      esac
      shift 2
      ;;
    metaqa | webqsp) dataset=$1; shift ;;
    *)
      is_lm "$1" || [ "$1" = fae ] || fail "unknown argument $1; $USAGE"
      systems+=("$1")
      shift
      ;;
  esac
done
[ -n "$dataset" ] || fail "name a data set; $USAGE"
[[ $dataset = metaqa || " ${systems[*]} " != *' fae '* ]] || fail 'fae: there is no knowledge base beside these questions'
[ -d "$DATA" ] || fail "no folder $DATA; name it with --data"
DATA=$(cd -- "$DATA" && pwd)
OUT=$(folder "${OUT:-$ROOT/runs/open_questions/$dataset}")
ROWS=$(folder "$ROWS")
setup_env ''
cd -- "$ROOT"
settings="DATASET=$dataset SEED=$SEED PERCENT=${PERCENT:-100}"
one_setting "$OUT" "$settings"
printf '%s\n' "$settings" >"$OUT/settings"

# converted NAME PREPARED FORMAT FILE [FLAG...]: questions/NAME.jsonl, with what the vocabulary covers beside it
converted() {
  mkdir -p -- "$OUT/questions"
  stage "converting: $1" convert_questions --gin_file=gin/runs/convert_questions.gin --gin.PREPARED_DIR="$2" --gin.FORMAT="$3" \
    --gin.QUESTIONS="$4" --gin.OUTPUT="$OUT/questions/$1.jsonl" "${@:5}"
}

STILL=--gin.encoder.RelationEncoder.dropout_rate=0.0

# names NAME PREPARED INIT_FROM MEMORY QUESTIONS STEPS: learns whom such questions could mention, before the memory is asked
names() {
  train lm_names "$1" "$2" "$3" "$6" 1e-3 --gin.MEMORY_DIR="$4" --gin.QUESTIONS="$5" "$STILL" \
    --gin.lm_stages.NameStage.topic_scale=30.0
}

metaqa() {
  local texts=()
  for name in "${systems[@]}"; do
    [ "$name" = fae ] || texts+=("$name")
  done
  [ ${#texts[@]} -eq 0 ] || over_row opql '' "${texts[@]}"
  [ ${#texts[@]} -eq ${#systems[@]} ] || over_row fae-kb -fae-kb fae
}

# over_row ROW SUFFIX SYSTEM...: metaqa, over the memory and from the model of a row, whose folders have that suffix
over_row() {
  local prepared=$ROWS/prepared$2 memory=$ROWS/memory$2 questions=$OUT/questions/2-hop
  # Rows that are done are taken as they are, whatever their PERCENT.
  [ -e "$ROWS/results/$1/metrics.json" ] || "$ROOT/launch/reproduce.sh" "$1" --data "$DATA/metaqa" --out "$ROWS"
  for part in train dev; do
    converted "2-hop-$part$2" "$prepared" metaqa "$DATA/metaqa/2-hop/$part.txt" --gin.HOPS=2
  done
  # From what was trained to follow: what is left to learn is whom a question mentions, which comes first and stays beside, as most names
  # are in few questions or none, and when to ask the memory. The second hop goes on from what the first found, and not back to its topic.
  # Passages are not read any more: most of their pairs are in no other passage, which makes null right for whatever a first hop asks.
  local asking=(name_rows=128 text_rows=0 filter=True exclude_topic=True)
  names "names$2" "$prepared" "$ROWS/follow/$1" "$memory" "$questions-train$2.jsonl" 4000
  for name in "${@:3}"; do
    train_lm "$name" "$prepared" "$OUT/names$2" "$memory" "$questions-train$2.jsonl" 0 3000 "$STILL" \
      "${asking[@]/#/--gin.lm_stages.OpenQuestionStage.}"
    ask "$name" all "$prepared" "$memory" "$questions-dev$2.jsonl"
  done
}

webqsp() {
  local prepared=$OUT/prepared all=$DATA/openqa/webqsp_train.jsonl
  [ -f "$all" ] || fail "no file $all; name its folder's parent with --data"
  stage 'preparing' prepare --gin_file=gin/data/wikispeedia.gin --gin.DATA_DIR="$DATA/wikispeedia" --gin.PREPARED_DIR="$prepared"
  mkdir -p -- "$OUT/parts"
  awk 'NR % 5' "$all" >"$OUT/parts/train.jsonl"
  awk 'NR % 5 == 0' "$all" >"$OUT/parts/dev.jsonl"
  for part in train dev; do
    converted "$part" "$prepared" webqsp_lines "$OUT/parts/$part.jsonl"
  done
  train entities entities "$prepared" None 600 1e-3
  train relations pretrained "$prepared" "$OUT/entities" 2000 1e-3
  # A few hundred questions do not teach what their words ask of a memory that knows none of them: it is aligned with them. It reads names,
  # as what is asked for is often told by what it is: a currency, a language.
  local questions=$OUT/questions/train.jsonl
  train align_passages aligned "$prepared" "$OUT/pretrained" 660 1e-3 --gin.passage_stages.PassageAlignStage.split="$questions"
  # An entry for each pair, as the paper has it, is a fifth of what an entry for each mention is. It is barred in the passages it was read
  # in, so that 35 % of the topics of clozes have an entry of their pair, in place of 73 %.
  stage 'building: memory' build_memory --gin_file=gin/runs/build_memory.gin --gin.PREPARED_DIR="$prepared" \
    --gin.MODEL_DIR="$OUT/aligned" --gin.MEMORY_DIR="$OUT/memory" --gin.MIN_COUNT=2 --gin.build_memory.build_memory.mentions=average
  inject memory-injected memory "$prepared" "$OUT/aligned" --gin.QUESTIONS="('$OUT/questions/dev.jsonl',)" --gin.PAIRS_PER_ENTITY=100
  # Names first, as over MetaQA; passages, which mention each of these entities often, keep them.
  names names "$prepared" "$OUT/aligned" "$OUT/memory" "$questions" 1000
  for name in "${systems[@]}"; do
    train_lm "$name" "$prepared" "$OUT/names" "$OUT/memory" "$questions" 2000 1000 --gin.lm_stages.OpenQuestionStage.name_rows=64
    for memory in memory memory-injected; do
      [ "$name $memory" = 'eae memory-injected' ] || ask "$name" $memory "$prepared" "$OUT/$memory" "$OUT/questions/dev.jsonl"
    done
  done
}

[ ${#systems[@]} -gt 0 ] || systems=(opql-lm)
$dataset
