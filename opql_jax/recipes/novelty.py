"""What new relations cost: rows that hold P percent of the relations out of training, as slot filling and MetaQA have them.

    SYSTEM-novel-P    the protocol of the paper (section 3): the encoder of the memory was not trained on them, the follower was
    SYSTEM-without-P  a harder one: they are left out of all supervision
    SYSTEM-seen-P     for comparison: all relations were trained on

Each row asks everything ('all') and what needs one of these relations ('novel'). A relation is held out by leaving out the questions
that need it; the pairs that it joins stay negatives of other questions, and positives where another relation joins them too.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence

from opql_jax.recipes.recipe import Recipe, Step, evaluate

PROTOCOLS = {
    'novel': 'whose questions the encoder of the memory was not trained on',
    'without': 'whose questions nothing was trained on',
    'seen': 'all of which were trained on',
}
SYSTEMS = ('opql', 'opql-pretrained', 'drkit')


@dataclasses.dataclass(frozen=True)
class Novelty:
    """What one row holds out, and of which training.

    Attributes:
        protocol: one of `PROTOCOLS`.
        percent: the share of the relations.
        relations: these relations, as the types of the questions name them.
        aligned: whether the encoder of the memory is trained on questions at all.
    """

    protocol: str
    percent: int
    relations: tuple[str, ...]
    aligned: bool

    @property
    def new_to_memory(self) -> bool:
        """Whether the encoder of the memory is trained on questions, but not on those of the relations."""
        return self.aligned and self.protocol != 'seen'

    @property
    def new_to_follower(self) -> bool:
        """Whether the follower is not trained on questions of the relations."""
        return self.protocol == 'without'

    def of_memory(self, relations: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
        """The binding that holds relations, as the questions of the encoder name them, out of its training; none where it is not to."""
        return {'HELD_OUT': relations} if self.new_to_memory else {}

    def of_follower(self) -> dict[str, tuple[str, ...]]:
        """The same for the follower."""
        return {'HELD_OUT': self.relations} if self.new_to_follower else {}

    @property
    def memory_suffix(self) -> str:
        """What the names of the encoder and its memory end with: nothing where they are those of other rows."""
        return f'-without-{self.percent}' if self.new_to_memory else ''

    @property
    def follower_suffix(self) -> str:
        """What the name of the follower ends with."""
        return f'-{self.protocol}-{self.percent}' if self.new_to_memory or self.new_to_follower else ''

    def asked(self, system: str, follower: str, memory: str, questions: Sequence[str], text: str) -> list[Step]:
        """The evaluations: of all questions, and of those that need one of the relations."""
        row = f'results/{system}-{self.protocol}-{self.percent}'
        return [
            evaluate(f'{row}/{name}', follower, memory, questions, text, NEEDS=needs)
            for name, needs in {'all': (), 'novel': self.relations}.items()
        ]


def recipes(group: str, percents: Sequence[int], build: Callable) -> list[Recipe]:
    """The rows of a group.

    Args:
        group: such as 'slot-filling'.
        percents: the shares of the relations.
        build: takes options, a system, a protocol and a share; gives the steps.
    """
    return [
        Recipe(
            f'{group}/{system}-{protocol}-{percent}',
            f'{system}, asked what needs one of {percent} % of the relations, {meaning}',
            functools.partial(build, system=system, protocol=protocol, percent=percent),
        )
        for protocol, meaning in PROTOCOLS.items()
        for percent in percents
        for system in SYSTEMS
        # What was pretrained on text alone has no relations to hold out of its memory: `novel` is `seen`.
        if (system, protocol) != ('opql-pretrained', 'seen')
    ]
