"""Logical axes: what the dimensions of arrays count, and over which axes of the mesh each is split."""

from collections.abc import Iterable

from jax.sharding import PartitionSpec

from opql_jax.core.errors import InputError

MESH_AXES = ('data', 'model')

# (what a dimension counts, the mesh axes it is split over)
RULES = (
    ('batch', ('data',)),  # rows of a batch
    ('queries', ('data', 'model')),  # of a search, which all devices take part in
    ('entities', ('data', 'model')),  # rows of E, and of its moments
    ('entries', ('data', 'model')),  # rows of a memory
)
# Queries meet the rows of E and of a memory on every device, and what each found is added up over all of them.
OVER_ALL = ('queries', 'entities', 'entries')


class RulesError(InputError):
    """A rule, or an array by these rules, would be split over a mesh axis twice, or over one that there is not."""


def checked(rules: Iterable[tuple[str, tuple[str, ...]]]) -> dict[str, tuple[str, ...]]:
    """The rules by name.

    Raises:
        RulesError: two rules of one name, a mesh axis that there is not, or one that a rule names twice; or what lies by rows over
            all devices is split over some axes only.
    """
    out = {}
    for name, axes in rules:
        if name in out:
            raise RulesError(f'two rules for {name!r}: {out[name]} and {axes}')
        if unknown := set(axes) - set(MESH_AXES):
            raise RulesError(f'{name!r} is to be split over {min(unknown)!r}; the axes of the mesh are {", ".join(MESH_AXES)}')
        if len(set(axes)) < len(axes):
            raise RulesError(f'{name!r} is to be split twice over one mesh axis: {axes}')
        if name in OVER_ALL and tuple(axes) != MESH_AXES:
            raise RulesError(f'{name!r} is to be split over {axes}: a search counts on rows over all devices, {MESH_AXES}')
        out[name] = tuple(axes)
    return out


_AXES = checked(RULES)


def axes_of(name: str) -> tuple[str, ...]:
    """The mesh axes that a logical axis is split over; RulesError if there is no rule for it."""
    if name not in _AXES:
        raise RulesError(f'no rule for {name!r}; there are those for {", ".join(_AXES)}')
    return _AXES[name]


def spec(*names: str | None) -> PartitionSpec:
    """How an array lies on the mesh whose dimensions count these, one after the other; None is not split, as are those that follow.

    Raises:
        RulesError: there is no rule for one, or two are split over the same mesh axis.
    """
    taken = {}
    for name in names:
        for axis in () if name is None else axes_of(name):
            if axis in taken:
                raise RulesError(f'{taken[axis]!r} and {name!r} of one array are both split over the mesh axis {axis!r}')
            taken[axis] = name
    return PartitionSpec(*(None if name is None else axes_of(name) for name in names))
