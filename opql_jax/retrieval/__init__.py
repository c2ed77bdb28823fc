"""Ranks passages that answer multi-hop questions, without training: `index` and `rank`."""
