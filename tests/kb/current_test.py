"""The newest version is opened once, and nobody waits for another thread that opens it."""

import os
import threading

import pytest

from opql_jax.kb import current


class Opening:
    """Stands for `open_kb`: gives 1, 2, ..., and from the second on not before `go` is set."""

    def __init__(self):
        self.count, self.begun, self.go = 0, threading.Event(), threading.Event()

    def __call__(self, folder, **options):
        self.count += 1
        if self.count > 1:
            self.begun.set()
            assert self.go.wait(60)
        return self.count


@pytest.fixture
def opening(monkeypatch):
    monkeypatch.setattr(current, 'open_kb', stand_in := Opening())
    return stand_in


@pytest.fixture
def manifest(tmp_path):
    (tmp_path / 'manifest.json').write_text('first ')
    return tmp_path / 'manifest.json'


def test_a_version_is_opened_once_and_again_after_a_change(manifest, opening):
    """Though the clock was set back, and the file has its old number."""
    opening.go.set()
    kept, before = current.Current(manifest.parent), manifest.stat()
    assert [kept.kb(), kept.newest(), kept.kb()] == [1, 1, 1]
    manifest.write_text('second')
    os.utime(manifest, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert [kept.kb(), kept.kb(), kept.newest()] == [2, 2, 2] and opening.count == 2


def test_others_keep_the_version_before_while_one_thread_opens_the_new_one(manifest, opening):
    kept, found = current.Current(manifest.parent), []
    manifest.write_text('second')
    first = threading.Thread(target=lambda: found.append(kept.kb()))
    first.start()
    assert opening.begun.wait(60)
    assert [kept.kb() for _ in range(3)] == [1, 1, 1] and found == []
    opening.go.set()
    first.join(60)
    assert found == [2] and kept.kb() == 2 and opening.count == 2


def test_a_version_that_cannot_be_opened_is_tried_again_by_the_next(manifest, opening, monkeypatch):
    kept = current.Current(manifest.parent)
    manifest.write_text('second')
    monkeypatch.setattr(current, 'open_kb', lambda folder: 1 / 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            kept.kb()
    monkeypatch.setattr(current, 'open_kb', opening)
    opening.go.set()
    assert kept.kb() == 2
