"""Merges what updates left of a memory: `python -m opql_jax.compact --gin_file=gin/runs/compact.gin --gin.MEMORY_DIR=...`."""

from opql_jax import gin_utils
from opql_jax.kb.update_memory import compact

if __name__ == '__main__':
    gin_utils.run(compact)
