"""Answers a file of questions: `python -m opql_jax.infer --gin_file=gin/runs/infer.gin --gin.QUESTIONS=mine.jsonl --gin.OUTPUT=... ...`."""

from opql_jax import gin_utils
from opql_jax.kb.question_sets import infer

if __name__ == '__main__':
    gin_utils.run(infer, several=True)
