"""Work under a time limit ends once it is over, or nobody waits any more; other work goes on."""

import threading

import pytest

from opql_jax.core import time_limit
from opql_jax.core.errors import InputError


def test_work_ends_when_its_time_is_over_and_is_then_cut():
    with time_limit.limited(1000):
        assert not time_limit.passed() and not time_limit.is_cut()
        with time_limit.limited(0) as limit:
            assert time_limit.passed() and limit.is_cut
            with pytest.raises(InputError, match='longer than 0 seconds: ask it in parts'):
                time_limit.check()
        assert not time_limit.passed() and not time_limit.is_cut()


def test_a_limit_is_of_one_thread():
    seen = []
    with time_limit.limited(0):
        thread = threading.Thread(target=lambda: seen.append(time_limit.passed()))
        thread.start()
        thread.join()
        assert seen == [False] and time_limit.passed()


def test_what_is_done_in_parts_ends_between_two_of_them_and_without_a_limit_is_done_at_once():
    items = [3, 1, 1, 9, 2, 2]
    assert [*time_limit.parts(items, items, 4)] == [items]
    assert [*time_limit.parts([], [], 4)] == [[]]
    stopped = threading.Event()
    with time_limit.limited(1000, stopped):
        assert [*time_limit.parts(items, items, 4)] == [[3, 1], [1], [9], [2, 2]]
        assert [*time_limit.parts([], [], 4)] == []
        done = time_limit.parts(items, items, 4)
        assert next(done) == [3, 1]
        stopped.set()
        assert [*done] == [] and time_limit.is_cut()
