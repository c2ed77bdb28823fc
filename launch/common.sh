# shellcheck shell=bash
# Sourced by the scripts beside it: makes the environment they run in, and nothing twice.
#
#   setup_env EXTRAS [PACKAGE...]   .venv with opql_jax and its EXTRAS (comma separated, '' for the core);
#                                   each PACKAGE is added without its dependencies. What is installed has the
#                                   versions and hashes of requirements-lock.txt
#   quoted COMMAND...               prints the command as a line that a shell reads back: what --dry_run shows
#   need NAME EXAMPLE               fails unless the environment variable NAME is set
#   say, fail                       messages
#
# Sets ROOT (the checkout) and PYTHON (the environment's interpreter).

set -euo pipefail

# A set CDPATH would let cd go astray, and print.
unset CDPATH

ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
VENV=$ROOT/.venv
PYTHON=$VENV/bin/python
PYTHONS=(python3.11 python3.12 python3.13 python3)
MINOR=11 # of the oldest Python 3 that will do

# With HOME set but empty, caches would land in the root directory; unset, the user's entry decides.
[ -n "${HOME-}" ] || unset HOME

say() { printf '[opql_jax] %s\n' "$*"; }
fail() { printf '[opql_jax] error: %s\n' "$*" >&2; exit 1; }

quoted() {
  local line
  printf -v line '%q ' "$@"
  printf '%s\n' "${line% }"
}

need() { [ -n "${!1-}" ] || fail "$1 is not set; for example: $1=$2"; }

# The first interpreter that can make an environment; 3.11 comes first because the lock was made with it.
find_python() {
  local candidate
  while IFS= read -r candidate; do
    "$candidate" -I -c "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, $MINOR))" >/dev/null 2>&1 || continue
    printf '%s\n' "$candidate"
    return
  done < <(type -aP "${PYTHONS[@]}" || true)
  fail "no Python of at least 3.$MINOR with venv and ensurepip on PATH; install one (on Debian: apt-get install python3.$MINOR-venv)"
}

make_venv() {
  local base
  "$PYTHON" -I -c "import sys, pip; sys.exit(sys.version_info < (3, $MINOR))" >/dev/null 2>&1 && return
  base=$(find_python)
  [ ! -e "$VENV" ] || say "$VENV does not work: making it anew"
  say "creating $VENV with $("$base" --version)"
  "$base" -m venv --clear "$VENV"
}

# Runs pip with its output in a log, which is shown only when something goes wrong.
pip_install() {
  local log=$VENV/install.log
  if ! "$PYTHON" -m pip install --disable-pip-version-check --no-compile "$@" >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    fail "pip install $* failed; the whole log is $log"
  fi
}

# Compiles what pip installed on all processors; pip itself uses one. Templates that are no valid Python fail, which pip ignores too.
compile_installed() {
  "$PYTHON" -I -c 'import compileall, sys; compileall.compile_dir(sys.argv[1], quiet=2, workers=0)' "$VENV/lib" ||
    fail "what is installed in $VENV cannot be compiled"
}

# What setup.py asks for, one requirement a line: for the core, and for EXTRAS (comma separated).
requirements_of() {
  "$PYTHON" -B -c 'if True:
    import sys, setup
    extras = filter(None, sys.argv[1].split(","))
    print(*setup.CORE, *(name for extra in extras for name in setup.EXTRAS[extra]), sep="\n")' "$1"
}

setup_env() {
  local extras=$1 stamps wanted requirements started=$SECONDS
  local locked=(--require-hashes --no-build-isolation -c requirements-lock.txt)
  shift
  make_venv
  # One stamp per set of extras, since one environment serves them all, and each set holds the core. The path
  # is part of it because the package is installed in place.
  stamps=("$VENV/.installed-${extras:-core}")
  [ -n "$extras" ] || stamps+=("$VENV"/.installed-*)
  wanted="$ROOT $(cat "$ROOT/setup.py" "$ROOT/requirements-lock.txt" | cksum)"
  if grep -qsxF -- "$wanted" "${stamps[@]}"; then
    say "environment $VENV (${extras:-core}) is up to date"
    return
  fi
  say "installing opql_jax (${extras:-core}) with the versions of requirements-lock.txt into $VENV;" \
    "this downloads packages and takes minutes the first time (log: $VENV/install.log)"
  cd -- "$ROOT"
  # First what installs the rest, since the pip that Python brings may not take hashes from constraints, and build
  # requirements would come unchecked into an isolated build.
  awk '/^(pip|setuptools)==/, !/\\$/' requirements-lock.txt >"$VENV/installers.txt"
  pip_install --require-hashes -r "$VENV/installers.txt"
  requirements=$(requirements_of "$extras")
  # pip prefers what its index has the hash of, the build with the CUDA libraries, to a CPU build in a folder (PIP_FIND_LINKS).
  if [[ $requirements =~ torch==[0-9.]+ ]]; then
    "$PYTHON" -m pip install --no-compile "${locked[@]}" --no-deps "${BASH_REMATCH[0]}+cpu" >"$VENV/install.log" 2>&1 ||
      say "pip finds no CPU build of PyTorch with a hash of the lock: the default one brings gigabytes of CUDA libraries"
  fi
  mapfile -t requirements <<<"$requirements"
  pip_install "${locked[@]}" "${requirements[@]}"
  [ $# -eq 0 ] || pip_install "${locked[@]}" --no-deps "$@"
  # A folder has no hash.
  pip_install --no-deps --no-build-isolation -e .
  cd -- "$OLDPWD"
  compile_installed
  printf '%s\n' "$wanted" >"${stamps[0]}"
  say "installed in $((SECONDS - started)) s"
}
