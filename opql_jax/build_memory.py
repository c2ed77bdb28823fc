"""Builds a memory.

`python -m opql_jax.build_memory --gin_file=gin/runs/build_memory.gin --gin.KB=runs/x`.
"""

from opql_jax.core import preemption

if __name__ == '__main__':
    preemption.exit_on_signals()
    from opql_jax import gin_utils
    from opql_jax.kb.build_memory import build_memory

    gin_utils.run(build_memory, multi_process=True)
