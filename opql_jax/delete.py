"""Deletes from a memory: `python -m opql_jax.delete --gin_file=gin/runs/delete.gin --gin.PREPARED_DIR=... --gin.MEMORY_DIR=... --document=p17`."""

from absl import flags

from opql_jax import gin_utils
from opql_jax.kb.update_memory import delete

flags.DEFINE_multi_string('entity', [], 'Name or key of an entity, all of whose entries go.')
flags.DEFINE_multi_string('pair', [], "'topic|target': entries of this pair in this direction go.")
flags.DEFINE_multi_string('document', [], 'Id of a document; what was read in it goes.')
flags.DEFINE_multi_integer('passage', [], 'Id of a passage; what was read in it goes.')
flags.DEFINE_multi_integer('entry', [], 'Id of an entry that goes.')

if __name__ == '__main__':
    gin_utils.run(
        delete,
        entities=lambda: tuple(flags.FLAGS.entity),
        pairs=lambda: tuple(flags.FLAGS.pair),
        documents=lambda: tuple(flags.FLAGS.document),
        passages=lambda: tuple(flags.FLAGS.passage),
        entries=lambda: tuple(flags.FLAGS.entry),
    )
