"""Releases a trained encoder.

`python -m opql_jax.release --gin_file=gin/runs/release.gin --gin.KB=runs/x --gin.MODEL=relations
...`.
"""

from opql_jax.core import preemption

if __name__ == '__main__':
    preemption.exit_on_signals()
    from opql_jax import gin_utils
    from opql_jax.training.release import release

    gin_utils.run(release)
