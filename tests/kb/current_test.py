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


def change(folder):
    (folder / 'manifest.json').write_text((folder / 'manifest.json').read_text() + '.')


@pytest.fixture
def folder(tmp_path):
    (tmp_path / 'manifest.json').write_text('')
    return tmp_path


def in_thread(function, found):
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    return thread


def test_a_version_is_opened_once_and_again_after_a_change(folder, opening):
    opening.go.set()
    kept = current.Current(folder)
    assert [kept.kb(), kept.newest(), kept.kb()] == [1, 1, 1]
    change(folder)
    assert [kept.kb(), kept.kb(), kept.newest()] == [2, 2, 2] and opening.count == 2


def test_a_change_is_seen_though_the_clock_was_set_back_and_the_file_has_its_old_number(
    folder, opening
):
    opening.go.set()
    manifest = folder / 'manifest.json'
    manifest.write_text('first ')
    kept, before = current.Current(folder), manifest.stat()
    manifest.write_text('second')
    os.utime(manifest, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert kept.kb() == 2


def test_others_keep_the_version_before_while_one_thread_opens_the_new_one(folder, opening):
    kept, found = current.Current(folder), []
    change(folder)
    first = in_thread(kept.kb, found)
    assert opening.begun.wait(60)
    assert [kept.kb() for _ in range(3)] == [1, 1, 1] and found == []
    opening.go.set()
    first.join(60)
    assert found == [2] and kept.kb() == 2 and opening.count == 2


def test_a_version_that_cannot_be_opened_is_tried_again_by_the_next(folder, opening, monkeypatch):
    kept = current.Current(folder)
    change(folder)
    monkeypatch.setattr(current, 'open_kb', lambda folder: 1 / 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            kept.kb()
    monkeypatch.setattr(current, 'open_kb', opening)
    opening.go.set()
    assert kept.kb() == 2
