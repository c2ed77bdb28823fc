"""Answers a file of questions.

`python -m opql_jax.infer --gin_file=gin/runs/infer.gin --gin.KB=runs/x --gin.QUESTIONS=mine.jsonl
--gin.OUTPUT=...`.
"""

from opql_jax.core import preemption

if __name__ == '__main__':
    preemption.exit_on_signals()
    from opql_jax import gin_utils
    from opql_jax.kb.trained.question_sets import infer

    gin_utils.run(infer, multi_process=True)
