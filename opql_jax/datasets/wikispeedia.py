"""The articles of Wikispeedia (2007 Schools Wikipedia) and their links.

The folder holds `articles.jsonl.gz` (`{page, title, text}`, the text as a text browser shows it)
and `links.tsv` (source page, target page, URL-encoded). A mention of a linked page is its title
where the article's text has it.
"""

import collections
import dataclasses
import gzip
import itertools
import json
import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote

from opql_jax.core.errors import InputError
from opql_jax.corpus.documents import Document, Mention
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.json_lines import read_lines
from opql_jax.corpus.linking import MentionLinker
from opql_jax.datasets.readers import Reader

ARTICLES = 'articles.jsonl.gz'
LINKS = 'links.tsv'

_MIN_WORDS = 5
_LONGEST_CAPTION = 30  # lines
_WIDTH = 74  # columns; lines are wrapped before the word that would pass it
_BULLET = re.compile(r'(?:[*+o#@]|\d{1,3}\.)\s+')
_STOP = re.compile(r"""[.!?:;…]["'”’)\]]*$""")
_COLUMNS = re.compile(r'\S {3,}\S')
_FOOTNOTE = re.compile(r'\^(?:\[[^\]\s]{0,100}\]|\d+\b|[a-z]\b)|(?<=\S)\[\d+\]')
_ENLARGE = re.compile(r'(?<=\S) Enlarge$', re.M)
_FOOTER = re.compile(r'^ *Retrieved from "', re.M)
_NOTICES = re.compile(
    r'^(?:This is a featured article\.|SOS Children |Articles with similar titles |For other uses|'
    r'Click here for more information)'
)


@dataclasses.dataclass(frozen=True)
class Wikispeedia(Reader):
    """The reader of whole articles of the 2007 Schools Wikipedia with their links; no questions.

    Attributes:
        folder: holds articles.jsonl.gz and links.tsv.
    """

    paths: ClassVar = ('folder',)
    folder: str

    def files(self):
        return {name: Path(self.folder, name) for name in (ARTICLES, LINKS)}

    def read(self, rejected_path):
        vocab = entity_vocab(self.folder)
        return vocab, list(documents(self.folder, vocab))


def entity_vocab(folder: str | os.PathLike) -> EntityVocab:
    """One entity per article, by its title; its alias begins in lower case ("red giant")."""
    titles = [title for _, title, _ in _articles(Path(folder) / ARTICLES)]
    small = [title[0].lower() + title[1:] for title in titles]
    aliases = [[s] if s != title else [] for s, title in zip(small, titles)]
    return EntityVocab(titles, titles, aliases)


def documents(folder: str | os.PathLike, vocab: EntityVocab) -> Iterator[Document]:
    """Streams cleaned articles with their mentions and links; InputError names file and line."""
    targets = read_links(Path(folder) / LINKS)
    linker = MentionLinker(vocab)
    for page, title, raw in _articles(Path(folder) / ARTICLES):
        text = clean(raw)
        if not text:
            continue
        linked = targets[page] | {title}
        found = ((start, end, vocab.keys[entity]) for start, end, entity in linker.link(text))
        mentions = tuple(Mention(*each) for each in found if each[2] in linked)
        yield Document(page, title, text, mentions, title)


def read_links(path: str | os.PathLike) -> dict[str, set[str]]:
    """Page (decoded) -> titles of the pages it links to; a title is a page with spaces."""
    targets = collections.defaultdict(set)
    for number, line in read_lines(path):
        if not line or line.startswith('#'):
            continue
        columns = line.split('\t')
        if len(columns) != 2:
            raise InputError(f'{path}:{number}: expected source<TAB>target, found {line!r}')
        targets[unquote(columns[0])].add(unquote(columns[1]).replace('_', ' '))
    return targets


def _articles(path: Path) -> Iterator[tuple[str, str, str]]:
    """Streams (page, title, raw text); pages URL-decoded."""
    number = 0  # of the last line read, for the errors
    try:
        with gzip.open(path, 'rt', encoding='utf-8', newline='\n') as source:
            for number, line in enumerate(source, 1):
                article = json.loads(line)
                yield unquote(article['page']), article['title'], article['text']
    except FileNotFoundError as error:
        raise InputError(f'{path}: no such file') from error
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f'{path}: truncated or damaged after line {number} ({error})') from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f'{path}:{number}: no object of page, title, text ({error!r})') from error


def clean(raw: str) -> str:
    """The prose of an article: a line per paragraph or list item.

    Without titles, footer, headings, notices, image captions (around a line 'Enlarge', or simply
    twice), tables, footnote marks, bullets, hard wraps, paragraphs that do not end like a sentence
    and list items of fewer than five words.
    """
    if footer := _FOOTER.search(raw):
        raw = raw[: footer.start()]
    lines = [line.rstrip() for line in _ENLARGE.sub('\n   Enlarge', raw).split('\n')]
    paragraphs = []
    for block in _blocks(_without_captions(lines)):
        paragraphs += filter(None, map(_prose, _items(block)))
    # A caption whose two copies have spaces at other places (around links) is still there, twice.
    without_spaces = lambda text: text.replace(' ', '')
    runs = [list(run) for _, run in itertools.groupby(paragraphs, key=without_spaces)]
    return '\n'.join(run[0] for run in runs if len(run) == 1)


def _without_captions(lines: list[str]) -> list[str]:
    """Replaces captions by a blank line, which ends the paragraph before the image."""
    remaining, i = [], 0
    while i < len(lines):
        if lines[i].strip() == 'Enlarge':
            size = _repeated(remaining, lines, i + 1)
            del remaining[len(remaining) - size :]
            i += 1 + size
            remaining.append('')
        elif size := _doubled(lines, i):
            i += 2 * size
            remaining.append('')
        else:
            remaining.append(lines[i])
            i += 1
    return remaining


def _repeated(remaining: list[str], lines: list[str], after: int) -> int:
    """The number of the last lines of `remaining` that are repeated from `after` on."""
    if not remaining or not remaining[-1]:
        return 0
    for size in range(min(_LONGEST_CAPTION, len(remaining), len(lines) - after), 0, -1):
        if remaining[-size:] == lines[after : after + size]:
            return size
    return 0


def _doubled(lines: list[str], i: int) -> int:
    """The number of lines from `i` on that come twice in a row, without a blank line."""
    for size in range(1, min(_LONGEST_CAPTION, (len(lines) - i) // 2) + 1):
        if not lines[i + size - 1]:
            return 0
        if lines[i] == lines[i + size] and lines[i : i + size] == lines[i + size : i + 2 * size]:
            return size
    return 0


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    """Runs of indented lines; blank lines and headings (which are not indented) end a run."""
    block = []
    for line in lines:
        if line.startswith('   '):
            block.append(line)
        elif block:
            yield block
            block = []
    if block:
        yield block


def _items(block: list[str]) -> Iterator[tuple[bool, str]]:
    """Splits a block into list items and paragraphs: (whether it is an item, its lines joined)."""
    if any(_COLUMNS.search(_BULLET.sub('', line.lstrip(), count=1)) for line in block):
        return
    item, current, room = False, [], 0
    for line in block:
        text = line.lstrip()
        bullet = _BULLET.match(text) if line.startswith('    ') else None
        # A break where the next word had room is of a box or a verse.
        if bullet or len(text.split(None, 1)[0]) < room:
            if current:
                yield item, ' '.join(current)
            item, current = bool(bullet), []
        current.append(text[bullet.end() :] if bullet else text)
        room = _WIDTH - len(line)
    yield item, ' '.join(current)


def _prose(item: tuple[bool, str]) -> str:
    """The cleaned text of an item or paragraph, or '' when it is no prose."""
    is_item, text = item
    text = ' '.join(_FOOTNOTE.sub('', text).split())
    # The text browser sets a space before a link, even after an opening bracket or quote.
    text = re.sub(r'(?<=[(\[]) ', '', text)
    text = re.sub(r'(^|[ (])" (?=\w)', r'\1"', text)
    text = re.sub(r' (?=[,.;:)](?: |$))', '', text)
    if len(text.split()) < _MIN_WORDS or _NOTICES.match(text) or not any(map(str.islower, text)):
        return ''
    return text if is_item or _STOP.search(text) else ''
