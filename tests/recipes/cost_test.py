"""Prices of machines, from which a dry run tells dollars."""

import pytest

from opql_jax.core.errors import InputError
from opql_jax.recipes import cost


def test_a_price_replaces_that_of_the_list_and_unknown_machines_are_told():
    assert cost.with_prices(['v5e-16=0.5'])['v5e-16'].dollars == 0.5
    assert cost.with_prices([]) == cost.MACHINES
    for wrong in ('v5e-16', 'v5e-16=0', 'v5e-16=cheap', 'v9=1', 'v5e-16=-1', 'v5e-16=nan'):
        with pytest.raises(InputError, match='give dollars of a device-hour of one of v5e-16'):
            cost.with_prices([wrong])
