"""Batches of each training objective by (seed, step, shard), all over `base.Source`."""
