"""The reader of MediaWiki dumps, such as Wikipedia's: articles with their hyperlinks as mentions."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from opql_jax.corpus.documents import CorpusError, Document, Mention, check_rejected
from opql_jax.corpus.entities import EntityVocab
from opql_jax.datasets.wikipedia import dump

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Wikipedia:
    """The reader of the articles of a dump, each about the entity that its title names; no questions.

    A link is a mention of the page that it leads to, through redirects. The entities are the pages with the most links; links
    to others, and to pages that do not exist, are plain text.

    Attributes:
        path: the dump: a file, a folder of its parts or a pattern; .xml, .xml.bz2 or .xml.gz.
        work_folder: holds the parts that have been read, so that a killed run resumes; it may be deleted once the corpus is
            prepared.
        processes: number of parts that are read at once; None for one per core.
        min_links: number of links that an entity has at least; 0 makes every article an entity.
        max_entities: maximum number of entities, those with the most links; ties go to the title that comes first.
        skip_titles, skip_templates: pages to skip, see `dump.SkipPatterns`: by default lists and disambiguation pages of
            English wikis; '' skips none.
        max_reject_fraction: share of articles that cannot be read above which the dump is refused.
    """

    paths: ClassVar = ('path', 'work_folder', 'processes')
    path: str
    work_folder: str
    processes: int | None = None
    min_links: int = 1
    max_entities: int = 1_000_000
    skip_titles: str = 'List of *|Lists of *|Index of *|Outline of *|* (disambiguation)'
    skip_templates: str = '*disambiguation|*disambig|dab|hndis|geodis|numberdis|set index article|sia'
    max_reject_fraction: float = 0.01

    def __post_init__(self):
        for name, least in ('processes', 1), ('min_links', 0), ('max_entities', 1):
            value = getattr(self, name)
            if value is not None and value < least:
                raise CorpusError(f'{name}={value}: must be at least {least}')

    def files(self):
        return {part.name: part for part in dump.part_files(self.path)}

    def read(self, rejected_path):
        parts = dump.part_files(self.path)
        skip = dump.SkipPatterns(self.skip_titles, self.skip_templates)
        pages = _Pages(dump.read_parts(parts, self.work_folder, skip, self.processes))
        rejected = pages.index([part.name for part in parts], rejected_path)
        total = len(pages.titles) + len(rejected)
        check_rejected(self.path, rejected, 'articles', total, self.max_reject_fraction, rejected_path)
        keys = pages.most_linked(self.min_links, self.max_entities)
        documents = _Articles(pages, set(keys))
        _log.info(
            f'{len(documents):,} articles with text, {documents.mentions:,} mentions of {len(keys):,} of {len(pages.titles):,} pages'
        )
        return EntityVocab(keys, keys, [[]] * len(keys)), documents

    def questions(self, vocab):
        return {}


class _Articles:
    """The documents of all parts, read from the work folder whenever they are iterated: they need not fit into memory.

    Attributes:
        mentions: the number of their mentions.
    """

    def __init__(self, pages: _Pages, entities: set[str]):
        self._pages, self._entities = pages, entities
        self._count = self.mentions = 0
        for document in self:
            self._count += 1
            self.mentions += len(document.mentions or ())

    def __iter__(self) -> Iterator[Document]:
        return self._pages.documents(self._entities)

    def __len__(self) -> int:
        return self._count


class _Pages:
    """The pages of all parts together.

    Attributes:
        titles: the titles of the articles, by number.
        number: the number of the article that a title leads to, redirects included.
    """

    def __init__(self, files: Sequence[Path]):
        """Takes the files of the parts, see `dump.read_parts`."""
        self._files = files
        self.titles: list[str] = []
        self.number: dict[str, int] = {}
        self._repeated: set[tuple[int, int]] = set()  # file and row

    def index(self, names: Sequence[str], rejected_path: str | os.PathLike) -> list[str]:
        """Numbers the articles and follows redirects.

        Args:
            names: the names of the parts.
            rejected_path: rejected pages are written here as `{part, page, title, reason}`; written even when there is none.

        Returns:
            The reason for each rejected page.
        """
        redirects, ids, reasons, skipped = {}, set(), [], 0
        os.makedirs(os.path.dirname(rejected_path) or '.', exist_ok=True)
        with open(rejected_path, 'w', encoding='utf-8') as rejected:
            for file, row, page in self._rows('id', 'title', 'kind', 'target', 'reason'):
                id, title, kind, target, reason = page
                if kind in ('article', 'redirect') and (id in ids or title in self.number or title in redirects):
                    kind, reason = 'rejected', 'another page before it has its id or title'
                    self._repeated.add((file, row))
                if kind == 'rejected':
                    reasons.append(f'{names[file]}, page {title!r}: {reason}')
                    record = {'part': names[file], 'page': id, 'title': title, 'reason': reason}
                    rejected.write(json.dumps(record, ensure_ascii=False) + '\n')
                elif kind == 'redirect':
                    redirects[title] = target
                    ids.add(id)
                elif kind == 'article':
                    self.number[title] = len(self.titles)
                    self.titles.append(title)
                    ids.add(id)
                else:
                    skipped += 1
        ends = {title: self._end(title, redirects) for title in redirects}
        self.number |= {title: end for title, end in ends.items() if end is not None}
        _log.info(
            f'{len(self.titles):,} articles, {len(redirects):,} redirects, {skipped:,} pages skipped, {len(reasons):,} rejected'
        )
        return reasons

    def _end(self, title: str | None, redirects: dict[str, str | None]) -> int | None:
        """The number of the article at the end of a chain of redirects; None for a circle and for a chain that leads nowhere."""
        seen = set()
        while title in redirects and title not in seen:
            seen.add(title)
            title = redirects[title]
        return None if title is None else self.number.get(title)

    def most_linked(self, min_links: int, max_entities: int) -> list[str]:
        """Titles of the articles with the most links, most linked first."""
        counts = np.zeros(len(self.titles), np.int64)
        for _, _, batch in self._batches('links'):
            linked = pc.value_counts(batch['links'].flatten().field('title'))
            for title, count in zip(linked.field('values').to_pylist(), linked.field('counts').to_pylist()):
                if (number := self.number.get(title)) is not None:
                    counts[number] += count
        order = sorted(np.flatnonzero(counts >= min_links).tolist(), key=lambda number: (-counts[number], self.titles[number]))
        return [self.titles[number] for number in order[:max_entities]]

    def documents(self, entities: set[str]) -> Iterator[Document]:
        """The articles that have text, with mentions of `entities`."""
        key = {title: self.titles[number] for title, number in self.number.items() if self.titles[number] in entities}
        for file, row, (id, title, kind, text, links) in self._rows('id', 'title', 'kind', 'text', 'links'):
            if kind == 'article' and text and (file, row) not in self._repeated:
                mentions = tuple(
                    Mention(link['start'], link['end'], key[link['title']]) for link in links if link['title'] in key
                )
                yield Document(id, title, text, mentions, title if title in entities else None)

    def _rows(self, *columns: str) -> Iterator[tuple[int, int, tuple]]:
        """File, row in it and the values of the columns, for every page."""
        for file, first, batch in self._batches(*columns):
            for row, values in enumerate(zip(*(batch[name].to_pylist() for name in columns)), first):
                yield file, row, values

    def _batches(self, *columns: str) -> Iterator[tuple[int, int, pa.RecordBatch]]:
        for number, path in enumerate(self._files):
            row = 0
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(dump.BATCH_PAGES, columns=list(columns)):
                    yield number, row, batch
                    row += batch.num_rows
