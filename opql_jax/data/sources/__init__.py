"""Batches of each training objective by (seed, step, shard): one file an objective.

All are over `base.Source`.
"""
