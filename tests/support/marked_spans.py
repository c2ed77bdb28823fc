"""Spans of a text that square brackets mark in it: `[name]` or, with its kind, `[name|kind]`."""

from opql_jax.corpus.spans import Span


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
