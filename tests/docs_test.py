"""The Markdown pages: links lead somewhere, what is named exists, sentences and cells are short."""

import itertools
import pathlib
import re

import pytest

from opql_jax.core.checkout import with_includes
from opql_jax.recipes import catalog

REPO = pathlib.Path(__file__).resolve().parent.parent
PAGES = sorted([*REPO.glob('*.md'), *(REPO / 'docs').rglob('*.md')])
TEXTS = {str(page.relative_to(REPO)): page.read_text(encoding='utf-8') for page in PAGES}
MAX_LINES = {'README.md': 90, 'WORKSPACE.md': 100, 'RESULTS.md': 150}
# Of all pages, with the cards in released folders; of a sentence; of a cell of a table.
MAX_WORDS, MAX_SENTENCE, MAX_CELL = 26_700, 30, 40
# Pages whose longest sentence is longer, and may not grow.
LONG_SENTENCES = {'WORKSPACE.md': 38, 'docs/experiments/plain_text.md': 51}
# All but that which names files that are gone.
CURRENT = [name for name in TEXTS if name != 'CHANGELOG.md']
SUFFIXES = 'py|sh|sbatch|gin|toml|tsv|cff|ipynb'

_FENCE = re.compile(r'^```.*?^```', re.S | re.M)
_CODE = re.compile(r'`[^`\n]*`')
_LINK = re.compile(r'\[[^\]]*\]\(([^)\s]+)\)', re.S)
_GENERATED = re.compile(r'<!-- table: .*?<!-- end of table -->', re.S)
_BLOCK = re.compile(r'\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) |#|\|)')
_END_OF_SENTENCE = re.compile(r'(?<=[.!?])["”)*]*\s+(?=["“(*\[]*[A-Z0-9])')
_HEADING = re.compile(r'^#+ +(.+?) *$', re.M)
_FILE = re.compile(rf'(?<![\w./$~{{*-])((?:[\w-]+/)+[\w.-]*[\w-]\.(?:{SUFFIXES}))(?![\w/])')
_OBJECTIVE = re.compile(r'--gin\.(\w+)\.(\w+)\.(\w+)=')
_MODULE = re.compile(r'python -m (opql_jax(?:\.\w+)+)')


def prose(text: str) -> str:
    """A page without its code, in which a bracket is no link."""
    return _CODE.sub('', _FENCE.sub('', text))


def blocks(text: str) -> list[str]:
    """Paragraphs, items and rows of tables not generated; inline code is one word."""
    text = _CODE.sub('Code', _GENERATED.sub('', _FENCE.sub('', text)))
    shown = [line for line in text.splitlines() if not line.startswith('    ')]
    return _BLOCK.split('\n'.join(shown))


def cells(text: str) -> list[str]:
    return [cell for row in blocks(text) if row.startswith('|') for cell in row.split('|')]


def sentences(text: str) -> list[str]:
    prose = [block for block in blocks(text) if not block.startswith('|')]
    return list(itertools.chain(*map(_END_OF_SENTENCE.split, (*prose, *cells(text)))))


def most_words(texts: list[str]) -> str:
    return max(texts, key=lambda text: len(text.split()), default='')


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = _HEADING.findall(_FENCE.sub('', text))
    return {re.sub(r'[^\w\- ]', '', heading.lower()).replace(' ', '-') for heading in headings}


def links(name: str) -> list[str]:
    return [link for link in _LINK.findall(prose(TEXTS[name])) if not re.match(r'[a-z]+:', link)]


@pytest.mark.parametrize('name', TEXTS)
def test_links_lead_to_files_and_headings_of_the_project(name):
    for link in links(name):
        path, _, anchor = link.partition('#')
        target = ((REPO / name).parent / path).resolve() if path else REPO / name
        assert target.is_relative_to(REPO) and target.exists(), link
        assert not anchor or anchor in anchors(target.read_text(encoding='utf-8')), link
    assert '../shared' not in TEXTS[name]


@pytest.mark.parametrize('name', CURRENT)
def test_whatever_a_page_names_exists(name):
    sources = (REPO / 'opql_jax').rglob('*.py')
    source = '\n'.join(path.read_text(encoding='utf-8') for path in sources)
    for module, configurable, parameter in _OBJECTIVE.findall(TEXTS[name]):
        set_by_page = f'{module}.{configurable}.{parameter}'
        assert re.search(rf'^(?:class|def) {configurable}\b', source, re.M), set_by_page
        assert re.search(rf'^    {parameter}: ', source, re.M), set_by_page
    for line in TEXTS[name].replace('\\\n', ' ').splitlines():
        named = re.findall(r'--gin_file=(gin/[\w/]+\.gin)', line)
        if not named or 'python -m opql_jax' not in line:
            continue
        text = '\n'.join(with_includes(REPO / path) for path in named)
        macros = set(re.findall(r'^([A-Z]\w*) = ', text, re.M))
        assert set(re.findall(r'--gin\.([A-Z][A-Z_]*)=', line)) <= macros, line
    commands = r'python -m opql_jax\.recipes (?:show|run|publish) ([^`#\n]*)'
    for command in re.findall(commands, TEXTS[name]):
        named = re.findall(r'(?<![-\w])[a-z][\w-]*/[\w-]+|\bdemo\b', command.split(' --')[0])
        assert set(named) <= catalog.RECIPES.keys()
    roots = [REPO / of for of in ('', 'opql_jax', 'opql_jax/training')]
    for file in _FILE.findall(TEXTS[name]):
        assert file.startswith('t5x/') or any((root / file).exists() for root in roots), file
    for module in _MODULE.findall(TEXTS[name]):
        path = REPO / module.replace('.', '/')
        assert path.with_suffix('.py').exists() or (path / '__main__.py').exists(), module


def test_pages_are_short_and_lines_of_the_readme_fit_a_screen():
    for name, most in MAX_LINES.items():
        assert len(TEXTS[name].splitlines()) <= most, name
    cards = [card.read_text(encoding='utf-8') for card in (REPO / 'opql_jax').rglob('*.md')]
    assert sum(len(text.split()) for text in (*TEXTS.values(), *cards)) <= MAX_WORDS
    # Tables of results are generated, and what commands print is as it is.
    lines = TEXTS['README.md'].splitlines()
    assert [line for line in lines if len(line) > 120 and not line.startswith(('|', '    '))] == []


@pytest.mark.parametrize('name', TEXTS)
def test_sentences_and_cells_are_short(name):
    sentence, cell = most_words(sentences(TEXTS[name])), most_words(cells(TEXTS[name]))
    assert len(sentence.split()) <= LONG_SENTENCES.get(name, MAX_SENTENCE), sentence
    assert len(cell.split()) <= MAX_CELL, cell


FIGURES = sorted((REPO / 'docs/figures').glob('*.svg'))


@pytest.mark.parametrize('figure', FIGURES, ids=lambda figure: figure.name)
def test_figures_are_small_and_load_nothing(figure):
    text = figure.read_text(encoding='utf-8')
    assert len(text.encode()) < 60_000
    assert set(re.findall(r'\w+://[^\s"\')]*', text)) == {'http://www.w3.org/2000/svg'}
    assert not re.search(r'@font-face|@import|<script|<image|<foreignObject|url\((?!#)', text)


def test_pictures_are_shown_by_a_page():
    pictures = (REPO / 'docs/figures').glob('*.png')
    shown = {(REPO / name).parent / link for name in TEXTS for link in links(name)}
    assert {file.resolve() for file in shown} >= {*FIGURES, *pictures}


def test_every_page_of_the_docs_is_reached_from_the_index():
    docs = REPO / 'docs'
    linked = {(docs / link.partition('#')[0]).resolve() for link in links('docs/index.md')}
    assert {page for page in PAGES if page.is_relative_to(docs)} - linked == {docs / 'index.md'}
