"""Batches for a relation encoder for any text: labelled mention pairs, and questions on them.

A label says which pairs state the same. It is the relation that a corpus gives a sentence, or else
the two entities themselves: mentions of one ordered pair in different passages are taken to state
the same (paper §2.2). Names are now and then hidden, or exchanged for those of another pair of the
same label, so that wording counts.
"""

import collections
import dataclasses
from typing import NamedTuple

import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.data import batching, markup, relation_questions
from opql_jax.data.markup import MarkedQuestion, TokenisedPassage
from opql_jax.data.prepared import Prepared
from opql_jax.data.sampling import PairIndex
from opql_jax.data.sources.base import Source
from opql_jax.data.tokenizer import word_id
from opql_jax.datasets import labelled_sentences
from opql_jax.datasets.labelled_sentences import LabelledSentence

# Symmetric relations.
_SYMMETRIC = frozenset(
    'spouse|sibling|said to be the same as|shares border with|sister city'
    '|diplomatic relation'.split('|')
)
# Words that replace the target in a cloze question.
_QUESTION_WORDS = ('who', 'what', 'which', 'where', 'when')
# Labels with more sentences are drawn no more often.
_MAX_FREQUENCY = 400
_QUESTION_TOKENS = 32
# The label of a row that is not used.
UNUSED = -2


class TextRelationBatch(NamedTuple):
    """n sentences with a pair and its label, -1 for nothing; q questions; int32, or `UNUSED`."""

    tokens: np.ndarray  # [n, L]
    first: np.ndarray  # [n, 2], positions of the first tokens of topic and target
    last: np.ndarray  # [n, 2], and of the last
    label: np.ndarray  # [n], of (topic, target)
    inverse: np.ndarray  # [n], of (target, topic)
    question_tokens: np.ndarray  # [q, L_q]
    r1: np.ndarray  # [q], position of [R1], after the topic
    r2: np.ndarray  # [q], position of [R2], after the unknown answer
    question_label: np.ndarray  # [q]


@dataclasses.dataclass(frozen=True)
class TextRelationSettings:
    """Which sentences and questions make a batch.

    Attributes:
        sentences: files of `datasets.labelled_sentences`; () to train on nothing but text.
        names: a file with the names of relations, if there are any sentences.
        held_out: names of relations whose sentences are left out.
        relations: relations in a batch.
        pairs: pairs of entities in a batch that different passages of the prepared text mention;
            with as many rows each.
        rows_per_label: sentences of each, at most; at least 2.
        unrelated: sentences in a batch whose pair states nothing, out of `sentences`.
        max_tokens: of a row. More of a sentence is cut off, around the pair.
        hidden: how often a name is hidden.
        exchanged: how often the name of a labelled sentence is exchanged.
    """

    sentences: tuple[str, ...] = ()
    names: str = ''
    held_out: tuple[str, ...] = ()
    relations: int = 16
    pairs: int = 0
    rows_per_label: int = 4
    unrelated: int = 8
    max_tokens: int = 48
    hidden: float = 0.3
    exchanged: float = 0.3


class TextRelationSource(Source):
    """Draws labels, and sentences of each."""

    def __init__(self, prepared: Prepared, settings: TextRelationSettings, seed: int = 0):
        super().__init__(seed)
        self._settings, self._special, self._records = settings, prepared.special, prepared.records
        if settings.rows_per_label < 2:
            raise InputError(f'rows_per_label={settings.rows_per_label}: give at least 2')
        words = [word_id(prepared.tokenizer, word) for word in _QUESTION_WORDS]
        self._unknown = [token for token in words if token is not None]
        if not self._unknown:
            raise InputError(f'text: its tokenizer has none of {", ".join(_QUESTION_WORDS)}')
        of_relation = collections.defaultdict(list)
        if settings.sentences:
            for sentence in labelled_sentences.read_corpora(settings.sentences, settings.names):
                of_relation[sentence.relation].append(sentence)
        if unknown := set(settings.held_out) - of_relation.keys():
            raise InputError(f'held_out: no sentence states {", ".join(sorted(unknown))}')
        unrelated = of_relation.pop(labelled_sentences.NONE, [])
        tokenise = lambda found: _tokenise(prepared.tokenizer, found)
        kept = sorted(of_relation.keys() - set(settings.held_out))
        tokenised = {name: tokenise(of_relation[name]) for name in kept}
        self._relations = [relation for relation, found in tokenised.items() if len(found) > 1]
        self._sentences = [tokenised[relation] for relation in self._relations]
        # A run draws no more than these; most pairs of a corpus are unrelated.
        some = np.random.default_rng(seed).permutation(len(unrelated))[: 1 << 14]
        self._unrelated = tokenise([unrelated[i] for i in some])
        asked = lambda relation: _questions(prepared.tokenizer, relation, self._special)
        self._questions = list(map(asked, self._relations))
        frequency = np.sqrt([min(len(found), _MAX_FREQUENCY) for found in self._sentences])
        self._frequency = frequency / frequency.sum()
        self._index = PairIndex(prepared.pairs)
        # Each row is used in both directions, and the two must not be taken for two statements.
        one_way = self._index.pair_topic < self._index.pair_target
        self._repeated = np.flatnonzero(self._index.repeated & one_way)
        for name, there in (('relations', len(self._relations)), ('pairs', len(self._repeated))):
            if there < getattr(settings, name):
                raise InputError(f'{name}: only {there} are stated twice')

    def batch(self, step, rng) -> TextRelationBatch:
        s, rows, labels, questions = self._settings, [], [], []
        drawn = lambda: rng.choice(len(self._relations), s.relations, False, self._frequency)
        for number in drawn() if s.relations else ():
            found = self._sentences[number]
            chosen = rng.permutation(len(found))[: s.rows_per_label]
            rows += [self._hide(found[i], rng, found) for i in chosen]
            both = (2 * number, 2 * number + (self._relations[number] not in _SYMMETRIC))
            labels += [both] * len(chosen)
            asked = self._questions[number]
            questions += [(asked[way][rng.integers(len(asked[way]))], both[way]) for way in (0, 1)]
            questions += [self._cloze(rows[-1], both, rng)]
        for pair in rng.choice(self._repeated, s.pairs, replace=False) if s.pairs else ():
            found = self._mentions_of(pair, rng)
            rows += [self._hide(passage, rng) for passage in found]
            label = 2 * (len(self._relations) + int(pair))
            labels += [(label, label + 1)] * len(found)
            questions += [self._cloze(found[way], (label, label + 1), rng) for way in (0, 1)]
        for i in rng.choice(len(self._unrelated), s.unrelated) if self._unrelated else ():
            rows.append(self._hide(self._unrelated[i], rng))
            labels.append((-1, -1))
        return self._stack(rows, labels, questions)

    def _stack(self, rows, labels, questions) -> TextRelationBatch:
        s, special = self._settings, self._special
        n = (s.relations + s.pairs) * s.rows_per_label + s.unrelated
        q = 3 * s.relations + 2 * s.pairs
        placed = [markup.place_mentions(row, special) for row in rows]
        order = [np.argsort(row.entities) for row in rows]
        asked = [question for question, _ in questions]
        return TextRelationBatch(
            tokens=batching.pad_tokens([row.tokens for row in placed], n, s.max_tokens, special),
            first=batching.pad_rows([row.first[i] for row, i in zip(placed, order)], n, (2,)),
            last=batching.pad_rows([row.last[i] for row, i in zip(placed, order)], n, (2,)),
            label=batching.pad_rows([label for label, _ in labels], n, fill=UNUSED),
            inverse=batching.pad_rows([inverse for _, inverse in labels], n, fill=UNUSED),
            question_tokens=batching.pad_tokens(
                [question.tokens for question in asked], q, _QUESTION_TOKENS, special
            ),
            r1=batching.pad_rows([question.r1 for question in asked], q),
            r2=batching.pad_rows([question.r2 for question in asked], q),
            question_label=batching.pad_rows([label for _, label in questions], q, fill=-1),
        )

    def _mentions_of(self, pair: int, rng) -> list[TokenisedPassage]:
        """Mentions of an ordered pair, of as many passages as there may be rows."""
        index = self._index
        rows = rng.permutation(np.arange(*index.pair_start[pair : pair + 2]))
        rows = rows[np.unique(index.passage[rows], return_index=True)[1]]
        rows = rng.permutation(rows)[: self._settings.rows_per_label]
        passages = self._records.read(index.passage[rows])
        mentions = zip(index.topic_mention[rows], index.target_mention[rows])
        return [_pair(passage, *both) for passage, both in zip(passages, mentions)]

    def _hide(self, row: TokenisedPassage, rng, others=()) -> TokenisedPassage:
        """A row with names hidden or exchanged with others of its label, cut to length."""
        s = self._settings
        row = markup.around_pair(row, s.max_tokens - 2)
        names = [row.tokens[start:end] for start, end in zip(row.starts, row.ends)]
        for place, entity in enumerate(row.entities):
            drawn = rng.random()
            if drawn < s.hidden:
                names[place] = np.array([self._special.ent])
            elif drawn < s.hidden + s.exchanged and others:
                other = others[rng.integers(len(others))]
                at = int(np.flatnonzero(other.entities == entity)[0])
                names[place] = other.tokens[other.starts[at] : other.ends[at]]
        (a, c), (b, d) = row.starts, row.ends
        parts = row.tokens[:a], names[0], row.tokens[b:c], names[1], row.tokens[d:]
        ends = np.cumsum([len(part) for part in parts])
        changed = TokenisedPassage(np.concatenate(parts), ends[[0, 2]], ends[[1, 3]], row.entities)
        return markup.around_pair(changed, s.max_tokens - 2)

    def _cloze(self, row: TokenisedPassage, labels, rng) -> tuple[MarkedQuestion, int]:
        """A question that a row answers, about its topic or its target, and its label."""
        way = int(rng.integers(2))
        at = np.argsort(row.entities)
        unknown = self._unknown[rng.integers(len(self._unknown))]
        room = _QUESTION_TOKENS - relation_questions.MOST_AROUND
        short = markup.around_pair(row, room) if row.starts[1] - row.ends[0] > room else row
        about, asked = at[way], at[1 - way]
        cloze = relation_questions.cloze_question(short, about, asked, unknown, self._special)
        return cloze, labels[way]


def _pair(passage: TokenisedPassage, topic: int, target: int) -> TokenisedPassage:
    """A passage with two of its mentions, called 0 (the topic) and 1."""
    at = np.array([topic, target])
    order = np.argsort(passage.starts[at], kind='stable')
    starts, ends = passage.starts[at[order]], passage.ends[at[order]]
    return TokenisedPassage(passage.tokens, starts, ends, order.astype(np.int32))


def _tokenise(tokenizer, sentences: list[LabelledSentence]) -> list[TokenisedPassage]:
    """Sentences as passages of two mentions, called 0 (the topic) and 1."""
    rows = [markup.tokenise_pair(tokenizer, s.text, s.topic, s.target) for s in sentences]
    return [row for row in rows if (row.ends > row.starts).all()]


def _questions(
    tokenizer, relation: str, special
) -> tuple[list[MarkedQuestion], list[MarkedQuestion]]:
    """Questions about a relation and about its inverse."""
    both = []
    for patterns in relation_questions.templates(relation):
        spans = [(pattern.index('{}'), pattern.index('{}') + 2) for pattern in patterns]
        marked = markup.mark_questions(tokenizer, patterns, spans, special)
        both.append([question for question in marked if len(question.tokens) <= _QUESTION_TOKENS])
    return both[0], both[1]
