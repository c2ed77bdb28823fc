"""Answers question sets and scores the answers.

`python -m opql_jax.eval --gin_file=gin/runs/eval.gin --gin.KB=runs/x --gin.QUESTIONS=2-hop/dev
...`.
"""

from opql_jax.core import preemption

if __name__ == '__main__':
    preemption.exit_on_signals()
    from opql_jax import gin_utils
    from opql_jax.kb.trained.question_sets import evaluate

    gin_utils.run(evaluate, multi_process=True)
