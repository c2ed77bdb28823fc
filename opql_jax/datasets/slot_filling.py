"""Slot-filling queries such as '[Willi Schneider], country of citizenship, capital', made from facts that text supports.

A query names a topic and one relation for each hop. The entities after a hop are the tails of all facts of its relation from
the entities before it, without the topic, to which a path never returns; those after the last hop are the answers.
"""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence

from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.questions import RELATION_SEPARATOR, Question
from opql_jax.datasets.docred import Fact

HOPS = (1, 2, 3)


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
    *via, answers = ([vocab.id_of_key[key] for key in keys] for keys in query.reached)
    return Question(
        text=', '.join([name, *(relations[relation] for relation in query.chain)]),
        topic=(0, len(name)),
        topic_entity=topic,
        answers=answers,
        unknown_answers=[],
        hops=len(query.chain),
        type=RELATION_SEPARATOR.join(query.chain),
        id=id,
        via=via,
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
