"""What the tests of the explorer share."""

import pytest

from opql_jax.core import time_limit


@pytest.fixture(autouse=True)
def no_hurry(monkeypatch):
    """Gives answers all their time, as a first question can take longer than a server waits."""
    monkeypatch.setattr(time_limit, 'SERVED', 600.0)
