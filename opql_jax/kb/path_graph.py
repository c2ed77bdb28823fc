"""Paths as a picture (SVG): entities in columns, a hop to the right each, and facts as arrows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from opql_jax.kb.paths import Fact, Path

# Pixels: of a box, and from one to the next.
_WIDTH, _HEIGHT, _RIGHT, _DOWN, _MARGIN = 170, 30, 310, 54, 8
_LONGEST_NAME, _LONGEST_RELATION = 24, 20
# What XML cannot have, however it is escaped.
_NOT_XML = re.compile('[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]')

Node = tuple[int, str]


def draw(paths: Sequence[Path]) -> str:
    """An SVG element of paths, which share what they have in common, and end at the right.

    It has no style sheet, script or address in it; '' if there is no fact to draw.
    """
    hops = max(map(len, paths), default=0)
    if not hops:
        return ''
    arrows: dict[tuple[Node, Node], Fact] = {}
    for path in paths:
        for column, fact in enumerate(path, hops - len(path)):
            start, end = fact.ends
            arrow = (column, start), (column + 1, end)
            if arrow not in arrows or fact.weight > arrows[arrow].weight:
                arrows[arrow] = fact
    places = _places(list(arrows))
    width = _MARGIN * 2 + hops * _RIGHT + _WIDTH
    height = _MARGIN * 2 + max(y for _, y in places.values()) - _MARGIN + _HEIGHT
    drawn = [_arrow(places[start], places[end], fact) for (start, end), fact in arrows.items()]
    drawn += [_box(name, *place) for (_, name), place in places.items()]
    in_words = '; '.join(' → '.join(fact.ends) for fact in arrows.values())
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" role="img" '
        f'aria-label="{xml_text(in_words)}" viewBox="0 0 {width} '
        f'{height:g}" width="{width}" height="{height:g}" font-family="system-ui, sans-serif" '
        f'font-size="13" fill="currentColor">{"".join(drawn)}</svg>'
    )


def _places(arrows: Sequence[tuple[Node, Node]]) -> dict[Node, tuple[float, float]]:
    """The upper left corners of boxes, column by column in order, in the picture's middle."""
    nodes = list(dict.fromkeys(node for arrow in arrows for node in arrow))
    columns: dict[int, list[Node]] = {}
    for node in nodes:
        columns.setdefault(node[0], []).append(node)
    most = max(map(len, columns.values()))
    places: dict[Node, tuple[float, float]] = {}
    for column, members in columns.items():
        first = _MARGIN + (most - len(members)) * _DOWN / 2
        for row, node in enumerate(members):
            places[node] = _MARGIN + column * _RIGHT, first + row * _DOWN
    return places


def _box(name: str, x: float, y: float) -> str:
    return (
        f'<g><title>{xml_text(name)}</title><rect x="{x:g}" y="{y:g}" width="{_WIDTH}" '
        f'height="{_HEIGHT}" rx="6" fill="none" stroke="currentColor"/><text '
        f'x="{x + _WIDTH / 2:g}" y="{y + _HEIGHT / 2 + 4.5:g}" '
        f'text-anchor="middle">{short(name, _LONGEST_NAME)}</text></g>'
    )


def _arrow(start: tuple[float, float], end: tuple[float, float], fact: Fact) -> str:
    """A line with a head between boxes, the thicker the heavier, and the relation on it."""
    (x0, y0), (x1, y1) = (start[0] + _WIDTH, start[1] + _HEIGHT / 2), (end[0], end[1] + _HEIGHT / 2)
    bend = (x0 + x1) / 2
    # On the curve, nearer to its end: arrows from one box are further apart there.
    x, y = bend + 0.072 * (x1 - x0), y0 + 0.648 * (y1 - y0)
    relation = None if fact.relation is None else '^' * fact.inverse + fact.relation
    label = f'{fact.weight:.2f}' if relation is None else relation
    thickness = 1 + 2 * min(max(fact.weight, 0), 1)
    return (
        f'<g><title>{xml_text(str(fact))}</title><path d="M {x0:g} {y0:g} C {bend:g} {y0:g} '
        f'{bend:g} {y1:g} {x1 - 6:g} {y1:g}" fill="none" stroke="currentColor" '
        f'stroke-width="{thickness:.2f}" stroke-opacity="0.6"/><path d="M {x1 - 7:g} {y1 - 4:g} L '
        f'{x1:g} {y1:g} L {x1 - 7:g} {y1 + 4:g} z"/><text x="{x:g}" y="{y - 6:g}" '
        f'text-anchor="middle" font-size="11">{short(label, _LONGEST_RELATION)}</text></g>'
    )


def short(text: str, longest: int) -> str:
    """A text for a picture, cut if it is longer than so many characters."""
    return xml_text(text if len(text) <= longest else text[: longest - 1].rstrip() + '…')


def xml_text(text: str) -> str:
    """A text as XML writes it, also in an attribute."""
    return escape(_NOT_XML.sub('\ufffd', text))
