"""Hours and dollars of training at the paper's size: estimates by FLOPs, none of them measured."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from opql_jax.core.errors import InputError
from opql_jax.models.encoder import RelationEncoder
from opql_jax.models.flops import TRAINING_OVER_FORWARD, encoder_flops, peak_flops


class Machine(NamedTuple):
    """Accelerators that are rented together."""

    kind: str  # of a device, as JAX names it
    devices: int
    utilisation: float  # share of the peak that is assumed, with what devices exchange
    dollars: float  # list price of a device for an hour, see `PRICED`

    def seconds(self, flops: float) -> float:
        """The time that so many FLOPs are taken to last."""
        return flops / (self.utilisation * self.devices * (peak_flops(self.kind) or 0.0))


PRICED = "Google Cloud's on-demand list of 2025, United States"
# By the compiler v5e reaches .33 to .57 and v4 .26; one H100, measured, .13
# (docs/how-to/paper_on_tpu.md, docs/how-to/gpu_and_slurm.md).
MACHINES = {
    'v5e-16': Machine('TPU v5e', 16, 0.35, 1.20),
    'v4-128': Machine('TPU v4', 64, 0.26, 3.22),
    '8-H100': Machine('NVIDIA H100', 8, 0.13, 11.06),
}


def with_prices(given: Sequence[str]) -> dict[str, Machine]:
    """`MACHINES` at other prices, such as 'v5e-16=0.9'; InputError for what is no such thing."""
    machines = dict(MACHINES)
    for name, _, price in (text.partition('=') for text in given):
        if name not in machines or not re.fullmatch(r'\d+(\.\d+)?', price) or not float(price):
            raise InputError(
                f'price {name}={price}: give dollars of a device-hour of one of '
                f'{", ".join(machines)}, such as v5e-16=0.9'
            )
        machines[name] = machines[name]._replace(dollars=float(price))
    return machines


class Batch(NamedTuple):
    """What a training step reads, and what it does with each row."""

    rows: int
    tokens: int
    positions: int  # of a row at which its last layer is computed, see `encoder_flops`
    products: int = 0  # with all of E: scores of a mention, or the mean by them
    searches: int = 0  # of the whole memory

    def flops(self, encoder: RelationEncoder, entities: int, entries: int) -> float:
        """FLOPs of a step; a search has no backward pass."""
        forward = encoder_flops(encoder, (self.rows, self.tokens), self.positions)
        forward += 2 * self.rows * self.products * entities * encoder.entity_dim
        key = encoder.entity_dim + encoder.relation_dim
        return TRAINING_OVER_FORWARD * forward + 2 * self.rows * self.searches * entries * key


def of_language_model(rows: int, tokens: int, topics: int) -> Batch:
    """A step of the language model, each topic of which searches.

    The entity memory has two products for each topic and the hidden mention, the query two for
    each topic, and the answer one.
    """
    return Batch(rows, tokens, 2 + 2 * topics, 2 * (1 + topics) + 2 * topics + 1, topics)


def cost_lines(flops: Mapping[str, float], machines: Mapping[str, Machine]) -> list[str]:
    """Lines that state hours and dollars on each machine of `{stage: FLOPs of all its steps}`."""
    lines = []
    for name, machine in machines.items():
        hours = {stage: machine.seconds(count) / 3600 for stage, count in flops.items()}
        each = ', '.join(f'{stage} {time:.2f}' for stage, time in hours.items())
        total = sum(hours.values())
        lines.append(
            f'# {name} ({machine.devices} x {machine.kind}): {total:.1f} hours ({each}), '
            f'{total * machine.devices * machine.dollars:,.0f} dollars at {machine.dollars:.2f} a '
            f'device-hour, if {machine.utilisation:.0%} of the peak is reached'
        )
    return [
        *lines,
        f'# hours are estimates by FLOPs, not measured; prices are {PRICED} (--price v5e-16=0.9 '
        'gives another); other steps are not counted',
    ]
