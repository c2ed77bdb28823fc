"""Makes open questions of other formats.

`python -m opql_jax.convert_questions --gin_file=gin/runs/convert_questions.gin --gin.KB=runs/x
...`.
"""

from opql_jax.core import preemption

if __name__ == '__main__':
    preemption.exit_on_signals()
    from opql_jax import gin_utils
    from opql_jax.data.question_conversion import convert_questions

    gin_utils.run(convert_questions)
