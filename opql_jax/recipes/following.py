"""Systems that follow relations over a memory, and what relations that are new to them cost.

A share of the relations may be held out of training, of slot filling and MetaQA:

    --protocol novel: as in the paper (section 3): new to the encoder of the memory, not the
        follower
    --protocol without: harder: they are left out of all supervision
    --protocol seen: for comparison: all were trained on; if the encoder saw no question, `novel`

Each row asks everything ('all') and what needs one of these relations ('novel'). The pairs that a
held-out relation joins stay negatives of other questions, and positives where another joins them.
"""

import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from opql_jax.recipes.step import Options, Stage, Step, build_memory, evaluate, train

PROTOCOLS = ('novel', 'without', 'seen')
_NOTHING: Mapping[str, Any] = types.MappingProxyType({})


class Novelty(NamedTuple):
    """The relations that one row holds out, as the types of its questions name them.

    `percent` is their share; with 0 the row asks everything only.
    """

    protocol: str = 'seen'
    percent: int = 0
    relations: tuple[str, ...] = ()

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


ALL_SEEN = Novelty()


class Trained(NamedTuple):
    """The steps that train a system, and the names of what they make."""

    steps: list[Step]
    model: str  # whose encoder the memory is of
    memory: str
    follower: str


class System(NamedTuple):
    """How each part of a system is made."""

    pretraining: Callable[[Options], list[Step]]  # the steps before any question: text, and encoder
    model: str | None  # the last of its models
    memory: str
    follow: Stage
    # The encoder that is trained on one-hop questions, its stage and bindings; None if none is.
    align: tuple[str, Stage, Mapping[str, Any]] | None = None
    entries: Mapping[str, Any] = _NOTHING  # bindings of the memory
    following: Mapping[str, Any] = _NOTHING  # and of the follower
    text: str = 'text'

    def trained(self, options: Options, follower: str, new: Novelty = ALL_SEEN) -> Trained:
        """The steps up to the follower of that name; names end with what is new to the parts."""
        steps, model, memory = self.pretraining(options), self.model, self.memory
        leaves_out = {'HELD_OUT': new.relations}
        new_to_encoder = bool(self.align) and new.protocol != 'seen'
        if self.align:
            name, stage, bindings = self.align
            name += f'-without-{new.percent}' if new_to_encoder else ''
            bindings = {**bindings, **(leaves_out if new_to_encoder else {})}
            steps.append(train(name, stage, options, INIT_FROM=model, TEXT=self.text, **bindings))
            model = name
        assert model is not None
        memory += f'-without-{new.percent}' if new_to_encoder else ''
        bindings = {'INIT_FROM': model, 'TEXT': self.text, 'MEMORY': memory, **self.following}
        if new_to_encoder or new.protocol == 'without':
            follower += f'-{new.protocol}-{new.percent}'
        if new.protocol == 'without':
            bindings |= leaves_out
        steps += [
            build_memory(memory, model, self.text, **self.entries),
            train(follower, self.follow, options, **bindings),
        ]
        return Trained(steps, model, memory, follower)
