"""Imports a checkpoint of t5x.

`python -m opql_jax.import_t5x --gin_file=gin/t5x/import.gin --gin.KB=films.kb ...`.
"""

if __name__ == '__main__':
    from opql_jax import gin_utils
    from opql_jax.training.t5x_checkpoints import import_checkpoint

    gin_utils.run(import_checkpoint)
