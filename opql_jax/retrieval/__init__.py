"""Ranks the passages that answer a question over several hops, without training: `index` holds them, `rank` ranks them."""
