"""What the tests of the explorer share."""

import pytest

from opql_jax.core import time_limit


@pytest.fixture(autouse=True)
def no_hurry(monkeypatch):
    """Answers are whole, on a busy machine too, where the first question takes longer than a server
    waits.
    """
    monkeypatch.setattr(time_limit, 'SERVED', 600.0)
