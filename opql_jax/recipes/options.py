"""What a user chooses when running a recipe."""

import dataclasses
import pathlib
from collections.abc import Mapping

from opql_jax.core.errors import InputError
from opql_jax.data.sources.base import MAX_SEED

# Options that some recipes have: which values they may take, and the default, is up to each.
CHOICES = ('system', 'protocol', 'share', 'hops')
# {option: its values, the default first}.
Choices = Mapping[str, tuple[int | str, ...]]


@dataclasses.dataclass(frozen=True)
class Options:
    """What a user chooses when running a recipe; InputError names a number that cannot be.

    `out` receives everything, `data` is the folder of the data sets. The seed is of the initial
    parameters, the order of the batches and what is left out; `world_seed` and `documents` are of a
    generated world; `percent` is of the training steps. `Recipe.complete` gives the rest values,
    but for `asked_for`: the data that a recipe asked for as its steps were built.
    """

    out: pathlib.Path
    data: pathlib.Path
    seed: int = 0
    world_seed: int = 0
    percent: float = 100
    documents: int = 2000
    system: str = ''
    protocol: str = ''
    share: int = -1
    hops: int = 0
    asked_for: list[str] = dataclasses.field(default_factory=list, compare=False)

    def __post_init__(self):
        for name, most in (('seed', MAX_SEED), ('world_seed', MAX_SEED), ('percent', 1e6)):
            if not 0 <= (value := getattr(self, name)) <= most:  # nor a NaN
                raise InputError(f'{name}={value}: give a number of 0 to {most}')

    def file(self, name: str) -> str:
        """The path of a file or folder of the data, there or not; it is noted in `asked_for`."""
        self.asked_for.append(name)
        return str((self.data / name).absolute())
