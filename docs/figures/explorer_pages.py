"""Draws the explorer's pages: an answer with citations, and a graph of neighbours.

The knowledge base is that of the sample articles.

PYTHONPATH=. .venv/bin/python docs/figures/explorer_pages.py

The words and the graphs are those of the pages; what a browser adds (fonts, links) is left to it.
"""

import pathlib
import re
import sys
import tempfile
import textwrap

import opql_jax
from opql_jax.explorer import entity_graph, views
from opql_jax.explorer.rendering import STATIC
from opql_jax.kb.path_graph import xml_text
from opql_jax.kb.text.index_text import index_text
from opql_jax.kb.virtual_kb import VirtualKB

HERE = pathlib.Path(__file__).resolve().parent
ARTICLES = HERE.parents[1] / 'opql_jax' / 'sample' / 'articles'
QUESTION = 'Where was the painter of Harbour at Dusk born?'
ENTITY = 'Clara Whitcombe'
WIDTH, LINE, CHARACTERS = 900, 22, 112
ACCENT, QUIET, MARK, LINE_COLOUR, TEXT, PAPER = (
    '#0b5c8a',
    '#55606e',
    '#fde9a9',
    '#d9d5cc',
    '#1b2430',
    '#fdfcf9',
)


class Drawing:
    """Lines of text from top to bottom, as an SVG.

    Attributes:
        y: where the next line stands.
    """

    def __init__(self):
        self.y, self._parts = 40, []

    def line(
        self, text: str, size: int = 14, colour: str = TEXT, x: int = 40, bold: bool = False
    ) -> None:
        weight = ' font-weight="600"' if bold else ''
        self._parts.append(
            f'<text x="{x}" y="{self.y}" font-size="{size}" fill="{colour}"{weight}>'
            f'{xml_text(text)}</text>'
        )
        self.y += LINE

    def rect(
        self, x: int, y: int, width: float, height: int, fill: str, stroke: str = 'none'
    ) -> None:
        self._parts.append(
            f'<rect x="{x}" y="{y}" width="{width:g}" height="{height}" rx="4" fill="{fill}" '
            f'stroke="{stroke}"/>'
        )

    def embed(self, svg: str) -> None:
        width, height = (
            float(number) for number in re.findall(r' (?:width|height)="([\d.]+)"', svg)[:2]
        )
        scale = min((WIDTH - 80) / width, 1)
        # The size of the whole picture counts.
        inner = re.sub(r' (?:width|height)="[\d.]+"', '', svg, count=2)
        inner = inner.replace(
            '<svg ',
            (
                f'<svg x="40" y="{self.y}" width="{width * scale:g}" height="{height * scale:g}" '
                f'color="{TEXT}" '
            ),
            1,
        )
        self._parts.append(inner)
        self.y += round(height * scale) + LINE

    def svg(self, description: str) -> str:
        return (
            '<svg xmlns="http://www.w3.org/2000/svg" role="img" '
            f'aria-label="{xml_text(description)}" viewBox="0 0 {WIDTH} {self.y}" width="{WIDTH}" '
            f'height="{self.y}" font-family="system-ui, sans-serif"><rect width="{WIDTH}" '
            f'height="{self.y}" fill="{PAPER}" stroke="{LINE_COLOUR}"/>{"".join(self._parts)}</svg>'
            '\n'
        )


def draw_answer(kb: VirtualKB) -> str:
    """The page of an answer: the first one, the sentences that it rests on, and its path."""
    answered = views.ask(kb, QUESTION)
    best, drawing = answered.found[0], Drawing()
    drawing.line('sample.kb', bold=True)
    drawing.y -= LINE
    drawing.line('Entities     Documents     Map     API', colour=ACCENT, x=WIDTH - 300)
    drawing.y += 16
    drawing.line(QUESTION, 22, bold=True)
    drawing.y += 8
    numbers = ' '.join(f'[{step.number}]' for step in best.path)
    stated = textwrap.wrap(f'{best.path[-1].fact.sentence} {numbers}', CHARACTERS - 4)
    height = 44 + LINE * len(stated)
    drawing.rect(40, drawing.y - 8, WIDTH - 80, height, 'none', LINE_COLOUR)
    drawing.rect(40, drawing.y - 8, 4, height, ACCENT)
    drawing.y += 16
    probability = f'{best.member.kind} · probability {best.member.probability:.2f}'
    drawing.line(best.member.name, 22, ACCENT, 60, bold=True)
    drawing.y -= LINE
    drawing.line(probability, 13, QUIET, 60 + 15 * len(best.member.name))
    for text in stated:
        drawing.line(text, x=60)
    drawing.y += 22
    drawing.line('Where that was read', 15, bold=True)
    for number, one in enumerate(answered.citations[: answered.first], 1):
        lines = textwrap.wrap(f'{number}.  {one.sentence}', CHARACTERS)
        for text in lines:
            drawing.rect(52, drawing.y - 15, min(6.4 * len(text) + 8, WIDTH - 100), 20, MARK)
            drawing.line(text, x=54)
        drawing.line(f'— {one.title}', 13, ACCENT, 74)
    drawing.y += 6
    drawing.embed(views.path_graph.draw([[step.fact for step in best.path]]))
    drawing.line(f'▸ {len(answered.found) - 1} others', 14, ACCENT)
    return drawing.svg(
        f'{QUESTION} {best.member.name}, {probability}, and {answered.first} citations'
    )


def draw_neighbours(kb: VirtualKB) -> str:
    """The graph of an entity's page, with the colours of the style sheet, and without its links."""
    (entity,) = kb.entity(ENTITY).entities.tolist()
    graph = entity_graph.draw_neighbours(kb, entity, entity_graph.neighbours(kb, entity))
    style = (STATIC / 'style.css').read_text(encoding='utf-8')
    colours = ' '.join(re.findall(r'\.kind-\w+ \{ color: #\w+; \}', style))
    rules = (
        f'{colours} line {{ stroke: {QUIET}; stroke-opacity: .55 }} .faint {{ stroke-opacity: .25 '
        f'}} rect {{ fill: {PAPER}; stroke: currentColor; stroke-width: 2 }} text {{ fill: {TEXT} '
        f'}} .middle text {{ font-weight: 600 }}'
    )
    graph = re.sub(r'<a href="[^"]*">|</a>', '', graph)
    return (
        re.sub(
            r'(<svg [^>]*)>',
            rf'\1 font-family="system-ui, sans-serif"><style>{rules}</style>',
            graph,
            count=1,
        )
        + '\n'
    )


def main() -> None:
    """Draws both, of the knowledge base in a folder, or of one that is made for it."""
    with tempfile.TemporaryDirectory() as folder:
        if not sys.argv[1:]:
            index_text([ARTICLES], f'{folder}/sample.kb')
        kb = opql_jax.open(sys.argv[1] if sys.argv[1:] else f'{folder}/sample.kb')
        (HERE / 'explorer.svg').write_text(draw_answer(kb), encoding='utf-8')
        (HERE / 'neighbours.svg').write_text(draw_neighbours(kb), encoding='utf-8')


if __name__ == '__main__':
    main()
