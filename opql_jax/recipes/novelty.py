"""What new relations cost: rows that hold P percent of the relations out of training, as slot filling and MetaQA have them.

    SYSTEM-novel-P    the protocol of the paper (section 3): the encoder of the memory was not trained on them, the follower was
    SYSTEM-without-P  a harder one: they are left out of all supervision
    SYSTEM-seen-P     for comparison: all relations were trained on

Each row asks everything ('all') and what needs one of these relations ('novel'). A relation is held out by leaving out the questions
that need it; the pairs that it joins stay negatives of other questions, and positives where another relation joins them too.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

from opql_jax.recipes.recipe import Recipe, Step, evaluate

PROTOCOLS = {
    'novel': 'whose questions the encoder of the memory was not trained on',
    'without': 'whose questions nothing was trained on',
    'seen': 'all of which were trained on',
}
# {system: whether the encoder of its memory is trained on questions at all}.
SYSTEMS = {'opql': True, 'opql-pretrained': False, 'drkit': True}


@dataclasses.dataclass(frozen=True)
class Novelty:
    """What one row holds out, and of which training.

    Attributes:
        protocol: one of `PROTOCOLS`.
        percent: the share of the relations; 0 for a row that holds nothing out and asks everything only.
        relations: these relations, as the types of the questions name them.
        aligned: whether the encoder of the memory is trained on questions at all.
    """

    protocol: str
    percent: int
    relations: tuple[str, ...]
    aligned: bool

    @property
    def new_to_encoder(self) -> bool:
        """Whether the encoder of the memory is trained on questions, but not on those of the relations."""
        return self.aligned and self.protocol != 'seen'

    @property
    def new_to_follower(self) -> bool:
        """Whether the follower is not trained on questions of the relations."""
        return self.protocol == 'without'

    @property
    def encoder_bindings(self) -> dict[str, tuple[str, ...]]:
        """What holds the relations out of the training of the encoder; nothing where they are not to be."""
        return {'HELD_OUT': self.relations} if self.new_to_encoder else {}

    @property
    def follower_bindings(self) -> dict[str, tuple[str, ...]]:
        """What holds them out of the training of the follower."""
        return {'HELD_OUT': self.relations} if self.new_to_follower else {}

    @property
    def encoder_suffix(self) -> str:
        """What the names of the encoder and its memory end with: nothing where they are those of other rows."""
        return f'-without-{self.percent}' if self.new_to_encoder else ''

    @property
    def follower_suffix(self) -> str:
        """What the name of the follower ends with."""
        return f'-{self.protocol}-{self.percent}' if self.new_to_encoder or self.new_to_follower else ''

    def evaluations(self, system: str, follower: str, memory: str, questions: Sequence[str], text: str) -> list[Step]:
        """Those of all questions, and of those that need one of the relations."""
        row = f'results/{system}'
        needs = {row: ()}
        if self.percent:
            row += f'-{self.protocol}-{self.percent}'
            needs = {f'{row}/all': (), f'{row}/novel': self.relations}
        return [evaluate(name, follower, memory, questions, text, NEEDS=relations) for name, relations in needs.items()]


def recipes(group: str, systems: Mapping[str, bool], percents: Sequence[int], build: Callable) -> list[Recipe]:
    """The rows of a group.

    Args:
        group: such as 'slot-filling'.
        systems: as `SYSTEMS`.
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
        for system, aligned in systems.items()
        # Where the encoder saw no question, there are no relations to hold out of its memory: `novel` is `seen`.
        if aligned or protocol != 'seen'
    ]
