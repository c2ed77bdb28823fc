#!/usr/bin/env bash
# Makes a knowledge base of the sample articles that come along, and asks it questions of one, two and three hops, on a CPU.
#   launch/demo.sh [KB]                # the folder of the knowledge base (default: runs/sample.kb)
#   launch/demo.sh --train [OPTION...] # trains in a generated world instead, from text to followed relations: the recipe demo, whose
#                                      # options are such as --out FOLDER, --seed N, --documents N and --percent P

# shellcheck source=launch/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

setup_env app,text
cd -- "$ROOT"
if [ "${1-}" = --train ]; then
  exec "$PYTHON" -m opql_jax.recipes run demo "${@:2}"
fi

kb=${1:-runs/sample.kb}
opql() {
  local word line='$ opql'
  for word; do
    case $word in *' '*) word="'$word'" ;; esac
    line+=" $word"
  done
  printf '\n%s\n' "$line"
  "$VENV/bin/opql" "$@"
}

opql index opql_jax/sample/articles --out "$kb"
opql ask "$kb" 'Who designed the Marlowe Bridge?' --top 1
opql ask "$kb" 'Where was the founder of the Halmouth Ferry Company born?' --top 1
opql ask "$kb" 'Where did the teacher of the painter of Harbour at Dusk die?' --top 1
cat <<END

Now ask your own questions:

  source .venv/bin/activate
  opql ask $kb 'Who taught Clara Whitcombe?'
  opql index FOLDER --out mine.kb    # of your own text: docs/how-to/index_text.md says in which files
END
