"""Makes open questions of other formats: `python -m opql_jax.convert_questions --gin_file=gin/runs/convert_questions.gin ...`."""

from opql_jax import gin_utils
from opql_jax.data.open_questions import convert_questions

if __name__ == '__main__':
    gin_utils.run(convert_questions)
