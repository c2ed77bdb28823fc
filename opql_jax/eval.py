"""Scores question sets: `python -m opql_jax.eval --gin_file=gin/runs/eval.gin --gin.SPLITS="('2-hop/dev',)" ...`."""

from opql_jax import gin_utils
from opql_jax.kb.evaluate import evaluate_sets

if __name__ == '__main__':
    gin_utils.run(evaluate_sets, several=True)
