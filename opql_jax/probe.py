"""Scores relation embeddings on labelled sentences: `python -m opql_jax.probe --gin_file=gin/runs/probe.gin --gin.SENTENCES=val_wiki.json ...`."""

from opql_jax import gin_utils
from opql_jax.evaluation.fewshot import probe

if __name__ == '__main__':
    gin_utils.run(probe)
