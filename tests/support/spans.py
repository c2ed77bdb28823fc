"""Spans of a text: those that brackets mark, and those that nested mentions have."""

from hypothesis import strategies as st

from opql_jax.corpus.spans import Span


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


def named(text, spans):
    return [text[span.start : span.end] for span in spans]


def marked(text, kind='name', kinds=None):
    plain, spans = '', []
    for i, piece in enumerate(text.replace(']', '[').split('[')):
        if i % 2:
            piece, _, told = piece.partition('|')
            told = told or (kinds or {}).get(piece, kind)
            spans.append(Span(len(plain), len(plain) + len(piece), told))
        plain += piece
    return plain, spans
