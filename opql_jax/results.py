"""Writes tables and plots of finished rows: `python -m opql_jax.results --gin_file=gin/runs/results.gin --gin.RUNS="('runs/metaqa',)"`."""

from opql_jax import gin_utils
from opql_jax.recipes.results import write_results

if __name__ == '__main__':
    gin_utils.run(write_results)
