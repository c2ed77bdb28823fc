"""The Markdown pages: their links lead somewhere, what they name exists, and they, their sentences
and cells stay short.
"""

import pathlib
import re

import pytest

from opql_jax.gin_utils import with_includes
from opql_jax.recipes import catalog

REPO = pathlib.Path(__file__).resolve().parent.parent
PAGES = sorted([*REPO.glob('*.md'), *(REPO / 'docs').rglob('*.md')])
NAMES = [str(page.relative_to(REPO)) for page in PAGES]
MAX_LINES = {'README.md': 90, 'WORKSPACE.md': 100, 'RESULTS.md': 150}
# Of all pages, with the copies of the cards in released folders; of a sentence; of a cell of a
# table.
MAX_WORDS, MAX_SENTENCE, MAX_CELL = 27_000, 30, 40
# Pages whose longest sentence is longer, and may not grow.
LONG_SENTENCES = {'WORKSPACE.md': 65, 'docs/experiments/plain_text.md': 51}
# It names files that are gone.
HISTORY = {'CHANGELOG.md'}
SUFFIXES = 'py|sh|sbatch|gin|toml|tsv|cff|ipynb'

_FENCE = re.compile(r'^```.*?^```', re.S | re.M)
_CODE = re.compile(r'`[^`\n]*`')
_LINK = re.compile(r'\[[^\]]*\]\(([^)\s]+)\)', re.S)
_GENERATED = re.compile(r'<!-- table: .*?<!-- end of table -->', re.S)
_BLOCK = re.compile(r'\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) |#|\|)')
_END_OF_SENTENCE = re.compile(r'(?<=[.!?])["”)*]*\s+(?=["“(*\[]*[A-Z0-9])')
_HEADING = re.compile(r'^#+ +(.+?) *$', re.M)
_FILE = re.compile(rf'(?<![\w./$~{{*-])((?:[\w-]+/)+[\w.-]*[\w-]\.(?:{SUFFIXES}))(?![\w/])')
_MODULE = re.compile(r'python -m (opql_jax(?:\.\w+)+)')
_OBJECTIVE = re.compile(r'--gin\.(\w+)\.(\w+)\.(\w+)=')


def prose(text: str) -> str:
    """A page without its code, in which a bracket is no link."""
    return _CODE.sub('', _FENCE.sub('', text))


def blocks(text: str) -> list[str]:
    """Paragraphs, items of lists and rows of tables, without code and tables that are generated;
    code within a line is one word.
    """
    text = _CODE.sub('Code', _GENERATED.sub('', _FENCE.sub('', text)))
    lines = (line for line in text.splitlines() if not line.startswith('    '))
    return _BLOCK.split('\n'.join(lines))


def cells(text: str) -> list[str]:
    return [cell for row in blocks(text) if row.startswith('|') for cell in row.split('|')]


def sentences(text: str) -> list[str]:
    prose = [block for block in blocks(text) if not block.startswith('|')]
    return sum(map(_END_OF_SENTENCE.split, (*prose, *cells(text))), [])


def most_words(texts: list[str]) -> str:
    return max(texts, key=lambda text: len(text.split()), default='')


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = _HEADING.findall(_FENCE.sub('', text))
    return {re.sub(r'[^\w\- ]', '', heading.lower()).replace(' ', '-') for heading in headings}


def broken_links(page: pathlib.Path) -> list[str]:
    """The links of a page, within the repository, that lead nowhere."""
    text, broken = page.read_text(encoding='utf-8'), []
    for link in _LINK.findall(prose(text)):
        if re.match(r'[a-z]+:', link):
            continue
        path, _, anchor = link.partition('#')
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            broken.append(link)
        elif anchor and anchor not in anchors(target.read_text(encoding='utf-8')):
            broken.append(link)
    return broken


def unknown_names(text: str, root: pathlib.Path = REPO) -> list[str]:
    """Files with a folder, and modules run with `python -m`, that a page names and the repository
    lacks.
    """
    files = [name for name in _FILE.findall(text) if not _exists(name, root)]
    modules = [root / module.replace('.', '/') for module in _MODULE.findall(text)]
    there = lambda path: path.with_suffix('.py').exists() or (path / '__main__.py').exists()
    return files + [path.name for path in modules if not there(path)]


def _exists(name: str, root: pathlib.Path) -> bool:
    """Whether a file is named from the root, or from the package."""
    folders = ('', 'opql_jax', 'opql_jax/training')
    return name.startswith('t5x/') or any((root / f / name).exists() for f in folders)


@pytest.mark.parametrize('name', NAMES)
def test_links_lead_to_files_and_headings(name):
    assert broken_links(REPO / name) == []


@pytest.mark.parametrize('name', [name for name in NAMES if name not in HISTORY])
def test_files_and_modules_that_a_page_names_exist(name):
    assert unknown_names((REPO / name).read_text(encoding='utf-8')) == []


@pytest.mark.parametrize('name', [name for name in NAMES if name not in HISTORY])
def test_macros_that_a_page_sets_stand_in_its_gin_files(name):
    paths = (REPO / 'gin').rglob('*.gin')
    gin_files = {path.relative_to(REPO).as_posix(): with_includes(path) for path in paths}
    for line in (REPO / name).read_text(encoding='utf-8').replace('\\\n', ' ').splitlines():
        named = re.findall(r'--gin_file=(gin/[\w/]+\.gin)', line)
        if not named or 'python -m opql_jax' not in line:
            continue
        text = '\n'.join(gin_files[path] for path in named)
        macros = set(re.findall(r'^([A-Z]\w*) = ', text, re.M))
        assert set(re.findall(r'--gin\.([A-Z][A-Z_]*)=', line)) <= macros, line


@pytest.mark.parametrize('name', NAMES)
def test_parameters_that_a_page_sets_are_those_of_the_code(name):
    paths = (REPO / 'opql_jax').rglob('*.py')
    source = '\n'.join(path.read_text(encoding='utf-8') for path in paths)
    for named in _OBJECTIVE.findall((REPO / name).read_text(encoding='utf-8')):
        _, configurable, parameter = named
        assert re.search(rf'^(?:class|def) {configurable}\b', source, re.M), named
        assert re.search(rf'^    {parameter}: ', source, re.M), named


@pytest.mark.parametrize('name', [name for name in NAMES if name not in HISTORY])
def test_recipes_that_a_page_names_exist(name):
    text = (REPO / name).read_text(encoding='utf-8')
    command = r'python -m opql_jax\.recipes (?:show|run|publish) ([^`#\n]*)'
    given = ' '.join(found.split(' --')[0] for found in re.findall(command, text))
    recipes = re.findall(r'(?<![-\w])[a-z][\w-]*/[\w-]+|\bdemo\b', given)
    assert set(recipes) <= catalog.RECIPES.keys()


@pytest.mark.parametrize('name', MAX_LINES)
def test_pages_that_everyone_reads_are_short(name):
    assert len((REPO / name).read_text(encoding='utf-8').splitlines()) <= MAX_LINES[name]


def test_pages_together_have_a_bounded_number_of_words():
    pages = [*PAGES, *(REPO / 'opql_jax').rglob('*.md')]
    assert sum(len(page.read_text(encoding='utf-8').split()) for page in pages) <= MAX_WORDS


@pytest.mark.parametrize('name', NAMES)
def test_sentences_and_cells_are_short(name):
    text = (REPO / name).read_text(encoding='utf-8')
    sentence, cell = most_words(sentences(text)), most_words(cells(text))
    assert len(sentence.split()) <= LONG_SENTENCES.get(name, MAX_SENTENCE), sentence
    assert len(cell.split()) <= MAX_CELL, cell


def test_long_sentences_and_cells_are_seen():
    text = (
        '# A heading\n\nOne two. Three `four five`\nsix seven.\n- Eight (nine\n  ten)!\n\n'
        '| a | b c d. E |\n|---|---|\n\n    not this one'
    )
    assert most_words(cells(text)).split() == ['b', 'c', 'd.', 'E']
    found = [len(sentence.split()) for sentence in sentences(text) if sentence.strip(' -\n')]
    assert found == [3, 2, 4, 4, 1, 3, 1]


def test_lines_of_the_readme_fit_a_screen():
    # Tables of results are generated, and what commands print is as it is.
    lines = (REPO / 'README.md').read_text(encoding='utf-8').splitlines()
    assert [line for line in lines if len(line) > 120 and not line.startswith(('|', '    '))] == []


@pytest.mark.parametrize(
    'figure', sorted((REPO / 'docs/figures').glob('*.svg')), ids=lambda figure: figure.name
)
def test_figures_are_small_and_load_nothing(figure):
    text = figure.read_text(encoding='utf-8')
    assert len(text.encode()) < 60_000
    assert set(re.findall(r'\w+://[^\s"\')]*', text)) == {'http://www.w3.org/2000/svg'}
    assert not re.search(r'@font-face|@import|<script|<image|<foreignObject|url\((?!#)', text)


@pytest.mark.parametrize('name', NAMES)
def test_pages_name_no_file_outside_the_project(name):
    text = (REPO / name).read_text(encoding='utf-8')
    assert not re.search(r'\.\./shared', text)
    for link in _LINK.findall(prose(text)):
        if not re.match(r'[a-z]+:', link):
            target = (REPO / name).parent / link.partition('#')[0]
            assert target.resolve().is_relative_to(REPO), link


def test_every_page_of_the_docs_is_reached_from_the_index():
    index = REPO / 'docs/index.md'
    links = _LINK.findall(prose(index.read_text()))
    linked = {(index.parent / link.partition('#')[0]).resolve() for link in links}
    assert {page for page in PAGES if page.is_relative_to(index.parent)} - linked == {index}
