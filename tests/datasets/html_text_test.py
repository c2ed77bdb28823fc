"""The text of HTML pages: what people read, and nothing else."""

import pytest

from opql_jax.datasets.html_text import read_html

PAGES = {
    '<title>Site</title><h1>Ada <b>Lovelace</b></h1><p>She met\n Babbage &amp; Byron.<p>In London.':
        ('Ada Lovelace', 'She met Babbage & Byron.\nIn London.'),
    '<head><title> A\n page </title><style>p {}</style></head><script>x = "<p>";</script>T<br>m':
        ('A page', 'T\nm'),
    '<h1>First</h1>a<h1>Second</h1>b': ('First', 'a\nSecond\nb'),
    '<title>Ada</title><svg><title>Search</title></svg><p>Love&shy;lace': ('Ada', 'Lovelace'),
    '<svg><title>Search</title></svg><title>A&shy;da</title>x': ('Ada', 'x'),
    '<ul><li>one<li>two</ul><td>x</td><td>y</td>': (None, 'one\ntwo\nx\ny'),
    '<table><tr><th>Ship<th>Port<tr><td>Tern<td>Hull</table>x':
        (None, '| Ship | Port |\n|---|---|\n| Tern | Hull |\nx'),
    '<table><tr><th>Captain:</th><td>Bo | Li</td></tr></table>': (None, 'Captain: Bo | Li'),
    '<dl><dt>Port</dt><dd>Hull</dd><dt>Crew<dd>a<dd>b</dl>': (None, 'Port: Hull\n| Crew | a | b |'),
    '<table><tr><td><p>one<p>two<td>x</table>': (None, 'one\ntwo\nx'),
    '<table><tr><td>a<table><tr><td>b<td>c|d</table>e</table>': (None, 'a\n| b | c\\|d |\ne'),
    '<script>never closed': (None, ''),
    '<nav><ul><li>Home<script>x</script><li>Help</ul></nav>Ada': (None, 'Ada'),
    '<nav><h1>Acme</h1>Home</nav><h1>Ada</h1>She': ('Ada', 'She'),
    '<nav>never closed<p>Ada': (None, 'never closed\nAda'),
    '<nav>never<main>Ada</main><nav>Help</nav>': (None, 'Ada'),
}  # fmt: skip


@pytest.mark.parametrize('source', PAGES)
def test_a_page_is_its_title_and_its_paragraphs(source):
    assert read_html(source) == PAGES[source]
