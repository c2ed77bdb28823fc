"""Writes documents as a MediaWiki dump, hyperlinks in place of mentions: reading the dump gives the
documents back exactly.
"""

import bz2
import contextlib
import gzip
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape as escape_xml
from xml.sax.saxutils import quoteattr

from opql_jax.corpus.documents import Document
from opql_jax.corpus.entities import EntityVocab

_HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="en">
  <siteinfo>
    <namespaces>
      <namespace key="0" case="first-letter" />
    </namespaces>
  </siteinfo>
"""  # noqa: E501
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
_MARKUP = re.compile(r"""[\[\]{}|<>&]|__|''|(?<![^\n])[*#:;=-]""")


def write_dump(
    path: Path, documents: Iterable[Document], vocab: EntityVocab, *, parts: int = 1
) -> list[Path]:
    """Writes documents as a bzip2-compressed dump of version 0.11.

    A page has the name of the entity that its document is about, and a link leads to the page named
    like the mentioned entity. Pages without text follow for the entities that no document is about,
    since a link to no page is read as text, and redirects from the aliases; links lead to a page
    and its redirects in turn.

    Args:
        path: ends in .xml.bz2.
        documents: each about another entity, without repeated or outer blanks; mentions are
            disjoint.
        vocab: their entities; all names and aliases differ and can be page titles.
        parts: how many files to write, each document to another one in turn; more than one are
            numbered, `dump1.xml.bz2`.

    Returns:
        The files.
    """
    stem = path.name.removesuffix('.xml.bz2')
    paths = (
        [path.with_name(f'{stem}{number}.xml.bz2') for number in range(1, parts + 1)]
        if parts > 1
        else [path]
    )
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(bz2.open(file, 'wb')) for file in paths]
        for file in files:
            file.write(_HEAD.encode())
        for id, ((title, text, target), file) in enumerate(
            zip(_pages(documents, vocab), itertools.cycle(files)), 1
        ):
            redirect = f'\n    <redirect title={quoteattr(target)} />' if target else ''
            size = len(text.encode())
            page = _PAGE.format(
                title=escape_xml(title), id=id, redirect=redirect, bytes=size, text=escape_xml(text)
            )
            file.write(page.encode())
        for file in files:
            file.write(b'</mediawiki>\n')
    return paths


def _pages(documents: Iterable[Document], vocab: EntityVocab) -> Iterator[tuple[str, str, str]]:
    """Title and wikitext of every page, and the title it redirects to, '' for articles."""
    written, titles = set(), [[name, *aliases] for name, aliases in zip(vocab.names, vocab.aliases)]
    for document in documents:
        written.add(document.title_entity)
        yield (
            vocab.names[vocab.id_of_key[document.title_entity]],
            wikitext(document, vocab, titles),
            '',
        )
    for key, (name, *redirects) in zip(vocab.keys, titles):
        if key not in written:
            yield name, '', ''
        yield from ((redirect, f'#REDIRECT [[{name}]]', name) for redirect in redirects)


def wikitext(
    document: Document, vocab: EntityVocab, titles: Sequence[Sequence[str]] | None = None
) -> str:
    """The text of a document as wikitext; `titles` are those of the pages that a link to each
    entity may lead to.
    """
    text, pieces, end = document.text, [], 0
    for number, mention in enumerate(document.mentions or ()):
        entity = vocab.id_of_key[mention.entity]
        title = titles[entity][number % len(titles[entity])] if titles else vocab.names[entity]
        title = title.replace(':', '&#58;')  # or it may look like an address
        link = f'[[{title}|{_escaped(text[mention.start : mention.end])}]]'
        pieces += _after_link(text[end : mention.start], end > 0), link
        end = mention.end
    return ''.join([*pieces, _after_link(text[end:], end > 0)]).replace('\n', '\n\n')


def _after_link(text: str, link_before: bool) -> str:
    """Escaped text; a small letter right after a link would belong to it."""
    return ('<nowiki />' if link_before and text[:1].islower() else '') + _escaped(text)


def _escaped(text: str) -> str:
    return _MARKUP.sub(
        lambda found: ''.join(f'&#{ord(character)};' for character in found[0]), text
    )


_GERMAN_HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" version="0.10" xml:lang="de"><siteinfo>
<namespaces><namespace key="0" case="first-letter" /><namespace key="6" case="first-letter">Datei</namespace>
<namespace key="14" case="first-letter">Kategorie</namespace></namespaces></siteinfo>"""  # noqa: E501


def page_xml(number, title, text='', namespace=0, redirect=None, model='wikitext'):
    """A page as XML."""
    target = '' if redirect is None else f'<redirect title={quoteattr(redirect)} />'
    return (
        f'<page><title>{escape_xml(title)}</title><ns>{namespace}</ns><id>{number}</id>'
        f'{target}<revision><id>{number}</id><model>{model}</model><text '
        f'xml:space="preserve">{escape_xml(text)}</text></revision></page>'
    )


def write_pages(path, *pages):
    """Writes pages as a dump of a German wiki, compressed as the name says: a stream of all pages,
    or one for each list of them.
    """
    compress = {'.bz2': bz2.compress, '.gz': gzip.compress}.get(path.suffix, bytes)
    streams = (
        [_GERMAN_HEAD, *map(''.join, pages), '</mediawiki>']
        if isinstance(pages[0], list)
        else [''.join([_GERMAN_HEAD, *pages, '</mediawiki>'])]
    )
    path.write_bytes(b''.join(compress(stream.encode()) for stream in streams))
    return path
