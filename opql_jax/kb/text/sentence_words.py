"""How the words of a question's step stand in the sentences of memory entries."""

import functools
import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from opql_jax.kb.text.question_plans import Step
from opql_jax.kb.text.word_lists import stems
from opql_jax.memory.format import Memory
from opql_jax.retrieval.index import IndexFolder
from opql_jax.retrieval.words import words_of

# Sentences, and passages, whose words are cached: some tens of megabytes.
_CACHED = 1 << 13
# Weight of a rare word of the step anywhere in the sentences, where one beside the target counts 1.
_ANYWHERE = 0.3
# Least weight of a word: 'directed' is in all texts about films, and still tells the director from
# the cast.
_COMMON = 0.3
# Weight of a word after the target, where one before it counts 1: English says 'directed by
# Solberg, written by Lind'.
_AFTER = 0.5


class SentenceWords:
    """Sentences of a text, and how rare its words are.

    Attributes:
        settings: the constants on which its numbers depend.
    """

    settings = f'{_ANYWHERE} {_COMMON} {_AFTER}'

    def __init__(self, texts: pa.StringArray, memory: Memory, index: IndexFolder):
        """Takes the passages' texts, the memory, and the index that counts words."""
        self._memory, self._index = memory, index
        # The plans of a question, and the questions of a conversation, meet the same sentences
        # again and again.
        self._stems = functools.lru_cache(_CACHED)(
            lambda passage, *span: stems(texts[passage].as_py()[slice(*span)])
        )
        self._nearness = functools.lru_cache(_CACHED)(
            lambda passage, *spans: _nearness(texts[passage].as_py(), *spans)
        )

    def shares(self, step: Step, rows) -> np.ndarray:
        """How many of a step's words, not the topic, entries' sentences have: [n] in 0 .. 1.

        A word weighs its inverse document frequency, `_COMMON` at least, and more the closer it
        stands to the target, see `_nearness`.
        """
        asked = {word: max(self._rarity(word), _COMMON) for word in _words_beside_topic(step)}
        if not asked:
            return np.zeros(len(rows))
        mentions = self._memory.mentions(rows)
        names = 'topic', 'target', 'topic_sentence', 'target_sentence'
        columns = ('passage', *(f'{name}_{side}' for name in names for side in ('start', 'end')))
        said, near = [], []
        for passage, *spans in zip(*(mentions[name].tolist() for name in columns)):
            _, target, *sentences = zip(spans[::2], spans[1::2])
            said.append(
                frozenset().union(*(self._stems(passage, *sentence) for sentence in sentences))
            )
            near.append(self._nearness(passage, target, sentences[1]))
        stems = set().union(*said, *near)
        shares = np.zeros(len(rows))
        for word, weight in asked.items():
            # Of the same word, as far as their beginnings tell.
            begins = lambda one, other: len(one) > 2 and other.startswith(one)
            alike = {stem for stem in stems if begins(word, stem) or begins(stem, word)}
            anywhere = np.array([not alike.isdisjoint(words) for words in said])
            nearest = lambda at: max((at[stem] for stem in alike & at.keys()), default=0)
            shares += weight * (_ANYWHERE * anywhere + np.array(list(map(nearest, near))))
        return np.minimum(shares, 1)

    def names_missing(self, step: Step, names: Sequence[frozenset[str]], rows) -> np.ndarray:
        """The share of a step's names, not the topic, that passages of entries lack: [n]."""
        said = frozenset(_words_beside_topic(step))
        others = [name for name in names if name <= said]
        if not others:
            return np.zeros(len(rows))
        passages, place = np.unique(self._memory.mentions(rows)['passage'], return_inverse=True)
        stems = [self._stems(passage, None) for passage in passages.tolist()]
        return np.array([np.mean([not name <= of for name in others]) for of in stems])[place]

    def _rarity(self, word: str) -> float:
        count, having = self._index.manifest.passages, self._index.passages_with_word.get(word, 0)
        return float(np.log1p((count - having) / (having + 1)) / np.log1p(count))


def _words_beside_topic(step: Step) -> list[str]:
    """The words of a step, its topic aside."""
    return words_of(step.text[: step.topic[0]] + ' ' + step.text[step.topic[1] :])


_SAID = re.compile(r"\w[\w'’-]*|,")
_JOINS = frozenset((',', 'and', 'or'))


def _nearness(text: str, target: tuple[int, int], sentence: tuple[int, int]) -> dict[str, float]:
    """How close a sentence's words are to a mention: by stem, 1 at its side, 1/2 one word off, ...

    Function words do not count, and before it neither do names and what joins them: in 'starring A,
    B and C' all three are at the side of 'starring'. What stands after it counts `_AFTER` as much.
    """
    before = _SAID.findall(text[sentence[0] : target[0]])
    before = [word for word in before if word not in _JOINS and not word[0].isupper()]
    after = _SAID.findall(text[target[1] : sentence[1]])
    near: dict[str, float] = {}
    for words, factor in ((before[::-1], 1.0), (after, _AFTER)):
        counted = (stems for word in words if (stems := words_of(word)) or word == ',')
        for between, stems in enumerate(counted):
            for stem in stems:
                near[stem] = max(near.get(stem, 0), factor / (1 + between))
    return near
