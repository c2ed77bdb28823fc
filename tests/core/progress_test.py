"""The log says how far work has come, how fast it is and how long it will take; the work itself is passed on as it is."""

import logging

from opql_jax.core.progress import logged


def test_a_line_comes_in_time_and_at_the_end(caplog):
    caplog.set_level(logging.INFO)
    clock = iter([0.0, 4.0, 10.0, 12.0, 24.0]).__next__
    parts = ['aa', 'bbb', '', 'ccccc']
    assert list(logged(parts, 10, 'letters read', seconds=10, clock=clock)) == parts
    assert caplog.messages == ['5/10 letters read  0.5/s  ETA 10s', '10/10 letters read  0.4/s  ETA 0s']


def test_parts_without_members_are_no_end_and_no_beginning(caplog):
    caplog.set_level(logging.INFO)
    clock = iter([0.0, 20.0, 40.0]).__next__
    assert list(logged([[], [1]], 1, 'numbers', clock=clock)) == [[], [1]]
    assert caplog.messages == ['0/1 numbers  0.0/s  ETA infs', '1/1 numbers  0.0/s  ETA 0s']
    assert list(logged([[]], 0, 'numbers')) == [[]]


def test_each_part_is_passed_on_before_the_next_is_made():
    made = []

    def parts():
        for i in range(3):
            made.append(i)
            yield [i]

    for i, _ in enumerate(logged(parts(), 3, 'numbers')):
        assert made == list(range(i + 1))
