"""Documents as a MediaWiki dump, with hyperlinks in place of mentions: reading it gives them back exactly.

`write_world` writes the generated world, of any size.
"""

from __future__ import annotations

import bz2
import contextlib
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape as escape_xml
from xml.sax.saxutils import quoteattr

from opql_jax.corpus import tables
from opql_jax.corpus.documents import CorpusError, Document
from opql_jax.corpus.entities import EntityVocab
from opql_jax.datasets.synthetic import pages
from opql_jax.datasets.synthetic.world import World
from opql_jax.datasets.wikipedia.titles import Site

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
    <id>{id}</id>{redirect}
    <revision>
      <id>{id}</id>
      <model>wikitext</model>
      <format>text/x-wiki</format>
      <text bytes="{bytes}" xml:space="preserve">{text}</text>
    </revision>
  </page>
"""
# What articles have beside prose, none of which is read.
_BEFORE = """{{{{Infobox thing
| name = {title}
| image = [[File:{title}.jpg|thumb|A picture of ''{title}'']]
| website = {{{{URL|http://example.org/{id}}}}}
}}}}
"""
_AFTER = """

{{| class="wikitable sortable"
|-
! Year !! Count
|-
| {id} || [[{title}|17]]
|}}

== References ==
{{{{reflist|refs=
<ref name="a{id}">{{{{cite web |url=http://example.org/a/{id} |title=On {title} |access-date=2020-01-01}}}}</ref>
<ref name="b{id}">{{{{cite book |last=Low |first=Ann |title=All of it |year=1999 |publisher=Press |isbn=978-0-00-000000-0}}}}</ref>
}}}}
{{{{DEFAULTSORT:{title}}}}}
[[Category:Things]]
[[Category:Articles with notes]]"""
_MARKUP = re.compile(r"""[\[\]{}|<>&]|__|''|(?<![^\n])[*#:;=-]""")
# What XML cannot hold or wikitext does not show: control characters, repeated and outer blanks, empty lines.
_IMPOSSIBLE = re.compile('[\x00-\x09\x0b-\x1f\ud800-\udfff\ufffe\uffff]|[ \n]{2,}|^[ \n]|[ \n]$')
_SITE = Site()


def write_world(path: str | os.PathLike, world: World, *, parts: int = 1) -> list[Path]:
    """Writes a generated world as a dump: see `write_dump`; the keys of entities are redirects, and its articles are furnished."""
    vocab = EntityVocab(world.keys, world.names, [[key] for key in world.keys])
    return write_dump(path, pages.documents(world), vocab, parts=parts, furnished=True)


def write_dump(
    path: str | os.PathLike, documents: Iterable[Document], vocab: EntityVocab, *, parts: int = 1, furnished: bool = False
) -> list[Path]:
    """Writes documents as a dump of version 0.11, replacing its files.

    A page has the name of the entity that its document is about, otherwise the document's title, and a link leads to the page
    named like the mentioned entity. Pages without text follow for the entities that no document is about, since a link to no
    page is text, and redirects from the aliases that can be titles; links lead to a page and its redirects in turn. What is
    read again are thus the same texts, and names in place of the keys of entities.

    Args:
        path: ends in .xml or .xml.bz2.
        documents: they are written as they come; mentions are disjoint.
        vocab: their entities, whose names are all different.
        parts: how many files to write, each document to another one in turn; more than one are numbered, `dump1.xml.bz2`.
        furnished: gives articles a template, a table, notes and categories, which are not read: about 800 bytes each.

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
        for id, ((title, text, target), file) in enumerate(zip(_pages(documents, vocab), itertools.cycle(files)), 1):
            if furnished and text and not target:
                text = _BEFORE.format(title=title, id=id) + text + _AFTER.format(title=title, id=id)
            redirect = f'\n    <redirect title={quoteattr(target)} />' if target else ''
            size = len(text.encode())
            page = _PAGE.format(title=escape_xml(title), id=id, redirect=redirect, bytes=size, text=escape_xml(text))
            file.write(page.encode())
        for file in files:
            file.write(b'</mediawiki>\n')
    return paths


def _pages(documents: Iterable[Document], vocab: EntityVocab) -> Iterator[tuple[str, str, str]]:
    """Title and wikitext of every page, and where it leads to, '' for articles."""
    written, titles = set(), _titles(vocab)
    for document in documents:
        about = document.title_entity
        title = document.title if about is None else vocab.names[vocab.id_of_key[about]]
        written.add(_checked(title, written))
        yield title, wikitext(document, vocab, titles), ''
    if len(set(vocab.names)) != len(vocab):
        raise CorpusError('two entities have the same name, but pages have different titles')
    for name in vocab.names:
        if name not in written:
            yield _checked(name, written), '', ''
    for name, *redirects in titles:
        for redirect in redirects:
            yield _checked(redirect, written), f'#REDIRECT [[{name}]]', name


def _titles(vocab: EntityVocab) -> list[list[str]]:
    """Titles of each entity's page and of its redirects."""
    taken, titles = set(vocab.names), []
    for name, aliases in zip(vocab.names, vocab.aliases):
        titles.append([name])
        for alias in aliases:
            if alias not in taken and not _IMPOSSIBLE.search(alias) and _SITE.link(alias).title == alias:
                titles[-1].append(alias)
                taken.add(alias)
    return titles


def wikitext(document: Document, vocab: EntityVocab, titles: Sequence[Sequence[str]] | None = None) -> str:
    """The text of a document as wikitext.

    Args:
        document: see `write_dump`, also for the errors.
        vocab: its entities.
        titles: of the pages that a link to each entity may lead to; None for its name.
    """
    text, pieces, end = document.text, [], 0
    if found := _IMPOSSIBLE.search(text):
        raise CorpusError(f'document {document.id!r}: text: wikitext cannot show {found[0]!r} at {found.start()}')
    for number, mention in enumerate(sorted(document.mentions or (), key=lambda mention: mention.start)):
        anchor = text[mention.start : mention.end]
        if '\n' in anchor or anchor.strip(' ') != anchor:
            raise CorpusError(f'document {document.id!r}: a link cannot begin or end with a blank or break lines: {anchor!r}')
        between = text[end : mention.start]
        # A small letter after a link would belong to it.
        pieces += '<nowiki />' if end and between[:1].islower() else '', _escaped(between)
        entity = vocab.id_of_key[mention.entity]
        title = titles[entity][number % len(titles[entity])] if titles else vocab.names[entity]
        title = title.replace(':', '&#58;')  # or it may look like an address
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
        raise CorpusError(f'two documents or redirects have the title {title!r}, but a page has one text')
    return title
