"""Trains an objective: `python -m opql_jax.train --gin_file=gin/models/tiny.gin --gin_file=gin/runs/relations.gin --gin.PREPARED_DIR=... --gin.WORKDIR=...`."""

from opql_jax.training import malloc

if __name__ == '__main__':
    malloc.keep_freed_memory()

import gin
from opql_jax import gin_utils
from opql_jax.training.trainer import train

if __name__ == '__main__':
    gin_utils.run(train, several=True, listens=True, gin_config=lambda: gin.operative_config_str)
