"""SeqIO tasks over the batches that opql_jax trains on; installed as `opql_jax_tasks`."""
