"""The table of logical axes: what it says, and what it refuses."""

import pytest
from jax.sharding import PartitionSpec as P

from opql_jax.parallel import rules
from opql_jax.parallel.mesh import make_mesh
from opql_jax.parallel.rules import RulesError, checked, spec


def test_an_array_is_split_where_the_table_says():
    assert spec() == P()
    assert spec('batch', None) == P(('data',), None)
    assert spec(None, 'entities') == P(None, ('data', 'model'))


def test_the_mesh_has_the_axes_of_the_table():
    assert make_mesh().axis_names == rules.MESH_AXES


@pytest.mark.parametrize(
    'names, axis', [(('batch', 'entities'), 'data'), (('entities', None, 'entries'), 'data'), (('batch', 'batch'), 'data')]
)
def test_two_dimensions_on_one_mesh_axis_collide(names, axis):
    with pytest.raises(
        RulesError, match=f"'{names[0]}' and '{names[-1]}' of one array are both split over the mesh axis '{axis}'"
    ):
        spec(*names)


def test_a_name_without_a_rule_is_refused():
    with pytest.raises(RulesError, match="no rule for 'heads'; there are those for batch, "):
        spec('heads')


@pytest.mark.parametrize(
    'table, complaint',
    [
        ([('a', ('data',)), ('a', ('model',))], "two rules for 'a'"),
        ([('a', ('data', 'data'))], "'a' is to be split twice over one mesh axis"),
        ([('entries', ('data',))], "'entries' is to be split over .*: a search counts on rows over all devices"),
        ([('a', ('pipeline',))], "'a' is to be split over 'pipeline'; the axes of the mesh are data, model"),
    ],
)
def test_a_table_that_contradicts_itself_is_refused(table, complaint):
    with pytest.raises(RulesError, match=complaint):
        checked(table)
