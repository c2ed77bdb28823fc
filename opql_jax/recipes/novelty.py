"""What new relations cost: a share is held out of training, of slot filling and MetaQA.

    --protocol novel    that of the paper (section 3): the encoder of the memory was not trained on
                        them, the follower was
    --protocol without  a harder one: they are left out of all supervision
    --protocol seen     for comparison: all relations were trained on. Where the encoder saw no
                        question this is `novel`

Each row asks everything ('all') and what needs one of these relations ('novel'). A relation is held
out by leaving out the questions that need it; the pairs that it joins stay negatives of other
questions, and positives where another relation joins them too.
"""

import dataclasses
from collections.abc import Sequence

from opql_jax.recipes.recipe import Step, evaluate

PROTOCOLS = ('novel', 'without', 'seen')


@dataclasses.dataclass(frozen=True)
class Novelty:
    """What one row holds out, and of which training.

    Attributes:
        percent: the share of the relations; 0 for a row that holds nothing out and asks everything
            only.
        relations: these relations, as the types of the questions name them.
        aligned: whether the encoder of the memory is trained on questions at all.
    """

    protocol: str
    percent: int
    relations: tuple[str, ...]
    aligned: bool

    @property
    def new_to_encoder(self) -> bool:
        """Whether the memory's encoder is trained on questions, but not on the relations' ones."""
        return self.aligned and self.protocol != 'seen'

    @property
    def new_to_follower(self) -> bool:
        """Whether the follower is not trained on questions of the relations."""
        return self.protocol == 'without'

    @property
    def encoder_bindings(self) -> dict[str, tuple[str, ...]]:
        """What holds the relations out of the encoder's training; nothing where they are not."""
        return {'HELD_OUT': self.relations} if self.new_to_encoder else {}

    @property
    def follower_bindings(self) -> dict[str, tuple[str, ...]]:
        """What holds them out of the training of the follower."""
        return {'HELD_OUT': self.relations} if self.new_to_follower else {}

    @property
    def encoder_suffix(self) -> str:
        """The ending of the encoder's and memory's names; nothing if they are other rows' own."""
        return f'-without-{self.percent}' if self.new_to_encoder else ''

    @property
    def follower_suffix(self) -> str:
        """What the name of the follower ends with."""
        if self.new_to_encoder or self.new_to_follower:
            return f'-{self.protocol}-{self.percent}'
        return ''

    def evaluations(
        self,
        system: str,
        follower: str,
        memory: str,
        questions: Sequence[str],
        text: str,
        part: str = '',
    ) -> list[Step]:
        """Of all questions, and of those that need new relations; `part` is a folder of results."""
        row, part = f'results/{system}', f'/{part}' if part else ''
        needs = {f'{row}{part}': ()}
        if self.percent:
            row += f'-{self.protocol}-{self.percent}{part}'
            needs = {f'{row}/all': (), f'{row}/novel': self.relations}
        return [
            evaluate(name, follower, memory, questions, text, NEEDS=relations)
            for name, relations in needs.items()
        ]
