"""The reader of MediaWiki dumps: articles with their hyperlinks as mentions."""

import dataclasses
import json
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from opql_jax.core.errors import InputError
from opql_jax.corpus.documents import Document, Mention
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.rejected import check_rejected
from opql_jax.datasets.readers import Reader
from opql_jax.datasets.wikipedia import dump

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Wikipedia(Reader):
    """The reader of a dump's articles, each about its title's entity; no questions.

    A link is a mention of the page that it leads to, through redirects. The entities are the pages
    with the most links; links to others, and to pages that do not exist, are plain text.

    Attributes:
        path: the dump: a file, a folder of its parts or a pattern; .xml, .xml.bz2 or .xml.gz.
        work_folder: holds the parts that have been read, so that a killed run resumes; it may be
            deleted once the corpus is prepared.
        processes: number of parts that are read at once; None for one per core.
        min_links: number of links that an entity has at least; 0 makes every article an entity.
        max_entities: maximum number of entities, those with the most links; ties go to the title
            that comes first.
        skip_titles, skip_templates: pages to skip, see `dump.SkipPatterns`: by default lists and
            disambiguation pages of English wikis; '' skips none.
        max_reject_fraction: share of articles that cannot be read above which the dump is refused.
    """

    paths: ClassVar = ('path', 'work_folder', 'processes')
    path: str
    work_folder: str
    processes: int | None = None
    min_links: int = 1
    max_entities: int = 1_000_000
    skip_titles: str = 'List of *|Lists of *|Index of *|Outline of *|* (disambiguation)'
    skip_templates: str = (
        '*disambiguation|*disambig|dab|hndis|geodis|numberdis|set index article|sia'
    )
    max_reject_fraction: float = 0.01

    def __post_init__(self):
        for name, least in ('processes', 1), ('min_links', 0), ('max_entities', 1):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f'{name}={value}: must be at least {least}')

    def files(self):
        return {part.name: part for part in dump.part_files(self.path)}

    def read(self, rejected_path):
        parts = dump.part_files(self.path)
        skip = dump.SkipPatterns(self.skip_titles, self.skip_templates)
        articles = _Articles(dump.read_parts(parts, self.work_folder, skip, self.processes))
        rejected = articles.index([part.name for part in parts], rejected_path)
        most, total = self.max_reject_fraction, len(articles.titles) + len(rejected)
        check_rejected(self.path, rejected, 'articles', total, most, rejected_path)
        keys = articles.choose_entities(self.min_links, self.max_entities)
        entities = f'{len(keys):,} of {len(articles.titles):,} pages are entities'
        _log.info(f'{len(articles):,} articles with text; {entities}')
        return EntityVocab(keys, keys, [[]] * len(keys)), articles


class _Articles:
    """The documents of all parts, read from the work folder whenever they are iterated.

    `titles` are of all articles, also of those without text; `article_of` says which one a title,
    its own or a redirect, leads to.
    """

    def __init__(self, files: Sequence[Path]):
        """Takes the parts' files; call `index`, then `choose_entities`, before all else."""
        self._files = files
        self.titles: list[str] = []
        self.article_of: dict[str, str] = {}
        self._entities: set[str] = set()
        self._repeated: set[tuple[int, int]] = set()  # file and row
        self._count = 0

    def index(self, names: Sequence[str], rejected_path: str | os.PathLike) -> list[str]:
        """Collects titles, follows redirects; writes, and returns, why pages are rejected."""
        redirects: dict[str, str | None] = {}
        ids, reasons, skipped = set(), [], 0
        os.makedirs(os.path.dirname(rejected_path) or '.', exist_ok=True)
        with open(rejected_path, 'w', encoding='utf-8') as rejected:
            for file, row, (id, title, kind, target, reason) in self._rows(
                'id', 'title', 'kind', 'target', 'reason'
            ):
                if kind in ('article', 'redirect'):
                    if id in ids or title in self.article_of or title in redirects:
                        kind, reason = 'rejected', 'another page before it has its id or title'
                        self._repeated.add((file, row))
                    ids.add(id)
                if kind == 'article':
                    self.titles.append(title)
                    self.article_of[title] = title
                elif kind == 'redirect':
                    redirects[title] = target
                elif kind == 'rejected':
                    reasons.append(f'{names[file]}, page {title!r}: {reason}')
                    record = {'part': names[file], 'page': id, 'title': title, 'reason': reason}
                    rejected.write(json.dumps(record, ensure_ascii=False) + '\n')
                else:
                    skipped += 1
        for title in redirects:
            if (end := _end(title, redirects)) in self.article_of:
                self.article_of[title] = end
        _log.info(
            f'{len(self.titles):,} articles, {len(redirects):,} redirects, {skipped:,} pages '
            f'skipped, {len(reasons):,} rejected'
        )
        return reasons

    def choose_entities(self, min_links: int, max_entities: int) -> list[str]:
        """Makes the most linked titles the entities; returns them, most links first."""
        counts = dict.fromkeys(self.titles, 0)
        for file, first, batch in self._batches('links'):
            if self._repeated:
                rows = range(first, first + len(batch))
                batch = batch.filter(pa.array([(file, r) not in self._repeated for r in rows]))
            linked = pc.value_counts(batch['links'].flatten().field('title'))
            for title, count in zip(*(linked.field(n).to_pylist() for n in ('values', 'counts'))):
                if title in self.article_of:
                    counts[self.article_of[title]] += count
        often = [title for title, count in counts.items() if count >= min_links]
        chosen = sorted(often, key=lambda title: (-counts[title], title))
        self._entities = set(chosen[:max_entities])
        self._count = sum(1 for _ in self)
        return chosen[:max_entities]

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Document]:
        key_of = {t: article for t, article in self.article_of.items() if article in self._entities}
        columns = ('id', 'title', 'kind', 'text', 'links')
        for file, row, (id, title, kind, text, links) in self._rows(*columns):
            if kind == 'article' and text and (file, row) not in self._repeated:
                known = (link for link in links if link['title'] in key_of)
                mentions = tuple(Mention(m['start'], m['end'], key_of[m['title']]) for m in known)
                about = title if title in self._entities else None
                yield Document(id, title, text, mentions, about)

    def _rows(self, *columns: str) -> Iterator[tuple[int, int, tuple]]:
        """File, row in it and the values of the columns, for every page."""
        for file, first, batch in self._batches(*columns):
            rows = zip(*(batch[name].to_pylist() for name in columns))
            for row, values in enumerate(rows, first):
                yield file, row, values

    def _batches(self, *columns: str) -> Iterator[tuple[int, int, pa.RecordBatch]]:
        """File, first row and batch."""
        for number, path in enumerate(self._files):
            row = 0
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(dump.BATCH_PAGES, columns=list(columns)):
                    yield number, row, batch
                    row += batch.num_rows


def _end(title: str | None, redirects: dict[str, str | None]) -> str | None:
    """The page that a chain of redirects ends at, if it exists; a circle ends at a redirect."""
    seen = set()
    while title in redirects and title not in seen:
        seen.add(title)
        title = redirects[title]
    return title
