"""A stand-in for a virtual knowledge base, and questions whose names are hard to write."""

import types

import numpy as np

from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.questions import Question
from opql_jax.kb.answers import Answer, Hop

# Names that a line of JSON or a text file may trip over.
NAMES = ['Zoë “Ω” Łęcka', '北京', 'a\u2028b\x85c', 'tab\\t"quote"', "O'Neill [actor]"]
NAMES += ['𝔘p', 'مدينة', 'plain']


class GraphKB:
    """Follows every entry of a topic with the same weight."""

    def __init__(self, vocab, entries, identity='one model', k=64):
        self.vocab = vocab
        self.identity = identity
        self.k = k
        self.answered = 0
        topic, target = np.array(sorted(entries), np.int32).reshape(-1, 2).T
        rows = lambda entries: entries
        self.memory = types.SimpleNamespace(topic=topic, target=target, rows=rows)
        self.memory_is_of_text = False

    def answer(self, questions):
        return [self._answer(question) for question in questions]

    def _answer(self, question):
        self.answered += 1
        hops, topics = [], [question.topic_entity]
        for _ in range(question.hops):
            entries = np.flatnonzero(np.isin(self.memory.topic, topics))[: self.k]
            topics, counts = np.unique(self.memory.target[entries], return_counts=True)
            order = np.argsort(-counts, kind='stable')
            topics = topics[order]
            weights = counts[order] / max(counts.sum(), 1)
            hops.append(Hop(topics, weights, entries, np.full(len(entries), 1 / 3)))
        found = hops[-1].entities, hops[-1].weights, (tuple(hops),)
        return Answer(*found, store=self, question=question)


def ask(vocab, topic, answers=(), number=1, kind='', text='who met {} again, and why'):
    """A question about a name, or about an unknown one."""
    start = text.index('{}')
    found = [vocab.get(name) for name in answers]
    known = tuple(entity for entity in found if entity is not None)
    unknown = tuple(name for name, entity in zip(answers, found) if entity is None)
    asked = f'2-hop/dev/{number}', text.format(topic), ((start, start + len(topic)),)
    entity = -1 if vocab.get(topic) is None else vocab.get(topic)
    return Question(*asked, (entity,), known, unknown, 2, kind)


VOCAB = EntityVocab.from_names(NAMES)
RING = [(i, (i + step) % len(NAMES)) for i in range(len(NAMES)) for step in (1, 3)]
QUESTIONS = [ask(VOCAB, name, NAMES[:1], i) for i, name in enumerate([*NAMES, 'unknown ⟂'], 1)]


def ring(**options):
    return GraphKB(VOCAB, RING, **options)
