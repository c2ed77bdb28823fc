"""flax.linen modules: the relation encoder and the parameters of relation following."""
