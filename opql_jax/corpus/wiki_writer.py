"""Documents as a MediaWiki dump, with hyperlinks in place of mentions: reading it gives them back exactly."""

from __future__ import annotations

import bz2
import contextlib
import itertools
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.sax.saxutils import escape as escape_xml

from opql_jax.corpus import tables
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.records import CorpusError, Document
from opql_jax.corpus.wiki_titles import Site

_HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="en">
  <siteinfo>
    <namespaces>
      <namespace key="0" case="first-letter" />
    </namespaces>
  </siteinfo>
"""
_PAGE = """  <page>
    <title>{title}</title>
    <ns>0</ns>
    <id>{id}</id>
    <revision>
      <id>{id}</id>
      <model>wikitext</model>
      <format>text/x-wiki</format>
      <text bytes="{bytes}" xml:space="preserve">{text}</text>
    </revision>
  </page>
"""
_MARKUP = re.compile(r"""[\[\]{}|<>&]|__|''|(?<![^\n])[*#:;=-]""")
# What XML cannot hold or wikitext does not show: control characters, repeated and outer blanks, empty lines.
_IMPOSSIBLE = re.compile('[\x00-\x09\x0b-\x1f\ud800-\udfff\ufffe\uffff]|[ \n]{2,}|^[ \n]|[ \n]$')
_SITE = Site()


def write_dump(path: str | os.PathLike, documents: Iterable[Document], vocab: EntityVocab, *, parts: int = 1) -> list[Path]:
    """Writes documents as a dump of version 0.11, replacing its files.

    A page has the name of the entity that its document is about, otherwise the document's title, and a link leads to the page
    named like the mentioned entity. Pages without text follow for the entities that no document is about, since a link to no
    page is text. What is read again are thus the same texts, and names in place of the keys of entities.

    Args:
        path: ends in .xml or .xml.bz2.
        documents: they are written as they come; mentions are disjoint.
        vocab: their entities, whose names are all different.
        parts: how many files to write, each document to another one in turn; more than one are numbered, `dump1.xml.bz2`.

    Returns:
        The files.

    Raises:
        CorpusError: a document, or the name of an entity, cannot be written so that it is read again as it is; says why.
    """
    path = Path(path)
    stem, found, ending = path.name.partition('.xml')
    if not found or ending not in ('', '.bz2'):
        raise CorpusError(f'{path}: the name of a dump ends in .xml or .xml.bz2')
    paths = [path.with_name(f'{stem}{number}.xml{ending}') for number in range(1, parts + 1)] if parts > 1 else [path]
    with contextlib.ExitStack() as stack:
        files = []
        for file in paths:
            partial = stack.enter_context(tables.atomic_path(file))
            files.append(stack.enter_context(bz2.open(partial, 'wb') if ending else open(partial, 'wb')))
            files[-1].write(_HEAD.encode())
        for id, ((title, text), file) in enumerate(zip(_pages(documents, vocab), itertools.cycle(files)), 1):
            page = _PAGE.format(title=escape_xml(title), id=id, bytes=len(text.encode()), text=escape_xml(text))
            file.write(page.encode())
        for file in files:
            file.write(b'</mediawiki>\n')
    return paths


def _pages(documents: Iterable[Document], vocab: EntityVocab) -> Iterator[tuple[str, str]]:
    """Title and wikitext of every page."""
    written = set()
    for document in documents:
        about = document.title_entity
        title = document.title if about is None else vocab.names[vocab.id_of_key[about]]
        written.add(_checked(title, written))
        yield title, wikitext(document, vocab)
    if len(set(vocab.names)) != len(vocab):
        raise CorpusError('two entities have the same name, but pages have different titles')
    for name in vocab.names:
        if name not in written:
            yield _checked(name, written), ''


def wikitext(document: Document, vocab: EntityVocab) -> str:
    """The text of a document as wikitext; see `write_dump` for the errors."""
    text, pieces, end = document.text, [], 0
    if found := _IMPOSSIBLE.search(text):
        raise CorpusError(f'document {document.id!r}: text: wikitext cannot show {found[0]!r} at {found.start()}')
    for mention in sorted(document.mentions or (), key=lambda mention: mention.start):
        anchor = text[mention.start : mention.end]
        if '\n' in anchor or anchor.strip(' ') != anchor:
            raise CorpusError(f'document {document.id!r}: a link cannot begin or end with a blank or break lines: {anchor!r}')
        between = text[end : mention.start]
        # A small letter after a link would belong to it.
        pieces += '<nowiki />' if end and between[:1].islower() else '', _escaped(between)
        title = vocab.names[vocab.id_of_key[mention.entity]].replace(':', '&#58;')  # or it may look like an address
        pieces.append(f'[[{title}|{_escaped(anchor)}]]')
        end = mention.end
    pieces += '<nowiki />' if end and text[end : end + 1].islower() else '', _escaped(text[end:])
    return ''.join(pieces).replace('\n', '\n\n')


def _escaped(text: str) -> str:
    return _MARKUP.sub(lambda found: ''.join(f'&#{ord(character)};' for character in found[0]), text)


def _checked(title: str, written: set[str]) -> str:
    if _IMPOSSIBLE.search(title) or _SITE.link(title).title != title:
        raise CorpusError(f'{title!r} cannot be the title of a page')
    if title in written:
        raise CorpusError(f'two documents are about {title!r}, but a page has one text')
    return title
