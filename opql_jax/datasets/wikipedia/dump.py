"""Reads MediaWiki XML dumps: one Parquet file of linked articles for each part of a dump.

A part is read as a stream. Its Parquet file stays in a work folder under a name that depends on the
bytes of the part and on the options, so a run that was killed reads only the parts that it had not
finished.
"""

import bz2
import fnmatch
import functools
import glob
import gzip
import hashlib
import importlib.metadata
import itertools
import json
import logging
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from xml.etree import ElementTree

import pyarrow as pa

from opql_jax.core import files as storage
from opql_jax.core import locks
from opql_jax.core.errors import InputError
from opql_jax.core.processes import map_ordered
from opql_jax.corpus import tables
from opql_jax.datasets.expansion import Expansion
from opql_jax.datasets.wikipedia.titles import Site
from opql_jax.datasets.wikipedia.wikitext import LimitedConverter

# To be raised whenever the same dump gives other pages than before.
VERSION = 1

LINK = pa.struct([('start', pa.int32()), ('end', pa.int32()), ('title', pa.string())])
# kind: 'article', 'redirect', 'skipped' or 'rejected'. A redirect has a target unless it leads to
# no article, a rejected page a reason, and articles have text and links, which may be empty.
_STRINGS = ('id', 'title', 'kind', 'target', 'reason', 'text')
PAGES = pa.schema([*((name, pa.string()) for name in _STRINGS), ('links', pa.list_(LINK))])

_PART = re.compile(r'\.xml(?:-p\d+p\d+)?(\.bz2|\.gz)?$')
BATCH_PAGES = 1024
# Bytes of a dump that have its outermost element.
_BEGINNING = 4096
# Minimum number of bytes parsed at a time.
_CHUNK = 16 << 10
# Bytes of XML to the end of a page or revision, and characters of a page (MediaWiki saves 2 MiB).
MAX_PAGE, MAX_TEXT = 64 << 20, 10_000_000

_log = logging.getLogger(__name__)


class Page(NamedTuple):
    """A page: `redirect` is the title it leads to, `model` its last revision's content model."""

    id: str
    title: str
    namespace: int
    redirect: str | None
    model: str
    text: str


class SkipPatterns(NamedTuple):
    """Pages that are neither documents nor entities: patterns as `List of *`, separated by '|'.

    Those of `templates` are for the names of templates that pages use, in lower case.
    """

    titles: str = ''
    templates: str = ''

    def match(self, title: str, templates: Iterable[str]) -> bool:
        """Whether a page is skipped."""
        return _matches_any([title], self.titles) or _matches_any(templates, self.templates)


def _matches_any(names: Iterable[str], patterns: str) -> bool:
    return any(fnmatch.fnmatchcase(n, pattern) for n in names for pattern in patterns.split('|'))


def part_files(path: str | os.PathLike) -> list[Path]:
    """A dump's parts by name: a file, a folder's, a pattern's; InputError: none, or a bad name."""
    if Path(path).is_dir():
        found = [file for file in Path(path).iterdir() if _PART.search(file.name)]
    else:
        found = [Path(path)] if Path(path).is_file() else map(Path, glob.glob(str(path)))
    parts = sorted(found, key=lambda file: (file.name, str(file)))
    if not parts:
        raise InputError(f'{path}: no file of a dump, .xml, .xml.bz2 or .xml.gz')
    for part, after in zip(parts, [*parts[1:], None]):
        if not _PART.search(part.name):
            raise InputError(f'{part}: no file of a dump, .xml, .xml.bz2 or .xml.gz')
        if after and after.name == part.name:
            raise InputError(f'{after}: another part has this name, {part}; rename one of them')
    return parts


def is_part(path: str | os.PathLike) -> bool:
    """Whether a file has the name and beginning of a part of a dump, or is damaged there."""
    if not _PART.search(Path(path).name):
        return False
    try:
        with open(path, 'rb') as file:
            return b'<mediawiki' in _decompressed(path, file).read(_BEGINNING)
    except (EOFError, zlib.error, OSError):
        return True


def pages(path: str | os.PathLike) -> Iterator[tuple[Site, Page]]:
    """A part's pages (last revisions), with the site's settings; InputError says what is bad."""
    last = 'before the first page'
    with open(path, 'rb') as file:
        try:
            for site, page in _pages(_decompressed(path, file), Expansion(path)):
                last = f'after the page {page.title!r}'
                yield site, page
        except (EOFError, zlib.error, OSError, ElementTree.ParseError) as error:
            is_xml = isinstance(error, ElementTree.ParseError)
            what = 'malformed or no MediaWiki dump' if is_xml else 'truncated or damaged'
            where = f'at about byte {file.tell():,} of {os.fstat(file.fileno()).st_size:,}'
            raise InputError(f'{path}: {what} {last}, {where} ({error})') from error


def _decompressed(path: str | os.PathLike, file: BinaryIO) -> Any:
    opened: dict[str, Callable] = {'.bz2': bz2.open, '.gz': gzip.open}
    return opened.get(Path(path).suffix, lambda file: file)(file)


def _pages(source, expansion: Expansion) -> Iterator[tuple[Site, Page]]:
    parser = ElementTree.XMLPullParser(('start', 'end'))
    root: Any = None
    revision: Any = None
    site, since, chunk = Site(), 0, b'more'
    while chunk:
        # A piece of XML, such as an attribute's value, is parsed anew with each chunk.
        if chunk := source.read(max(_CHUNK, since // 4)):
            expansion.add(len(chunk))
            since += len(chunk)
            parser.feed(chunk)
        else:
            parser.close()
        events: Any = parser.read_events()
        for event, element in events:
            if root is None:
                root = element
                if _name(root) != 'mediawiki':
                    raise ElementTree.ParseError(f'the outermost element is {_name(root)!r}')
            elif event == 'end':
                name = _name(element)
                if name == 'siteinfo':
                    site = _site(element)
                elif name == 'revision':
                    if revision is not None:
                        revision.clear()  # or all texts of a page would stay
                    revision, since = element, 0
                elif name == 'page':
                    yield site, _page(element)
                    root.clear()  # or all pages would stay
                    revision, since = None, 0
        if since > MAX_PAGE:
            raise ElementTree.ParseError(f'{MAX_PAGE >> 20} MiB without the end of a page')


def _name(element) -> str:
    """The tag of an element without its XML namespace."""
    return element.tag.rpartition('}')[2]


def _site(siteinfo) -> Site:
    namespaces = siteinfo.findall('{*}namespaces/{*}namespace')
    first_letter = all(n.get('case') != 'case-sensitive' for n in namespaces if n.get('key') == '0')
    return Site({n.text.lower(): int(n.get('key')) for n in namespaces if n.text}, first_letter)


def _page(page) -> Page:
    title, namespace, id = (page.findtext(f'{{*}}{name}') for name in ('title', 'ns', 'id'))
    revision = page.findall('{*}revision')
    if not title or not id or not revision or not re.fullmatch(r'-?\d+', namespace or ''):
        raise ElementTree.ParseError(
            f'a page needs title, ns, id and revision; here they are {title!r}, {namespace!r}, '
            f'{id!r}, {len(revision)}'
        )
    redirect = page.find('{*}redirect')
    target = None if redirect is None else redirect.get('title', '')
    model, text = (revision[-1].findtext(f'{{*}}{name}') for name in ('model', 'text'))
    return Page(id, title, int(namespace), target, model or 'wikitext', text or '')


def read_parts(
    parts: Sequence[Path],
    folder: str | os.PathLike,
    skip: SkipPatterns,
    processes: int | None = None,
) -> list[Path]:
    """Writes the main namespace's pages, as `PAGES` in Parquet, for each part without a file.

    Returns all files, in order. They do not depend on how many parts are read at once (one per core
    if None), never change, and are written by one run at a time. InputError: see `pages`; the other
    parts that were being read are finished. Or another run writes into the folder.
    """
    folder = Path(folder)
    # Results are only names, so all parts may be read ahead, past a long one.
    processes = min(processes or os.cpu_count() or 1, len(parts))
    files = []
    with locks.writer(folder):
        storage.remove_partials(folder, f'{"[0-9a-f]" * 32}.parquet')
        read_part = functools.partial(_read_part, folder, skip)
        read = map_ordered(read_part, parts, processes, ahead=len(parts))
        for number, ((file, new), part) in enumerate(zip(read, parts), 1):
            done = 'read' if new else 'was read before'
            _log.info(f'{part.name}: {done} ({number} of {len(parts)})')
            files.append(file)
    return files


def _read_part(folder: Path, skip: SkipPatterns, part: Path) -> tuple[Path, bool]:
    """The file of a part, and whether it is new."""
    parser = importlib.metadata.version('mwparserfromhell')
    key = [VERSION, parser, storage.sha256(part), skip._asdict()]
    file = folder / f'{hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]}.parquet'
    if file.exists():
        return file, False
    tables.write_table(file, _batches(rows(pages(part), skip)), PAGES)
    return file, True


def rows(site_pages: Iterable[tuple[Site, Page]], skip: SkipPatterns) -> Iterator[tuple]:
    """The columns of `PAGES` of each page of the main namespace."""
    with LimitedConverter() as converter:
        for site, page in site_pages:
            if page.namespace:
                continue
            text, links, target, reason, kind = '', [], None, None, 'article'
            if page.redirect is not None:
                kind, target = 'redirect', site.link(page.redirect).title
            elif page.model != 'wikitext':
                kind, reason = 'rejected', f'its text is {page.model}, not wikitext'
            elif len(page.text) > MAX_TEXT:
                kind = 'rejected'
                reason = f'its text has {len(page.text):,} characters, more than {MAX_TEXT:,}'
            else:
                try:
                    text, links, templates = converter.convert(site, page.text)
                    if skip.match(page.title, templates):
                        text, links, kind = '', [], 'skipped'
                except InputError as error:
                    kind, reason = 'rejected', str(error)
            yield page.id, page.title, kind, target, reason, text, links


def _batches(rows: Iterable[tuple]) -> Iterator[pa.RecordBatch]:
    rows = iter(rows)
    while some := list(itertools.islice(rows, BATCH_PAGES)):
        columns = [pa.array(column, field.type) for column, field in zip(zip(*some), PAGES)]
        yield pa.RecordBatch.from_arrays(columns, schema=PAGES)
