"""The text of HTML pages: what people read, and nothing else."""

import pytest

from opql_jax.core.processes import LimitedProcess
from opql_jax.corpus.documents import stated_date
from opql_jax.datasets.html_text import read_html
from opql_jax.datasets.text_file import document_of_file

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
    '<p>Ada<aside>Related<p>Bo</aside><footer>Acme</footer>': (None, 'Ada'),
    '<div role="navigation"><div>Home</div>Help</div>Ada<div role=contentinfo>Acme</div>':
        (None, 'Ada'),
    '<div role="dialog">We use cookies.</div><p>Ada<span aria-hidden="true">#</span>':
        (None, 'Ada'),
    '<span aria-hidden="false">Ada</span><footer>Acme</footer>': (None, 'Ada'),
    '<footer>Acme': (None, 'Acme'),
    '<nav>Home</nav><footer>Acme</footer>': (None, 'Home\nAcme'),
    '<nav>never<main>Ada</main><nav>Help</nav>': (None, 'Ada'),
}  # fmt: skip


@pytest.mark.parametrize('source', PAGES)
def test_a_page_is_its_title_and_its_paragraphs(source):
    assert read_html(source)[:2] == PAGES[source]


DATES = {
    '<meta property="article:published_time" content="2021-03-04T10:00:00Z"><p>It rained.':
        '2021-03-04',
    "<META CONTENT='2021/03/04' NAME='citation_publication_date'/>It rained.": '2021-03-04',
    '<meta name=dc.date content=2021-03-04>It rained.': '2021-03-04',
    '<p>It rained.<time itemprop="datePublished" datetime="2021-03-04">': '2021-03-04',
    '<h1>A walk</h1><p>By Ann Low, <time datetime="2021-03-04">4 March</time><p>It rained.':
        '2021-03-04',
    '<time datetime="2020-01-01">x</time><meta name="date" content="2021-03-04">': '2021-03-04',
    '<aside><time datetime="2020-01-01">x</time></aside><time datetime="2021-03-04">y</time>':
        '2021-03-04',
    '<p>Ada was born on <time datetime="1815-12-10">10 December</time>.': None,
    '<p>It rained.<p><time datetime="2021-03-04">then</time>': None,
    '<meta name="date" content="2021-02-30"><meta name="date" content="soon">x': None,
    '<meta name="description" content="2021-03-04">x': None,
}  # fmt: skip


@pytest.mark.parametrize('source', DATES)
def test_a_page_is_of_the_day_on_which_it_says_that_it_was_published(source):
    assert read_html(source).date == DATES[source]


@pytest.mark.parametrize('heading', ['<h1>A walk</h1>', ''])
def test_the_document_of_a_page_states_its_day_and_is_about_what_its_text_is(tmp_path, heading):
    documents = []
    for day in ('', '<meta name="date" content="2021-03-04">'):
        path = tmp_path / 'page.html'
        path.write_text(f'{day}{heading}<p>Ada Lovelace is a writer.<p>It rained.')
        with LimitedProcess('pages') as process:
            documents.append(document_of_file('page.html', path, process, frozenset()))
    undated, dated = documents
    assert [stated_date(each.text) for each in documents] == [None, '2021-03-04']
    assert (dated.title, dated.title_entity) == (undated.title, undated.title_entity)
    assert dated.text.endswith(undated.text)
