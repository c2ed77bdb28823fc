"""Scores relation embeddings on labelled sentences.

`python -m opql_jax.fewshot --gin_file=gin/runs/fewshot.gin --gin.SENTENCES=val_wiki.json ...`.
"""

from opql_jax.core import preemption

if __name__ == '__main__':
    preemption.exit_on_signals()
    from opql_jax import gin_utils
    from opql_jax.kb.trained.fewshot import evaluate_fewshot

    gin_utils.run(evaluate_fewshot)
