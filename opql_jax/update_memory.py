"""Updates a memory.

`python -m opql_jax.update_memory --gin_file=gin/runs/update_memory.gin --gin.KB=runs/x
--gin.ACTION=inject ...`.
"""

from opql_jax.core import preemption

if __name__ == '__main__':
    preemption.exit_on_signals()
    from absl import flags

    from opql_jax import gin_utils
    from opql_jax.kb.update_memory import Selection, update_memory

    flags.DEFINE_multi_string(
        'entity',
        [],
        'With ACTION=delete: name or key of an entity, all of whose entries are deleted.',
    )
    flags.DEFINE_multi_string(
        'pair',
        [],
        "With ACTION=delete: 'topic|target'; entries of this pair in this direction are deleted.",
    )
    flags.DEFINE_multi_string(
        'document', [], 'With ACTION=delete: id of a document; what was read in it is deleted.'
    )
    flags.DEFINE_multi_integer(
        'passage', [], 'With ACTION=delete: id of a passage; what was read in it is deleted.'
    )
    flags.DEFINE_multi_integer('entry', [], 'With ACTION=delete: id of an entry that is deleted.')

    def selection() -> Selection:
        """What the flags name."""
        values = flags.FLAGS
        return Selection(
            *map(tuple, (values.entity, values.pair, values.document, values.passage, values.entry))
        )

    gin_utils.run(update_memory, multi_process=True, selection=selection)
