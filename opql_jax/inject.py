"""Adds new text to a memory: `python -m opql_jax.inject --gin_file=gin/runs/inject.gin --gin.PREPARED_DIR=... --gin.MODEL_DIR=... --gin.MEMORY_DIR=...`."""

from opql_jax import gin_utils
from opql_jax.kb.update_memory import inject

if __name__ == '__main__':
    gin_utils.run(inject, several=True)
