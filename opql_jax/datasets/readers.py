"""Corpora that `prepare` can read. A reader is a dataclass with three methods:

read(rejected_path) -> (EntityVocab, documents), which have a length and can be iterated again and again
questions(vocab) -> {'<hops>-hop/<split>': list[Question]}
files() -> {label: path} of all that the two read; its path fields, named in `paths`, may change without changing the data

Those of knowledge bases, which OPQL does not read, are in `triples`.
"""

import collections
import dataclasses
import itertools
import json
import logging
import pathlib
from typing import ClassVar

from opql_jax.corpus import questions as questions_lib
from opql_jax.corpus import tables
from opql_jax.corpus.documents import CorpusError, read_jsonl
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.prepare import about_titles, vocab_from_documents
from opql_jax.datasets import docred, metaqa, slot_filling, wikispeedia

_log = logging.getLogger(__name__)


def read_question_folder(folder, vocab: EntityVocab) -> dict:
    """All `<hops>-hop/<split>.txt` files of a folder (MetaQA format), by '<hops>-hop/<split>'."""
    out = {}
    for path in question_files(folder).values():
        hops = path.parent.name.removesuffix('-hop')
        if not hops.isdigit() or int(hops) < 1:
            raise CorpusError(f"{path.parent}: the folder must be named '<number>-hop'")
        out[f'{hops}-hop/{path.stem}'] = questions_lib.parse_metaqa_file(path, vocab, int(hops))
    if not out:
        raise CorpusError(f'{folder}: no question file such as {folder}/1-hop/train.txt')
    return out


def question_files(folder) -> dict[str, pathlib.Path]:
    return {f'{path.parent.name}/{path.name}': path for path in sorted(pathlib.Path(folder).glob('*-hop/*.txt'))}


def identity(reader) -> dict:
    """What prepared data depend on: the reader's class and options, and the sha256 of every file it reads, wherever it lies."""
    for path in map(pathlib.Path, reader.files().values()):
        if not path.is_file():
            raise CorpusError(f'{path}: {"is a folder, a file is needed" if path.is_dir() else "no such file"}')
    files = {label: tables.sha256(path) for label, path in reader.files().items()}
    return {**_described(reader), 'files': files}


def _described(reader) -> dict:
    """The reader's class and options, without paths; an option may be another reader."""
    options = {f.name: getattr(reader, f.name) for f in dataclasses.fields(reader) if f.name not in reader.paths}
    nested = {name: _described(value) for name, value in options.items() if dataclasses.is_dataclass(value)}
    return {'reader': type(reader).__name__, **options, **nested}


def read_entities(path) -> EntityVocab:
    """Reads JSON Lines `{id, name?, aliases?}`; the name of an entity without one is its id. Errors name the line."""
    keys, names, aliases, lines_of = [], [], [], {}
    try:
        lines = pathlib.Path(path).read_text(encoding='utf-8').split('\n')
    except (OSError, UnicodeDecodeError) as error:
        raise CorpusError(f'{path}: cannot be read ({error})') from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            key = str(record['id']) if type(record['id']) is int else record['id']
            name, others = record.get('name') or key, record.get('aliases') or []
            if not (isinstance(others, list) and all(isinstance(value, str) and value for value in (key, name, *others))):
                raise TypeError('id and name are strings, aliases a list of strings, none of them empty')
            ''.join((key, name, *others)).encode()
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorpusError(
                f'{path}, line {number}: expected {{id, name?, aliases?}} ({type(error).__name__}: {error})'
            ) from error
        if (first := lines_of.setdefault(key, number)) != number:
            raise CorpusError(f'{path}, line {number}: id {key!r} is already in line {first}')
        keys.append(key)
        names.append(name)
        aliases.append(others)
    return EntityVocab(keys, names, aliases)


@dataclasses.dataclass(frozen=True)
class JsonLines:
    """Any text as JSON Lines, with or without entity links.

    Attributes:
        path: the corpus, `{id, title, text, title_entity?, mentions?}` a line.
        entities: JSON Lines `{id, name?, aliases?}`. Without it the entities are those that the documents link, or, in a
            corpus without any link, the titles of the documents.
        question_folder: holds `<hops>-hop/<split>.txt` in the MetaQA format; None for no questions.
        max_reject_fraction: share of bad records above which the corpus is refused.
    """

    paths: ClassVar = ('path', 'entities', 'question_folder')
    path: str
    entities: str | None = None
    question_folder: str | None = None
    max_reject_fraction: float = 0.01

    def files(self):
        entities = {'entities': self.entities} if self.entities else {}
        return {'corpus': self.path, **entities, **(question_files(self.question_folder) if self.question_folder else {})}

    def read(self, rejected_path):
        vocab = read_entities(self.entities) if self.entities else None
        documents = read_jsonl(
            self.path,
            rejected_path=rejected_path,
            max_reject_fraction=self.max_reject_fraction,
            known_entities=None if vocab is None else set(vocab.keys),
        )
        vocab = vocab or vocab_from_documents(documents)
        return vocab, about_titles(documents, vocab)

    def questions(self, vocab):
        return read_question_folder(self.question_folder, vocab) if self.question_folder else {}


@dataclasses.dataclass(frozen=True)
class MetaQA:
    """MetaQA questions over Wikipedia passages, linked by entity names (see `metaqa`).

    Attributes:
        folder: holds passages.jsonl, entities.txt and <hops>-hop/<split>.txt.
    """

    paths: ClassVar = ('folder',)
    folder: str

    def files(self):
        folder = pathlib.Path(self.folder)
        return {name: folder / name for name in ('passages.jsonl', 'entities.txt')} | question_files(folder)

    def read(self, rejected_path):
        vocab = metaqa.entity_vocab(self.folder)
        return vocab, metaqa.documents(self.folder, vocab, rejected_path=rejected_path)

    def questions(self, vocab):
        return read_question_folder(self.folder, vocab)


@dataclasses.dataclass(frozen=True)
class Wikispeedia:
    """Whole articles of the 2007 Schools Wikipedia with their links (see `wikispeedia`); no questions.

    Attributes:
        folder: holds articles.jsonl.gz and links.tsv.
    """

    paths: ClassVar = ('folder',)
    folder: str

    def files(self):
        return {name: pathlib.Path(self.folder, name) for name in ('articles.jsonl.gz', 'links.tsv')}

    def read(self, rejected_path):
        vocab = wikispeedia.entity_vocab(self.folder)
        return vocab, list(wikispeedia.documents(self.folder, vocab))

    def questions(self, vocab):
        return {}


@dataclasses.dataclass(frozen=True)
class SlotFilling:
    """Documents with relation labels, as text with mentions and multi-hop slot-filling queries (see `docred`, `slot_filling`).

    The questions of a part come from facts of its own documents only: '1-hop/train', '2-hop/dev' and so on.

    Attributes:
        path: the documents.
        relations: names of the relations, a JSON object.
        part: 'train' or 'dev' for the documents of one part, 'all' for both.
        dev_fraction: share of the documents that are in dev; 1 makes a test corpus of the file, 0 trains on all of it.
        balanced: how many of the most frequent relations are cut down (see `slot_filling.balance`).
        seed: of the split and of the balancing.
        max_reject_fraction: share of bad documents above which the corpus is refused.
    """

    paths: ClassVar = ('path', 'relations')
    path: str
    relations: str
    part: str = 'all'
    dev_fraction: float = 0.2
    balanced: int = 8
    seed: int = 0
    max_reject_fraction: float = 0.01

    def __post_init__(self):
        if self.part not in ('train', 'dev', 'all') or not 0 <= self.dev_fraction <= 1:
            raise CorpusError(f"part={self.part!r}: 'train', 'dev' or 'all'; dev_fraction={self.dev_fraction}: from 0 to 1")

    def files(self):
        return {'documents': self.path, 'relations': self.relations}

    def read(self, rejected_path):
        annotated = docred.read_documents(
            self.path,
            docred.read_relations(self.relations),
            rejected_path=rejected_path,
            max_reject_fraction=self.max_reject_fraction,
        )
        parts = {'train': [], 'dev': []}
        for item in annotated:
            dev = slot_filling.in_dev(item.document.title, self.dev_fraction, self.seed)
            parts['dev' if dev else 'train'].append(item)
        chosen = {name: items for name, items in parts.items() if self.part in (name, 'all')}
        names, spellings = {}, {}
        for item in itertools.chain(*chosen.values()):
            for key, (name, counts) in item.names.items():
                names.setdefault(key, name)
                spellings.setdefault(key, collections.Counter()).update(counts)
        aliases = [[s for s in sorted(c, key=lambda s: (-c[s], s)) if s != names[key]] for key, c in spellings.items()]
        facts = {name: [fact for item in items for fact in item.facts] for name, items in chosen.items()}
        object.__setattr__(self, '_facts', facts)  # for `questions`, which comes after
        supported = sum(map(len, facts.values()))
        labels = supported + sum(item.unsupported for items in chosen.values() for item in items)
        _log.info(f'{supported:,} of {labels:,} labels are supported by a sentence')
        vocab = EntityVocab(list(names), list(names.values()), aliases)
        return vocab, about_titles([i.document for items in chosen.values() for i in items], vocab)

    def questions(self, vocab):
        relations, out = docred.read_relations(self.relations), {}
        for (part, facts), hops in itertools.product(self._facts.items(), slot_filling.HOPS):
            found = slot_filling.queries(facts, hops)
            kept = slot_filling.balance(found, self.balanced, self.seed)
            before, after = slot_filling.relation_counts(found), slot_filling.relation_counts(kept)
            shown = ', '.join(f'{relation} {n:,} -> {after[relation]:,}' for relation, n in before.most_common(self.balanced))
            _log.info(f'{hops}-hop/{part}: {len(kept):,} of {len(found):,} queries kept, of them with {shown}')
            if kept:
                name = f'{hops}-hop/{part}'
                out[name] = [slot_filling.question(q, vocab, relations, f'{name}/{i}') for i, q in enumerate(kept, 1)]
        if not out:
            raise CorpusError(
                f'{self.path}: no fact of the part {self.part!r} is supported by a sentence, so there is no query'
            )
        return out
