"""Numbers of many ranges at once."""

import numpy as np

from opql_jax.core.ranges import ranges


def test_ranges_are_those_of_numpy_one_after_the_other():
    rng = np.random.default_rng(0)
    for count in (0, 1, 20):
        starts, lengths = rng.integers(0, 100, count), rng.integers(0, 5, count)  # some are empty
        which, numbers = ranges(starts, lengths)
        assert numbers.tolist() == [
            i for start, length in zip(starts, lengths) for i in range(start, start + length)
        ]
        assert which.tolist() == [i for i, length in enumerate(lengths) for _ in range(length)]
