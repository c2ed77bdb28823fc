"""Entities as SVGs whose nodes are links: the neighbours of one, and a map of those read most."""

import collections
import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any
from urllib.parse import urlencode

import numpy as np

from opql_jax.corpus.spans import VALUES
from opql_jax.kb.path_graph import short, xml_text
from opql_jax.kb.virtual_kb import VirtualKB

# Neighbours that are drawn, and entities of the map.
NEIGHBOURS, MAPPED = 14, 60
# Colours of clusters, which the style sheet has.
HALOS = 6
# Kinds with a colour of their own, which is the same in all corpora; the style sheet has it. Others
# share one.
COLOURED = 'person place organisation work event group date quantity concept thing'.split()
_SIZE, _MAP_SIZE = (900, 520), (1160, 760)
_LONGEST_NAME = 22
# Pixels of a character of a label, and of its line.
_CHARACTER, _LINE = 7.6, 22
# Pixels around an entity that have the shade of its cluster.
_SHADE = 58
# Steps of the layout of the map, and those that part labels which overlap.
_STEPS, _PARTING = 300, 2_000
# The share of its pull that a fact keeps between clusters, and edges of an entity that are drawn.
_BETWEEN, _EDGES = 0.15, 3


def neighbours(kb: VirtualKB, entity: int) -> dict[int, int]:
    """The entities that facts lead to from one, and how many, those with most facts first."""
    assert kb.memory is not None  # that of plain text
    start, end = map(int, kb.memory.offsets[entity : entity + 2])
    targets, counts = np.unique(kb.memory.target[start:end], return_counts=True)
    order = np.argsort(-counts, kind='stable')
    return {int(targets[at]): int(counts[at]) for at in order if targets[at] != entity}


def draw_neighbours(kb: VirtualKB, entity: int, found: Mapping[int, int]) -> str:
    """An SVG of an entity with neighbours around it, by kind; '' if it has none."""
    kinds = kb.vocab.kinds
    shown = sorted(found, key=lambda one: (_colour(kinds[one]), -found[one]))
    if not shown:
        return ''
    middle = np.array(_SIZE) / 2
    places = {entity: middle}
    for number, one in enumerate(shown):
        angle = 2 * math.pi * number / len(shown) - math.pi / 2
        places[one] = middle + (middle - [110, 30]) * [math.cos(angle), math.sin(angle)]
    among = {pair: count for pair, count in _pairs(kb, list(places)).items() if entity not in pair}
    edges = {(entity, one): found[one] for one in shown} | among
    described = f'{kb.vocab.names[entity]} and {len(shown)} neighbours'
    return _svg(kb, places, edges, described, _SIZE, middle=entity)


def draw_map(kb: VirtualKB) -> dict[str, Any]:
    """An SVG of the most mentioned entities, near those mentioned with them, and clusters.

    Also names that belong together, that with most facts first, and kinds with their colours.

    The layout draws together what facts connect, most of all within a cluster, and keeps all else
    apart (Fruchterman and Reingold), from a circle in the order of clusters, so that it is the same
    each time. Of an entity only the edges with most facts are drawn.
    """
    entities = most_read(kb, MAPPED)
    pairs = _pairs(kb, entities)
    clusters = _clusters(entities, pairs)
    places = _without_overlaps(kb, _layout(clusters, pairs))
    kept: set[tuple[int, int]] = set()
    for entity in entities:
        own = [pair for pair in pairs if entity in pair]
        kept.update(sorted(own, key=lambda pair: -pairs[pair])[:_EDGES])
    edges = {pair: count for pair, count in pairs.items() if pair in kept}
    described = f'A map of {len(entities)} entities in {len(clusters)} clusters'
    picture = _svg(kb, places, edges, described, _MAP_SIZE, halos=clusters)
    names = [[kb.linker.unique_name(entity) for entity in cluster] for cluster in clusters]
    legend = colours([kb.vocab.kinds[entity] for entity in entities])
    return {'picture': picture, 'clusters': names, 'legend': legend}


def colours(kinds: Sequence[str]) -> list[tuple[str, str]]:
    """For the legend, the kinds that there are, each with the class of its colour."""
    there = [(kind, _colour(kind)) for kind in COLOURED if kind in kinds]
    other = [('other', 'kind-other')] if set(kinds) - set(COLOURED) else []
    return there + other


def _colour(kind: str) -> str:
    return f'kind-{kind}' if kind in COLOURED else 'kind-other'


def most_read(kb: VirtualKB, most: int) -> list[int]:
    """The entities with most facts, but for dates and quantities."""
    assert kb.memory is not None
    counts, kinds = np.diff(kb.memory.offsets), kb.vocab.kinds
    rows = np.argsort(-counts, kind='stable').tolist()
    return [row for row in rows if counts[row] and kinds[row] not in VALUES][:most]


def _pairs(kb: VirtualKB, entities: Sequence[int]) -> dict[tuple[int, int], int]:
    """How many facts there are between two of the entities, by their pair in rising order."""
    assert kb.memory is not None
    memory, wanted = kb.memory, np.array(sorted(entities))
    pairs: collections.Counter[tuple[int, int]] = collections.Counter()
    for topic in entities:
        targets = np.asarray(memory.target[memory.offsets[topic] : memory.offsets[topic + 1]])
        for target in targets[np.isin(targets, wanted)].tolist():
            if topic < target:  # each fact is there in both directions
                pairs[topic, target] += 1
    return dict(pairs)


def _clusters(entities: Sequence[int], pairs: dict[tuple[int, int], int]) -> list[list[int]]:
    """Clusters, the one with most entities first; in each the entities in their order.

    Those two are joined, again and again, that have most facts beyond what chance would give them:
    as long as the modularity grows (Clauset, Newman and Moore).
    """
    weights = _weights(entities, pairs)
    share = weights / max(weights.sum(), 1)
    clusters = [[entity] for entity in entities]
    while len(clusters) > 1:
        gain = share - np.outer(share.sum(0), share.sum(0))
        np.fill_diagonal(gain, -1)
        left, right = sorted(map(int, np.unravel_index(gain.argmax(), gain.shape)))
        if gain[left, right] <= 0:
            break
        share[left] += share[right]
        share[:, left] += share[:, right]
        share = np.delete(np.delete(share, right, 0), right, 1)
        clusters[left] += clusters.pop(right)
    order = {entity: number for number, entity in enumerate(entities)}
    return sorted((sorted(one, key=order.__getitem__) for one in clusters), key=len, reverse=True)


def _weights(entities: Sequence[int], pairs: dict[tuple[int, int], int]) -> np.ndarray:
    """How many facts there are between entities: [n, n], in their order."""
    row = {entity: number for number, entity in enumerate(entities)}
    weights = np.zeros((len(entities), len(entities)))
    for (left, right), count in pairs.items():
        weights[row[left], row[right]] = weights[row[right], row[left]] = count
    return weights


def _layout(
    clusters: Sequence[Sequence[int]], pairs: dict[tuple[int, int], int]
) -> dict[int, np.ndarray]:
    """Places in the picture of the entities of clusters."""
    entities = [entity for cluster in clusters for entity in cluster]
    of = np.repeat(np.arange(len(clusters)), [len(cluster) for cluster in clusters])
    count, weights = len(entities), _weights(entities, pairs)
    angles = 2 * np.pi * np.arange(count) / max(count, 1)
    places = np.stack([np.cos(angles), np.sin(angles)], 1) * 0.5
    pull = np.where(weights > 0, 1 + np.log(np.maximum(weights, 1)), 0)
    pull = np.where(of[:, None] == of[None], pull + 0.2, pull * _BETWEEN)
    ideal = 1 / math.sqrt(max(count, 1))
    for step in range(_STEPS):
        between = places[:, None] - places[None]
        distance = np.maximum(np.linalg.norm(between, axis=-1), 1e-3)
        force = ideal**2 / distance**2 - pull * distance / ideal
        np.fill_diagonal(force, 0)
        # What no fact connects is held by a weak pull to the middle.
        move = (between * force[..., None]).sum(1) - places * 0.3
        length = np.maximum(np.linalg.norm(move, axis=1, keepdims=True), 1e-9)
        places += move / length * np.minimum(length, 0.1 * (1 - step / _STEPS))
    low, high = places.min(0), places.max(0)
    unit = (places - low) / np.maximum(high - low, 1e-9)
    scaled = unit * (np.array(_MAP_SIZE) - [220, 80]) + [110, 40]
    return dict(zip(entities, scaled))


def _without_overlaps(kb: VirtualKB, places: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
    """The places, with those whose labels overlap moved apart, up or down or sideways."""
    entities = list(places)
    centres = np.stack([places[entity] for entity in entities]) if entities else np.zeros((0, 2))
    widths = [_label_width(kb.vocab.names[entity]) for entity in entities]
    half = np.array([[width / 2 + 8, _LINE / 2 + 7] for width in widths]).reshape(-1, 2)
    sign = np.where(np.arange(len(entities))[:, None] < np.arange(len(entities))[None], -1.0, 1.0)
    for _ in range(_PARTING):
        between = centres[:, None] - centres[None]
        overlap = half[:, None] + half[None] - np.abs(between)
        overlap[np.arange(len(entities)), np.arange(len(entities))] = 0
        both = (overlap > 0).all(-1)
        if not both.any():
            break
        direction = np.where(between == 0, sign[..., None], np.sign(between))
        sideways = overlap[..., 0] < overlap[..., 1]
        push = np.stack([overlap[..., 0] * sideways, overlap[..., 1] * ~sideways], -1)
        push *= direction * both[..., None] / 2
        edge = np.maximum(half, _SHADE)
        centres = np.clip(centres + push.sum(1) * 0.6, edge, np.array(_MAP_SIZE) - edge)
    return dict(zip(entities, centres))


def _label_width(name: str) -> float:
    return min(len(name), _LONGEST_NAME) * _CHARACTER + 16


def _svg(
    kb: VirtualKB,
    places: dict[int, np.ndarray],
    edges: dict[tuple[int, int], int],
    description: str,
    size: tuple[int, int],
    middle: int | None = None,
    halos: Sequence[Sequence[int]] = (),
) -> str:
    drawn = []
    for number, cluster in enumerate(halos):
        if len(cluster) > 1:
            shades = (
                f'<circle cx="{x:.0f}" cy="{y:.0f}" r="{_SHADE}"/>'
                for x, y in map(places.__getitem__, cluster)
            )
            drawn.append(f'<g class="halo halo-{number % HALOS}">{"".join(shades)}</g>')
            x, y = min(map(places.__getitem__, cluster), key=lambda place: place[1])
            drawn.append(f'<text class="cluster" x="{x:.0f}" y="{y - 30:.0f}">{number + 1}</text>')
    drawn += [_edge(kb, pair, places, count, middle) for pair, count in edges.items()]
    drawn += [_node(kb, entity, x, y, entity == middle) for entity, (x, y) in places.items()]
    return (
        '<svg class="graph" xmlns="http://www.w3.org/2000/svg" role="group" '
        f'aria-label="{xml_text(description)}" viewBox="0 0 {size[0]} {size[1]}" '
        f'width="{size[0]}" height="{size[1]}" font-size="13">{"".join(drawn)}</svg>'
    )


def _edge(
    kb: VirtualKB,
    pair: tuple[int, int],
    places: dict[int, np.ndarray],
    count: int,
    middle: int | None,
) -> str:
    (x0, y0), (x1, y1) = (places[entity] for entity in pair)
    names = ' and '.join(xml_text(kb.vocab.names[entity]) for entity in pair)
    faint = ' class="faint"' if middle is not None and middle not in pair else ''
    return (
        f'<line{faint} x1="{x0:.0f}" y1="{y0:.0f}" x2="{x1:.0f}" y2="{y1:.0f}" '
        f'stroke-width="{1 + math.log(count):.1f}"><title>{names}: {count} '
        f'{"fact" if count == 1 else "facts"}</title></line>'
    )


def _node(kb: VirtualKB, entity: int, x: float, y: float, is_middle: bool) -> str:
    name, kind = kb.vocab.names[entity], kb.vocab.kinds[entity]
    width = _label_width(name) * (1.1 if is_middle else 1)  # its letters are bold
    address = escape(f'/entity?{urlencode({"name": kb.linker.unique_name(entity)})}')
    shape = (
        f'<title>{xml_text(name)}, {xml_text(kind)}</title><rect class="{_colour(kind)}" '
        f'x="{x - width / 2:.0f}" y="{y - _LINE / 2:.0f}" width="{width:.0f}" height="{_LINE}" '
        f'rx="11"/><text x="{x:.0f}" y="{y + 4.5:.0f}" '
        f'text-anchor="middle">{short(name, _LONGEST_NAME)}</text>'
    )
    return f'<g class="middle">{shape}</g>' if is_middle else f'<a href="{address}">{shape}</a>'
