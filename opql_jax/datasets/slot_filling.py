"""Multi-hop slot filling from DocRED: '[Willi Schneider], country of citizenship, capital'.

A query names a topic and one relation for each hop. The entities after a hop are the tails of all
facts of its relation from the entities before it, without the topic, to which a path never returns;
those after the last hop are the answers.
"""

import collections
import dataclasses
import hashlib
import itertools
import logging
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from opql_jax.core.errors import InputError
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.linking import link_titles
from opql_jax.corpus.questions import RELATION_SEPARATOR, Question
from opql_jax.datasets import docred
from opql_jax.datasets.docred import Fact

HOPS = (1, 2, 3)
# Number of most frequent relations to cut down, see `balance`.
BALANCED = 8

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class SlotFilling:
    """The reader of documents with labelled relations (see `docred`), and of multi-hop queries.

    The queries of a part, such as '2-hop/dev', come from facts of its own documents only.

    Attributes:
        path: the documents.
        relations: names of the relations, a JSON object.
        part: 'train' or 'dev' for the documents of one part, 'all' for both.
        dev_fraction: share of the documents that are in dev; 1 makes a test corpus of the file, 0
            trains on all of it.
        seed: of the split and of the balancing.
    """

    paths: ClassVar = ('path', 'relations')
    path: str
    relations: str
    part: str = 'all'
    dev_fraction: float = 0.2
    seed: int = 0

    def __post_init__(self):
        if self.part not in ('train', 'dev', 'all') or not 0 <= self.dev_fraction <= 1:
            given = f'part={self.part!r}, dev_fraction={self.dev_fraction}'
            raise InputError(f'{given}: expected all, train or dev, and 0 to 1')

    def files(self):
        return {'documents': self.path, 'relations': self.relations}

    def read(self, rejected_path):
        documents = [d for documents in self._parts(rejected_path).values() for d in documents]
        names: dict[str, str] = {}
        counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        for document in documents:
            for key, (name, spellings) in document.names.items():
                names.setdefault(key, name)
                counts[key].update(spellings)
        by_use = lambda key: sorted(counts[key], key=lambda s: (-counts[key][s], s))
        aliases = [[s for s in by_use(key) if s != name] for key, name in names.items()]
        supported = sum(len(d.facts) for d in documents)
        total = supported + sum(len(d.apart) for d in documents)
        _log.info(f'{supported:,} of {total:,} labels are supported by a sentence')
        vocab = EntityVocab(list(names), list(names.values()), aliases)
        return vocab, link_titles([document.document for document in documents], vocab)

    def questions(self, vocab, rejected_path):
        relations, splits = docred.read_relations(self.relations), {}
        for (part, documents), hops in itertools.product(self._parts(os.devnull).items(), HOPS):
            every = queries([fact for document in documents for fact in document.facts], hops)
            chosen = balance(every, BALANCED, self.seed)
            name = f'{hops}-hop/{part}'
            _log.info(f'{name}: {len(chosen):,} of {len(every):,} queries chosen')
            if chosen:
                numbered = enumerate(chosen, 1)
                splits[name] = [question(q, vocab, relations, f'{name}/{i}') for i, q in numbered]
        if not splits:
            raise InputError(f'{self.path}: no sentence states a fact of the part {self.part!r}')
        return splits

    def _parts(self, rejected_path) -> dict[str, list[docred.AnnotatedDocument]]:
        """The documents of the chosen parts."""
        relations = docred.read_relations(self.relations)
        documents = docred.read_documents(self.path, relations, rejected_path=rejected_path)
        parts: dict[str, list[docred.AnnotatedDocument]] = {'train': [], 'dev': []}
        for document in documents:
            is_dev = in_dev(document.document.title, self.dev_fraction, self.seed)
            parts['dev' if is_dev else 'train'].append(document)
        return {name: documents for name, documents in parts.items() if self.part in (name, 'all')}


@dataclasses.dataclass(frozen=True)
class Query:
    """A chain of relation ids from a topic's key."""

    topic: str
    chain: tuple[str, ...]
    reached: tuple[tuple[str, ...], ...]  # sorted keys after each hop, never empty; then answers


def queries(facts: Iterable[Fact], hops: int) -> list[Query]:
    """All answered queries of a number of hops, by topic and chain in alphabetical order."""
    tails = collections.defaultdict(lambda: collections.defaultdict(set))
    for head, relation, tail in facts:
        tails[head][relation].add(tail)
    every = []
    for topic in sorted(tails):
        partial = [((), ((topic,),))]
        for _ in range(hops):
            longer = []
            for chain, reached in partial:
                after = collections.defaultdict(set)
                for entity in reached[-1]:
                    for relation, others in tails.get(entity, {}).items():
                        after[relation] |= others - {topic}
                for relation in sorted(after):
                    if after[relation]:
                        end = tuple(sorted(after[relation]))
                        longer.append(((*chain, relation), (*reached, end)))
            partial = longer
        every += [Query(topic, chain, reached[1:]) for chain, reached in partial]
    return every


def balance(every: Sequence[Query], level: int, seed: int) -> list[Query]:
    """Chooses queries so that the `level` most frequent relations come about equally often."""
    counts = collections.Counter(relation for query in every for relation in set(query.chain))
    if len(counts) <= level:
        return list(every)
    limit, used, chosen = counts.most_common()[level][1], collections.Counter(), []
    for query in sorted(every, key=lambda q: _digest(seed, q.topic, *q.chain)):
        relations = set(query.chain)
        if all(used[relation] < limit for relation in relations):
            used.update(relations)
            chosen.append(query)
    return chosen


def question(query: Query, vocab: EntityVocab, relations: Mapping[str, str], id: str) -> Question:
    """A query as a question, in words; its type names the chain, 'P27 > P36'."""
    topic = vocab.id_of_key[query.topic]
    name = vocab.names[topic]
    *via, answers = (tuple(vocab.id_of_key[key] for key in keys) for keys in query.reached)
    text = ', '.join([name, *(relations[relation] for relation in query.chain)])
    hops, kind = len(query.chain), RELATION_SEPARATOR.join(query.chain)
    asked = id, text, ((0, len(name)),), (topic,), answers
    return Question(*asked, hops=hops, type=kind, via=tuple(via))


def in_dev(title: str, fraction: float, seed: int) -> bool:
    """Whether a document is in the dev part, a share of all; depends on its title alone."""
    return int(_digest(seed, title)[:12], 16) < fraction * 16**12


def random_share(relations: Iterable[str], share: float, seed: int) -> tuple[str, ...]:
    """A random share of relations to hold out (rounded up); a larger share contains a smaller."""
    ordered = sorted(relations, key=lambda relation: _digest(seed, relation))
    return tuple(sorted(ordered[: math.ceil(share * len(ordered))]))


def _digest(*parts) -> str:
    return hashlib.sha256('\0'.join(map(str, parts)).encode()).hexdigest()
