"""Scores a language model on open questions: `python -m opql_jax.eval_open --gin_file=gin/runs/eval_open.gin ...`."""

from opql_jax import gin_utils
from opql_jax.kb.open_qa import evaluate_files

if __name__ == '__main__':
    gin_utils.run(evaluate_files, several=True)
