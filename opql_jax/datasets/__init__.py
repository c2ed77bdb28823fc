"""Public data sets and your own text: one file each, with the reader that `prepare` takes (see `readers`)."""
