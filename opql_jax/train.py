"""Trains an objective.

`python -m opql_jax.train --gin_file=gin/models/tiny.gin --gin_file=gin/runs/relations.gin
--gin.KB=runs/x`.
"""

from opql_jax.core import preemption
from opql_jax.training import malloc

if __name__ == '__main__':
    malloc.keep_freed_memory()
    preemption.exit_on_signals()
    import gin
    from opql_jax import gin_utils
    from opql_jax.training.trainer import train

    gin_utils.run(
        train,
        multi_process=True,
        polls_preemption=True,
        gin_config=lambda: gin.operative_config_str,
    )
