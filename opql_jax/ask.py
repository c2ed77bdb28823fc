"""Asks a virtual knowledge base: `python -m opql_jax.ask --gin_file=gin/runs/ask.gin --gin.KB=runs/x --hops=2 --question "who starred in the films directed by [X]"`."""

from opql_jax.core import preemption

if __name__ == '__main__':
    preemption.exit_on_signals()
    from absl import flags

    from opql_jax import gin_utils
    from opql_jax.kb.trained.ask import ask

    flags.DEFINE_multi_string('question', None, 'A question with its topic in square brackets; may be given several times.')
    flags.DEFINE_integer('hops', 1, 'Relations to follow from the topic to the answer.', lower_bound=1)
    flags.mark_flag_as_required('question')
    gin_utils.run(ask, questions=lambda: tuple(flags.FLAGS.question), hops=lambda: flags.FLAGS.hops)
