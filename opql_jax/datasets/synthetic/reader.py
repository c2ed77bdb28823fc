"""The reader of the generated world, with its questions (see `readers`)."""

import dataclasses
import functools
import itertools
from typing import ClassVar

from opql_jax.datasets.readers import Reader
from opql_jax.datasets.synthetic.pages import documents
from opql_jax.datasets.synthetic.questions import QUESTION_SETS, questions
from opql_jax.datasets.synthetic.world import World, generate


@dataclasses.dataclass(frozen=True)
class Synthetic(Reader):
    """The generated world of a seed and its questions.

    Attributes:
        seed: of the world; the same seed gives the same bytes.
        num_documents: its size.
        num_train, num_eval: questions per number of hops, at most: for training; for each other
            split.
    """

    paths: ClassVar = ()
    seed: int = 0
    num_documents: int = 2000
    num_train: int = 6000
    num_eval: int = 500

    @functools.cached_property
    def _world(self) -> World:
        return generate(self.seed, self.num_documents)

    def read(self, rejected_path):
        return self._world.vocab(), list(documents(self._world))

    def questions(self, vocab, rejected_path):
        found = {}
        for hops, split in QUESTION_SETS:
            limit = self.num_train if split == 'train' else self.num_eval
            stream = questions(self._world, split, hops)
            found[f'{hops}-hop/{split}'] = list(itertools.islice(stream, limit))
        return found
