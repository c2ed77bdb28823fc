"""Slot-filling queries such as '[Willi Schneider], country of citizenship, capital', made from facts that text supports.

A query names a topic and one relation for each hop. The entities after a hop are the tails of all facts of its relation from
the entities before it, without the topic, to which a path never returns; those after the last hop are the answers.
"""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import itertools
import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from opql_jax.corpus.documents import CorpusError
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.linking import link_titles
from opql_jax.corpus.questions import RELATION_SEPARATOR, Question
from opql_jax.datasets import docred
from opql_jax.datasets.docred import Fact

HOPS = (1, 2, 3)

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Query:
    """A chain of relations from a topic.

    Attributes:
        topic: entity key.
        chain: relation ids, one for each hop.
        reached: for each hop the entity keys after it, in alphabetical order, never empty; the last are the answers.
    """

    topic: str
    chain: tuple[str, ...]
    reached: tuple[tuple[str, ...], ...]


def queries(facts: Iterable[Fact], hops: int) -> list[Query]:
    """All queries of so many hops that have an answer, by topic and chain in alphabetical order."""
    tails = collections.defaultdict(lambda: collections.defaultdict(set))
    for head, relation, tail in facts:
        tails[head][relation].add(tail)
    found = []
    for topic in sorted(tails):
        partial = [((), ((topic,),))]
        for _ in range(hops):
            longer = []
            for chain, reached in partial:
                after = collections.defaultdict(set)
                for entity in reached[-1]:
                    for relation, others in tails.get(entity, {}).items():
                        after[relation] |= others - {topic}
                longer += [((*chain, r), (*reached, tuple(sorted(after[r])))) for r in sorted(after) if after[r]]
            partial = longer
        found += [Query(topic, chain, reached[1:]) for chain, reached in partial]
    return found


def balance(found: Sequence[Query], level: int, seed: int) -> list[Query]:
    """A choice of queries in which the most frequent relations come about equally often.

    No relation is needed by more queries than the relation at rank `level` + 1 before the choice (counted from the most
    frequent one; all are kept where there are no more than `level`). Queries are taken in a random order, which depends on
    the seed and on the query alone, as long as all their relations are below that.
    """
    counts = relation_counts(found)
    if len(counts) <= level:
        return list(found)
    most, used, kept = counts.most_common()[level][1], collections.Counter(), []
    for query in sorted(found, key=lambda q: _digest(seed, q.topic, *q.chain)):
        needed = set(query.chain)
        if all(used[relation] < most for relation in needed):
            used.update(needed)
            kept.append(query)
    return kept


def relation_counts(found: Iterable[Query]) -> collections.Counter[str]:
    """How many queries need each relation."""
    return collections.Counter(relation for query in found for relation in set(query.chain))


def question(query: Query, vocab: EntityVocab, relations: Mapping[str, str], id: str) -> Question:
    """The query as a question, in words; its type names the chain, 'P27 > P36'."""
    topic = vocab.id_of_key[query.topic]
    name = vocab.names[topic]
    *via, answers = (tuple(vocab.id_of_key[key] for key in keys) for keys in query.reached)
    return Question(
        id=id,
        text=', '.join([name, *(relations[relation] for relation in query.chain)]),
        topics=((0, len(name)),),
        entities=(topic,),
        answers=answers,
        hops=len(query.chain),
        type=RELATION_SEPARATOR.join(query.chain),
        via=tuple(via),
    )


def in_dev(title: str, fraction: float, seed: int) -> bool:
    """Whether a document is one of the share of documents that make the dev corpus; no other document matters to that."""
    return int(_digest(seed, title)[:12], 16) < fraction * 16**12


def portion(relations: Iterable[str], share: float, seed: int) -> tuple[str, ...]:
    """A random share of relations, to be held out from training (rounded up); a larger share contains a smaller one."""
    ordered = sorted(relations, key=lambda relation: _digest(seed, relation))
    return tuple(sorted(ordered[: math.ceil(share * len(ordered))]))


def _digest(*parts) -> str:
    return hashlib.sha256('\0'.join(map(str, parts)).encode()).hexdigest()


@dataclasses.dataclass(frozen=True)
class SlotFilling:
    """Documents with relation labels, as text with mentions and multi-hop slot-filling queries (see `docred`, `slot_filling`).

    The questions of a part come from facts of its own documents only: '1-hop/train', '2-hop/dev' and so on.

    Attributes:
        path: the documents.
        relations: names of the relations, a JSON object.
        part: 'train' or 'dev' for the documents of one part, 'all' for both.
        dev_fraction: share of the documents that are in dev; 1 makes a test corpus of the file, 0 trains on all of it.
        balanced: how many of the most frequent relations are cut down (see `balance`).
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
            dev = in_dev(item.document.title, self.dev_fraction, self.seed)
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
        return vocab, link_titles([i.document for items in chosen.values() for i in items], vocab)

    def questions(self, vocab):
        relations, out = docred.read_relations(self.relations), {}
        for (part, facts), hops in itertools.product(self._facts.items(), HOPS):
            found = queries(facts, hops)
            kept = balance(found, self.balanced, self.seed)
            before, after = relation_counts(found), relation_counts(kept)
            shown = ', '.join(f'{relation} {n:,} -> {after[relation]:,}' for relation, n in before.most_common(self.balanced))
            _log.info(f'{hops}-hop/{part}: {len(kept):,} of {len(found):,} queries kept, of them with {shown}')
            if kept:
                name = f'{hops}-hop/{part}'
                out[name] = [question(q, vocab, relations, f'{name}/{i}') for i, q in enumerate(kept, 1)]
        if not out:
            raise CorpusError(
                f'{self.path}: no fact of the part {self.part!r} is supported by a sentence, so there is no query'
            )
        return out
