"""Writes documents as a MediaWiki dump, with hyperlinks in place of mentions, to be read back."""

import bz2
import gzip
import re
from xml.sax.saxutils import escape as escape_xml
from xml.sax.saxutils import quoteattr

_MARKUP = re.compile(r"""[\[\]{}|<>&]|__|''|(?<![^\n])[*#:;=-]""")


def write_dump(path, documents, vocab):
    """Writes documents as a compressed dump.

    A page is called like the entity that its document is about, each another one. Entities that no
    document is about have pages without text, as a link to no page is read as text.
    """
    names = dict(zip(vocab.keys, vocab.names))
    texts = {document.title_entity: wikitext(document, vocab) for document in documents}
    texts |= {key: '' for key in names if key not in texts}
    write_pages(path, *(page_xml(i, names[key], texts[key]) for i, key in enumerate(texts, 1)))


def wikitext(document, vocab):
    text, pieces, end = document.text, [], 0
    for mention in document.mentions or ():
        # A colon may make it look like an address.
        title = vocab.names[vocab.id_of_key[mention.entity]].replace(':', '&#58;')
        link = f'[[{title}|{_escaped(text[mention.start : mention.end])}]]'
        pieces += _after_link(text[end : mention.start], end > 0), link
        end = mention.end
    return ''.join([*pieces, _after_link(text[end:], end > 0)]).replace('\n', '\n\n')


def _after_link(text: str, link_before: bool) -> str:
    """Escaped text; a small letter right after a link would belong to it."""
    return ('<nowiki />' if link_before and text[:1].islower() else '') + _escaped(text)


def _escaped(text: str) -> str:
    return _MARKUP.sub(lambda found: ''.join(f'&#{ord(each)};' for each in found[0]), text)


_GERMAN_HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" version="0.10" xml:lang="de"><siteinfo>
<namespaces><namespace key="0" case="first-letter" /><namespace key="6" case="first-letter">Datei</namespace>
<namespace key="14" case="first-letter">Kategorie</namespace></namespaces></siteinfo>"""  # noqa: E501


def page_xml(number, title, text='', namespace=0, redirect=None, model='wikitext'):
    target = '' if redirect is None else f'<redirect title={quoteattr(redirect)} />'
    return (
        f'<page><title>{escape_xml(title)}</title><ns>{namespace}</ns><id>{number}</id>'
        f'{target}<revision><id>{number}</id><model>{model}</model><text '
        f'xml:space="preserve">{escape_xml(text)}</text></revision></page>'
    )


def write_pages(path, *pages):
    """Writes pages as a dump of a German wiki, compressed as the name says; a list is a stream."""
    compress = {'.bz2': bz2.compress, '.gz': gzip.compress}.get(path.suffix, bytes)
    streams = [_GERMAN_HEAD, *map(''.join, pages), '</mediawiki>']
    if not isinstance(pages[0], list):
        streams = [''.join(streams)]
    path.write_bytes(b''.join(compress(stream.encode()) for stream in streams))
    return path
