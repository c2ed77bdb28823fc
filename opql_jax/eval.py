"""Answers question sets and scores the answers: `python -m opql_jax.eval --gin_file=gin/runs/eval.gin --gin.QUESTIONS="('2-hop/dev',)" ...`."""

from opql_jax import gin_utils
from opql_jax.kb.question_sets import evaluate

if __name__ == '__main__':
    gin_utils.run(evaluate, several=True)
