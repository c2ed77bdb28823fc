"""A prepare that was killed is completed to the bytes of an undisturbed one."""

import collections
import pathlib

import pytest

from opql_jax.corpus import splitting
from opql_jax.data import passage_records, prepare

from prepare_by_parts import run, write_corpus
from tiny_memories import digest_of_tree


def parts(folder):
    return list(pathlib.Path(folder).rglob('*.arrow'))


@pytest.fixture
def made(monkeypatch):
    counts = collections.Counter()

    def counted(name, make):
        return lambda *given, **named: counts.update([name]) or make(*given, **named)

    for module, name in ((splitting, 'split_batch'), (passage_records, 'tokenise_batch')):
        monkeypatch.setattr(module, name, counted(name, getattr(module, name)))
    return counts


def interrupted(output, corpus):
    with pytest.MonkeyPatch.context() as patched:

        def stop(*_):
            raise KeyboardInterrupt

        patched.setattr('opql_jax.corpus.tables.write_manifest', stop)
        with pytest.raises(KeyboardInterrupt):
            run(output, corpus)
    assert len(parts(output)) == 4


def test_of_a_stopped_run_only_parts_that_are_missing_are_made(tmp_path, made):
    """That it ends with the same bytes, wherever it is stopped: tests/crash_test.py."""
    corpus = write_corpus(tmp_path)
    interrupted(tmp_path / 'out', corpus)
    for kind in ('passages', 'records'):
        next(path for path in parts(tmp_path / 'out') if path.parent.name == kind).unlink()
    made.clear()
    run(tmp_path / 'out', corpus)
    assert made == {'split_batch': 1, 'tokenise_batch': 1}
    assert not parts(tmp_path / 'out') and not [*(tmp_path / 'out').rglob('plan.json')]


@pytest.mark.parametrize('changed', ['settings', 'program'])
def test_parts_that_would_be_others_are_not_taken(tmp_path, made, changed):
    corpus = write_corpus(tmp_path)
    with pytest.MonkeyPatch.context() as patched:
        if changed == 'program':
            patched.setattr(prepare, 'PARTS_VERSION', 0)
        interrupted(tmp_path / 'out', corpus)
    makes_all_again(tmp_path, made, corpus, title_prefix=changed == 'program')


def makes_all_again(tmp_path, made, corpus, **options):
    made.clear()
    run(tmp_path / 'out', corpus, **options)
    assert made == {'split_batch': 2, 'tokenise_batch': 2}
    run(tmp_path / 'whole', corpus, **options)
    assert digest_of_tree(tmp_path / 'out') == digest_of_tree(tmp_path / 'whole')


def test_several_processes_go_on_with_the_parts_of_one(tmp_path, caplog):
    corpus = write_corpus(tmp_path)
    interrupted(tmp_path / 'out', corpus)
    next(iter(parts(tmp_path / 'out'))).unlink()
    with caplog.at_level('INFO', 'opql_jax'):
        run(tmp_path / 'out', corpus, processes=2)
    assert 'a killed run left 3 parts' in caplog.text
    run(tmp_path / 'whole', corpus)
    assert digest_of_tree(tmp_path / 'out') == digest_of_tree(tmp_path / 'whole')
