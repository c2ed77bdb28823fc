"""Public data sets and your own text: one file each, with its reader (see `readers`)."""
