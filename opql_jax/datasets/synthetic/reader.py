"""The reader of the generated world, with its questions (see `readers`)."""

import dataclasses
import functools
import itertools
from typing import ClassVar

from opql_jax.datasets import metaqa
from opql_jax.datasets.synthetic import pages, questions, world


@dataclasses.dataclass(frozen=True)
class Synthetic:
    """The generated world of a seed and its questions.

    Attributes:
        seed: of the world; the same seed gives the same bytes.
        num_documents: its size.
        num_train, num_eval: questions per number of hops, at most: for training; for each other split.
    """

    paths: ClassVar = ()
    seed: int = 0
    num_documents: int = 2000
    num_train: int = 6000
    num_eval: int = 500

    def files(self):
        return {}

    @functools.cached_property
    def _world(self) -> world.World:
        return world.generate(self.seed, self.num_documents)

    def read(self, rejected_path):
        return self._world.vocab(), list(pages.documents(self._world))

    def questions(self, vocab):
        out = {}
        for hops, split in questions.QUESTION_SETS:
            limit = self.num_train if split == 'train' else self.num_eval
            rows = itertools.islice(questions.questions(self._world, split, hops), limit)
            name = f'{hops}-hop/{split}'
            out[name] = [
                dataclasses.replace(
                    metaqa.parse_question(questions.metaqa_line(self._world, row), vocab, hops, f'{name}/{i}'),
                    via=row.via,
                )
                for i, row in enumerate(rows, 1)
            ]
        return out
