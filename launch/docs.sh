#!/usr/bin/env bash
# Makes the environment and builds the pages of docs/ as HTML, with every warning an error; arguments go to sphinx-build.
#   launch/docs.sh                        # runs the tutorial, which takes minutes
#   DOCS_NOTEBOOKS=off launch/docs.sh     # shows it without its output

# shellcheck source=launch/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

setup_env docs,text  # the tutorial reads plain text
cd -- "$ROOT"
"$PYTHON" -m sphinx -q -W --keep-going -b html "$@" docs build/docs
say "the pages are in $ROOT/build/docs/index.html"
