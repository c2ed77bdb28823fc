"""Documents that were made to fill up memory or time are rejected, and the others are read.

They are read in a process that has a few times the memory that they may take.
"""

import gc
import gzip
import itertools
import json
import os
import re
import subprocess
import sys
import time
import zlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from opql_jax.core.errors import InputError
from opql_jax.corpus.casing import Dictionary, cased
from opql_jax.corpus.defined_terms import defined_terms
from opql_jax.corpus.documents import Document, Mention
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.layout import cleaned, unfilled
from opql_jax.corpus.linking import MentionLinker
from opql_jax.corpus.name_resolution import resolve
from opql_jax.corpus.pronouns import pronouns
from opql_jax.corpus.recognition import refine
from opql_jax.corpus.spans import Span
from opql_jax.corpus.speakers import first_persons, turns
from opql_jax.corpus.statements import restated
from opql_jax.datasets import expansion
from opql_jax.datasets.html_text import read_html
from opql_jax.datasets.wikipedia import dump

from read_texts import pdf

MIB = 1 << 20
GOOD = 'Ada Lovelace was a mathematician of London. '
READ = """
import pathlib, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
from opql_jax.datasets import expansion
from opql_jax.datasets.plain_text import PlainText
from opql_jax.core.errors import InputError
root, expansion.FREE = pathlib.Path(sys.argv[1]), int(sys.argv[2])
for folder in sorted(root.iterdir()):
    try:
        documents = PlainText((str(folder / 'texts'),), max_reject_fraction=0.99).documents(folder / 'rejected.jsonl')
        (folder / 'said').write_text('\\n'.join(document.id for document in documents))
    except InputError as error:
        (folder / 'said').write_text(f'InputError: {error}')
peak = next(line for line in open('/proc/self/status') if line.startswith('VmHWM'))
print(int(peak.split()[1]) >> 10, file=sys.stderr)
"""  # noqa: E501


def read_each(tmp_path, sets, free=expansion.FREE):
    """Of each set of files the ids of its documents and the reasons of those rejected.

    Takes 1500 MiB at most; `free` are the bytes that a small file may hold.
    """
    folders = [tmp_path / f'{number:03}' for number in range(len(sets))]
    for folder, files in zip(folders, sets):
        (folder / 'texts').mkdir(parents=True)
        for name, content in files.items():
            (folder / 'texts' / name).write_bytes(content)
    command, environment = [sys.executable, '-c', READ, tmp_path, str(free)], dict(os.environ)
    environment |= {'OMP_NUM_THREADS': '1'}
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
    assert int(run.stderr.split()[-1]) < 1500
    return [((f / 'said').read_text(), rejected(f / 'rejected.jsonl')) for f in folders]


def rejected(path):
    rows = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
    return {row['file'].removeprefix('texts/'): row['reason'] for row in rows}


# PDF.


def stream(data, filters='', more=''):
    head = f'<< /Length {len(data)} /Filter [{filters}] {more} >>\nstream\n'
    return head.encode() + data + b'\nendstream'


FONT = '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>'
CATALOG = '<< /Type /Catalog /Pages 2 0 R >>'


def page(contents, resources='/Font << /F 3 0 R >>'):
    shown = f'/MediaBox [0 0 9 9] /Contents {contents} 0 R /Resources << {resources} >>'
    return f'<< /Type /Page /Parent 2 0 R {shown} >>'


def node(kids):
    return f'<< /Type /Pages /Kids [{" ".join(f"{k} 0 R" for k in kids)}] /Count {len(kids)} >>'


def pages(content, count=1, resources='/Font << /F 3 0 R >>', more=()):
    """A PDF of `count` pages that show one stream, the object 4."""
    tree = node(range(5, 5 + count))
    return pdf(CATALOG, tree, FONT, content, *[page(4, resources)] * count, *more)


def inflating(mib, times=1):
    data = b'BT /F 12 Tf (Ada) Tj ET ' + b' ' * (mib * MIB)
    for _ in range(times):
        data = zlib.compress(data, 1)
    return stream(data, '/FlateDecode ' * times)


def forms(depth):
    """A page whose form shows the next one twice, and so on."""
    both = (
        '/Type /XObject /Subtype /Form /BBox [0 0 1 1] /Resources << /Font << /F 3 0 R >> /XObject '
        '<< /X {} 0 R >> >>'
    )
    chain = [stream(b'/X Do /X Do', more=both.format(7 + i)) for i in range(depth)]
    last, shown = stream(b'BT /F 12 Tf (Ada) Tj ET', more=both.format(3)), stream(b'/X Do')
    return pages(shown, 1, '/Font << /F 3 0 R >> /XObject << /X 6 0 R >>', [*chain, last])


def tree(depth, *kids):
    """Nodes of pages that each have the next one as often as `kids` says."""
    return pdf(CATALOG, *(node([i + k for k in kids]) for i in range(2, 2 + depth)), FONT)


PDFS = {
    'inflates to 100 MiB': lambda: pages(inflating(100)),
    'inflates twice': lambda: pages(inflating(100, 2)),
    'names 10,000 filters': lambda: pages(stream(b'x', '/FlateDecode ' * 10_000)),
    'shows forms 2^20 times': lambda: forms(20),
    'is a tree of itself': lambda: tree(1, 0, 0),
    'is a deep tree': lambda: tree(3000, 1),
    'is a tree of 2^24 pages': lambda: tree(24, 1, 1),
    'is a deep array': lambda: pages(stream(b'[' * 100_000)),
    'is a deep dictionary': lambda: pdf(CATALOG, '<< /A ' * 50_000),
    'has strings in strings': lambda: pages(stream(b'BT /F 12 Tf ' + b'(' * 50_000)),
}


def test_a_pdf_that_is_a_bomb_is_rejected_and_the_others_are_read(tmp_path):
    files = {f'{name}.pdf': make() for name, make in PDFS.items()}
    good = {'good.pdf': pages(stream(b'BT /F 12 Tf (%s) Tj ET' % GOOD.encode()))}
    good['good.txt'] = b'London. ' + GOOD.encode()
    [(ids, reasons)] = read_each(tmp_path, [files | good])
    assert ids.split() == ['texts/good.pdf', 'texts/good.txt']
    assert set(reasons) == set(files) and not any('\n' in reason for reason in reasons.values())
    assert 'limits' in reasons['inflates to 100 MiB.pdf']
    assert 'limits' in reasons['shows forms 2^20 times.pdf']


# Tables and dumps.


def table(**columns):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink, compression='zstd')
    return sink.getvalue().to_pybytes()


def same(text, count):
    return pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array([text]))


def wiki(text, count=1, head='', title='A'):
    body = f'<ns>0</ns><id>{title}</id><revision><text>{text}</text></revision>'
    one = f'<page><title>{title}</title>{body}</page>'
    return f'{head}<mediawiki><siteinfo/>{one * count}</mediawiki>'.encode()


LAUGHS = ''.join(f'<!ENTITY a{i + 1} "{f"&a{i};" * 10}">' for i in range(9))
LAUGHS = f'<!DOCTYPE mediawiki [<!ENTITY a0 "Ada was here. ">{LAUGHS}]>'
OPEN = '<mediawiki><siteinfo/>'
BOMBS = {
    'rows.parquet': (lambda: table(id=range(300), text=same('x' * 1_000_000, 300)),
        'hold more than'),
    'no rows.parquet': (lambda: table(id=same('1', 250_000), text=pa.nulls(250_000, pa.string())),
        'hold more than'),
    'a value.parquet': (lambda: table(id=[1], text=['x' * (40 * MIB)]), 'hold more than'),
    'page.xml.gz': (lambda: gzip.compress(wiki('a ' * 2 * MIB)), 'hold more than'),
    'pages.xml.gz': (lambda: gzip.compress(wiki('', 80_000)), 'hold more than'),
    'elements.xml.gz': (lambda: gzip.compress((OPEN + '<a/>' * 1_500_000).encode()),
        'hold more than'),
    'nested.xml': (lambda: (OPEN + '<a>' * 300_000).encode(), 'malformed'),
    'attribute.xml': (lambda: (OPEN + '<a b="' + 'x' * 5 * MIB).encode(), 'malformed'),
    'entities.xml': (lambda: wiki('&a9;', head=LAUGHS), 'amplification'),
}  # fmt: skip


def test_a_table_or_dump_that_is_a_bomb_is_refused(tmp_path):
    # With what a small file may hold otherwise, pages take a minute to read until they are too
    # many.
    sets = [{name: make(), 'b.txt': GOOD.encode()} for name, (make, _) in BOMBS.items()]
    found = read_each(tmp_path, sets, free=MIB)
    for (said, _), (name, (_, reason)) in zip(found, BOMBS.items(), strict=True):
        assert said.startswith('InputError: ') and reason in said and name in said


def test_a_page_without_an_end_is_refused_but_many_revisions_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(dump, 'MAX_PAGE', MIB)
    revision = f'<revision><text>{"Ada " * 50_000}</text></revision>'
    whole = wiki(GOOD).decode()
    path = tmp_path / 'a.xml'
    path.write_text(whole.replace('<revision>', revision * 20 + '<revision>'))
    assert [page.text for _, page in dump.pages(path)] == [GOOD]
    path.write_text(whole.replace(GOOD, 'Ada ' * 500_000))
    with pytest.raises(InputError, match=r'a\.xml: .*1 MiB without the end of a page'):
        list(dump.pages(path))


def test_a_wiki_page_of_open_marks_is_rejected_or_read_and_the_others_are_read(tmp_path):
    # Another text, as marks may be left out of the first, and a text is read once.
    good, sets = wiki(f'{GOOD} It ends here.', title='B').partition(b'<siteinfo/>')[2], []
    for mark in ('[[a|', '{{', '[http://a ', '<b>', '{|\n|\n', '<ref'):
        escaped = mark.replace('<', '&lt;') * (20_000 // len(mark))
        sets.append({'a.xml': wiki(GOOD + escaped).replace(b'</mediawiki>', good)})
    for ids, reasons in read_each(tmp_path, sets):
        assert ids.split() in (['B'], ['A', 'B']) and len(ids.split()) + len(reasons) == 2
        assert all(reason.startswith('cannot be read within limits') for reason in reasons.values())


# Time in proportion to the text.


def _seconds(function, argument):
    """How long a function takes, twice."""
    gc.disable()
    for _ in range(2):
        started = time.process_time()
        function(argument)
        yield time.process_time() - started
    gc.enable()


def growth(function, make, size):
    """How many times longer 4 times the size takes: 4 if linear, 16 if quadratic."""
    return min(_seconds(function, make(4 * size))) / max(0.01, *_seconds(function, make(size)))


def check(function, text):
    """Eight times the text takes less than 40 times as long; quadratic work takes 64 times."""
    assert min(_seconds(function, text * 8)) < 40 * max(min(_seconds(function, text)), 0.02)


UNITS = (
    '<!-- x', '<', '<a', '<a ', '</', '</a', '<![CDATA[', '<![x', '<!', '<!doctype ', '<?', '&',
    '&a', '&#', '&#1114112;', '<p a="', '<p a=">" ',
    '<script>', '<title> </title>', '<svg><title>x</title>', '<div>', '>', '--', ']]', '"', '=',
    '/', ' ', '<p a=1 ', '<script></',
)  # fmt: skip


@pytest.mark.parametrize('unit', UNITS)
def test_a_page_takes_time_in_proportion_to_its_length(unit):
    for before in ('', '<p ', '<title>x', '<!--', '<svg><![CDATA['):
        make = lambda size: before + unit * (size // len(unit))
        assert growth(read_html, make, 5000) < 8


def films(count):
    titles = [f'Ada (film {i})' for i in range(count)]
    spans = [[Span(0, len(title), 'person')] for title in titles]
    return [Document(t, t, f'{t} was one.', title_entity=t) for t in titles], spans


def in_one_text(names):
    """How to resolve a text that lists persons, and how to make it of so many."""

    def make(count):
        text, spans = '', []
        for name in names(count):
            spans.append(Span(len(text), len(text) + len(name), 'person'))
            text += f'{name}, '
        return [Document('1', 'A', text)], [spans]

    return lambda made: resolve(*made), make


def crowd(size):
    names = [f'Mr A{i}' for i in range(size)]
    text = ', '.join(names) + ' and she' * size
    starts = itertools.accumulate((len(name) + 2 for name in names), initial=0)
    mentions = [Mention(start, start + len(name), name) for start, name in zip(starts, names)]
    return text, mentions, dict.fromkeys(names, 'person')


NAMES = {
    'titles that differ in brackets': (lambda made: resolve(*made), films),
    'short and long forms in one text': in_one_text(
        lambda n: [*(f'Ada X{i}' for i in range(n)), *(f'X{i}' for i in range(n))]),
    'one name in one text': in_one_text(lambda n: ['Ada Lovelace'] * n),
    'a run of function words': (lambda text: refine(text, []), lambda n: 'The A ' * n),
    'a crowd of another gender': (lambda made: pronouns(*made), crowd),
}  # fmt: skip


@pytest.mark.parametrize('kind', NAMES)
def test_names_take_time_in_proportion_to_their_number(kind):
    function, make = NAMES[kind]
    # Caches that a size fits into and the other does not take a part.
    assert growth(function, make, 1200) < 10


def test_names_that_begin_alike_take_memory_in_proportion_to_the_text():
    linker = MentionLinker(EntityVocab.from_names(' '.join(['Bo'] * n) for n in range(1, 66)))
    lengths = [end - start for start, end, _ in linker.link('Bo ' * 30_000)]
    assert lengths == [65 * 3 - 1] * 461 + [35 * 3 - 1]


def define(text):
    defined_terms(text, [Span(*m.span(), 'organisation') for m in re.finditer('A B', text)])


WORDS = Dictionary(frozenset(), frozenset())
# A rule, and what a long text may repeat.
RULES = {
    'casing': (lambda text: cased([text], lambda: WORDS, lambda texts: [[] for _ in texts]),
        ['A', 'A. ', 'THE CAT ', 'X Y\n', 'a. ', 'the cat ']),
    'defined terms': (define,
        [' ("the A")', '((', ' (AB)', ' (hereinafter,', 'A B (AB) ', '\n', ' (the the the ']),
    'layout': (lambda text: unfilled(cleaned(text)),
        ['a', '\xad\n', '> ', '- ', ' ', '|', 'a: b\n', '=- ', 'x' * 60 + '\n', '\t', ' \n', '#',
            '\x1b[', '12:00 ', '<a', '---\n', '**a:', 'A', 'a Enlarge ']),
    'speakers': (lambda text: list(first_persons(f'I\n{text}wrote:', turns(f'I\n{text}wrote:'))),
        'I am Ana Bo. |> |From: A\nI\n|<|A: I |On 1, |I "|Ana |> I wrote:\n|12:00 |\n>|My name is '
        .split('|')),
    'statements': (restated,
        ['|', 'a\tb\n', 'a,b,c\n', '|a', '|-', '-', '| |\n', '|-|\n', 'a;b;c\n', 'Area: ', 'Born',
            'Born A Died B Area C ', 'Born  ', '\n ', 'Born A\n', 'aaaaaaaaa ']),
}  # fmt: skip


@pytest.mark.parametrize('rule, unit', [(rule, u) for rule, (_, of) in RULES.items() for u in of])
def test_time_is_linear_in_the_text(rule, unit):
    check(RULES[rule][0], unit * (12_000 // len(unit)) + 'x')
