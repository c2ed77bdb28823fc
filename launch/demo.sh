#!/usr/bin/env bash
# Builds a virtual knowledge base from generated text and asks it multi-hop questions, on a CPU.
# Arguments go to the recipe, such as --out FOLDER, --seed N, --documents N or --percent P:
#   python -m opql_jax.recipes run demo ARGUMENTS

# shellcheck source=launch/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

setup_env ''
cd -- "$ROOT"
exec "$PYTHON" -m opql_jax.recipes run demo "$@"
