"""Batches of each training objective, as a function of (seed, step, shard): one file an objective, over `base.Source`."""
