#!/usr/bin/env bash
# Writes requirements-lock.txt: one version, with the hashes of all of its files, of every package that setup.py asks for, for all
# extras, platforms and Pythons from 3.11. Versions that are there already stay unless setup.py rules them out; arguments go to
# `uv pip compile`, such as --upgrade-package jax. Needs uv (pip install uv).

# shellcheck source=launch/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

# The registry has no CPU builds of PyTorch. Of torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl this is the hash, which was
# added to the lock by hand and stays there as long as that version does.
TORCH_CPU=6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b

command -v uv >/dev/null || fail 'uv is not installed: pip install uv'
cd -- "$ROOT"
# setup_env starts with pip and setuptools; the first pip that takes hashes from constraints is 26.1.
uv pip compile --quiet --universal --python-version 3.11 --all-extras --generate-hashes --no-annotate --no-header \
  --output-file requirements-lock.txt "$@" setup.py - <<<$'pip>=26.1,<27\nsetuptools'
grep -q "$TORCH_CPU" requirements-lock.txt || fail "add the hash of torch's CPU build to the lock and to launch/lock.sh"
lock=$(<requirements-lock.txt)
cat >requirements-lock.txt <<END
# Written by launch/lock.sh, which says what this is. Used as constraints, by pip 26.1 or later:
#   pip install --require-hashes -c requirements-lock.txt PACKAGE...
$lock
END
