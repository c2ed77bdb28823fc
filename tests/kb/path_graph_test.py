"""Pictures of paths: what is in them, whatever the names; boxes do not overlap."""

import re
import xml.etree.ElementTree as ET

from opql_jax.kb.path_graph import draw
from opql_jax.kb.paths import Fact

SVG = '{http://www.w3.org/2000/svg}'
SAID = 'Solberg directed Night Ferry.'
DIRECTED = Fact('Solberg', 'Night Ferry', 1.0, 'directed', title='Night Ferry', sentence=SAID)
STARRING = Fact('Night Ferry', 'Lind', 0.25, 'starring')


def texts(svg):
    return [element.text for element in ET.fromstring(svg).iter(f'{SVG}text')]


def boxes(svg):
    return [
        tuple(float(box.get(name)) for name in ('x', 'y', 'width', 'height'))
        for box in ET.fromstring(svg).iter(f'{SVG}rect')
    ]


def test_a_path_is_boxes_and_arrows_with_relations():
    assert draw([]) == draw([()]) == draw([(), ()]) == ''  # no facts, no picture
    svg = draw([(DIRECTED, STARRING)])
    assert texts(svg) == ['directed', 'starring', 'Solberg', 'Night Ferry', 'Lind']
    columns = [x for x, *_ in boxes(svg)]
    assert columns == sorted(set(columns))
    assert SAID in [title.text.split(': ')[-1] for title in ET.fromstring(svg).iter(f'{SVG}title')]


def test_boxes_are_apart_and_inside():
    two = lambda i: (Fact('a', f'b{i}', 0.1, 'r'), Fact(f'b{i}', f'c{i % 3}', 0.2, 's'))
    svg = draw(list(map(two, range(7))))
    root, all_boxes = ET.fromstring(svg), boxes(svg)
    assert len(all_boxes) == 1 + 7 + 3
    for number, (x, y, width, height) in enumerate(all_boxes):
        assert 0 <= x <= float(root.get('width')) - width
        assert 0 <= y <= float(root.get('height')) - height
        for other_x, other_y, *_ in all_boxes[:number]:
            assert abs(x - other_x) >= width or abs(y - other_y) >= height


def test_whatever_names_are_called_it_is_a_picture_and_nothing_else():
    evil = '</title><script>alert("1" & \'2\')</script>\x00\x1b\ud800\uffff'
    where = dict(title=evil, document=evil, sentence=evil * 3)
    spans = dict(topic_span=(0, 9), target_span=(2, 50))
    svg = draw([(Fact(evil, evil * 9, float('nan'), evil, **where, **spans),)])
    tags = {element.tag.removeprefix(SVG) for element in ET.fromstring(svg).iter()}
    assert tags == {'svg', 'g', 'title', 'rect', 'text', 'path'}
    assert not re.search(r'<script|href|url\(|on\w+=', svg)
    assert all(len(text) <= 24 for text in texts(svg))
