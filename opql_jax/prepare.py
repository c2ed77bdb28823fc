"""Prepares a corpus.

`python -m opql_jax.prepare --gin_file=gin/data/synthetic.gin --gin.KB=runs/x`.
"""

from opql_jax.core import preemption

if __name__ == '__main__':
    preemption.exit_on_signals()
    from opql_jax import gin_utils
    from opql_jax.data.prepare import prepare

    gin_utils.run(prepare)
