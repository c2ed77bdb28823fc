"""Documents as a MediaWiki dump, with hyperlinks in place of mentions: reading it gives them back exactly."""

from __future__ import annotations

import bz2
import contextlib
import dataclasses
import itertools
import os
import re
from collections.abc import Iterable
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
_MARKUP = re.compile(r"""[\[\]{}|<>&]|__|''|(?<![^\n])[*#:;=-]|//""")
# What wikitext cannot show, or XML cannot hold: control characters, outer and repeated blanks, empty lines.
_IMPOSSIBLE = re.compile('[\x00-\x09\x0b-\x1f\x7f\ud800-\udfff\ufffe\uffff]|  | \n|\n |\n\n|^[ \n]|[ \n]$')
