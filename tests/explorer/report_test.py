"""The report page: its figures are those of the tables, and text is never markup in it."""

import html
import json
import os
import re

import pytest

from opql_jax import cli
from opql_jax.core.errors import InputError
from opql_jax.kb.text.index_text import index_text

from trios import TRIOS, write

pytest.importorskip('jinja2', reason='the extra app is not installed')
from opql_jax.explorer import report

HOSTILE = '</style><script>alert("1")</script> Öz'
BAD_FILE = '<img src=x onerror=alert(1)>.txt'
TEXTS = TRIOS['engine'].documents


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp('report')
    articles = write(root / 'articles', TEXTS)
    (articles / BAD_FILE).write_text('', encoding='utf-8')
    record = {'id': 'a"b<i>', 'title': HOSTILE, 'text': f'{HOSTILE} was built by Charles Babbage.'}
    (root / 'hostile.jsonl').write_text(json.dumps(record) + '\n', encoding='utf-8')
    texts = [articles, root / 'hostile.jsonl']
    index_text(texts, root / 'mine.kb', processes=1, max_reject_fraction=0.5)
    return root / 'mine.kb'


@pytest.fixture(scope='module')
def page(folder, tmp_path_factory):
    file = tmp_path_factory.mktemp('page') / 'report.html'
    report.write_report(folder, file)
    return file.read_text(encoding='utf-8')


def plain(markup):
    return html.unescape(re.sub('<.*?>', '', markup, flags=re.S)).strip()


@pytest.fixture(scope='module')
def tables(page):
    found = re.findall(r'<table.*?<caption.*?>(.*?)</caption>(.*?)</table>', page, re.S)
    cells = lambda row: list(map(plain, re.findall(r'<t[dh].*?>(.*?)</t[dh]>', row, re.S)))
    rows = lambda table: list(map(cells, re.findall('<tr.*?</tr>', table, re.S)))
    return {plain(name): rows(table) for name, table in found}


def test_the_counts_are_those_of_the_tables(tables, kb):
    pairs = {frozenset(pair) for pair in zip(kb.memory.topic.tolist(), kb.memory.target.tolist())}
    assert dict(tables['In all']).items() >= {
        ('Documents', f'{len(TEXTS) + 1}'),
        ('Passages', f'{len(kb.prepared.passages)}'),
        ('Mentions', f'{sum(map(len, kb.prepared.passages["mentions"].to_pylist()))}'),
        ('Entities', f'{len(kb.vocab)}'),
        ('Facts', f'{len(kb.memory)}'),
        ('Pairs of entities', f'{len(pairs)}'),
        ('Documents left out', '1'),
    }


def test_what_the_text_says_is_no_markup_and_nothing_is_loaded(page, tables):
    _, (reason, count) = tables['Why documents were left out']
    assert 'not blank' in reason and count == '1'
    assert tables['Documents that were left out'][1] == [f'articles/{BAD_FILE}', '', reason]
    assert HOSTILE in {cell for rows in tables.values() for row in rows for cell in row}
    elements = set(re.findall(r'<(\w+)', page))
    assert not elements & {'script', 'img', 'link', 'a', 'iframe', 'object', 'form', 'base'}
    assert not re.search(r'<[^>]*\b(src|href|on\w+|srcset|action)=', page)
    assert 'url(' not in page and '@import' not in page and '://' not in page
    assert "default-src 'none'" in page and page.count('<style>') == page.count('</style>') == 1


def test_the_command_writes_the_page_whole_and_through_no_link(folder, page, tmp_path, capsys):
    cli.main(['info', str(folder), '--html', str(tmp_path / 'report.html')])
    assert 'entities' in capsys.readouterr().out
    assert (tmp_path / 'report.html').read_text(encoding='utf-8') == page
    os.symlink(tmp_path / 'report.html', tmp_path / 'link.html')
    with pytest.raises(InputError, match='is a link'):
        report.write_report(folder, tmp_path / 'link.html')
