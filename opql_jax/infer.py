"""Answers a file of questions: `python -m opql_jax.infer --gin_file=gin/runs/infer.gin --gin.QUESTION_FILE=... --gin.HOPS=2 --gin.OUTPUT=...`."""

from opql_jax import gin_utils
from opql_jax.kb.evaluate import infer_file

if __name__ == '__main__':
    gin_utils.run(infer_file, several=True)
