"""Spans as nested mentions have them: two are disjoint, or one lies in the other."""

from hypothesis import strategies as st


def nested_spans(length, max_size=8):
    """Different `(start, end)` in `[0, length]`, none empty, by start, outer ones first."""
    places = st.integers(0, length)
    spans = st.tuples(places, places).filter(lambda span: span[0] < span[1])
    return st.lists(spans, max_size=max_size, unique=True).map(_compatible)


def overlap(one, other):
    return one[0] < other[1] and other[0] < one[1]


def _compatible(spans):
    kept = []
    for a, b in sorted(spans, key=lambda span: (span[0], -span[1])):
        if all(not overlap((a, b), (c, d)) or (c <= a and b <= d) for c, d in kept):
            kept.append((a, b))
    return kept
