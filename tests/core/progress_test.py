"""The log says how far work has come, how fast it is and how long it will take; the work itself is
passed on as it is.
"""

import logging
import types

from opql_jax.core import progress


def test_a_line_comes_in_time_and_at_the_end(caplog, monkeypatch):
    caplog.set_level(logging.INFO)
    clock = types.SimpleNamespace(monotonic=iter([0.0, 4.0, 10.0, 12.0, 24.0]).__next__)
    monkeypatch.setattr(progress, 'time', clock)
    parts = ['aa', 'bbb', '', 'ccccc']
    assert list(progress.logged(parts, 10, 'letters read')) == parts
    assert caplog.messages == [
        '5/10 letters read  0.5/s  ETA 10s',
        '10/10 letters read  0.4/s  ETA 0s',
    ]
