"""Whatever ends a run, readers find the state before or after it, and a rerun completes it."""

import pytest

import system_calls
from system_calls import BROKEN, FULL, KILL, KILLED, TEAR

WORKS = 'prepare build inject delete compact compact_kb checkpoint predictions kb_manifest'.split()
# How many calls CI tries of each work; of some only with a kill or a full disk.
SAMPLE = {KILL: 3, FULL: 2, TEAR: 2, BROKEN: 2}
ALL = ('prepare', 'inject', 'checkpoint')
CASES = [(work, how) for work in WORKS for how in SAMPLE if how in (KILL, FULL) or work in ALL]


@pytest.fixture(scope='module')
def sample(tmp_path_factory):
    requests = [(work, how, SAMPLE[how]) for work, how in CASES]
    tried = system_calls.tried(tmp_path_factory.mktemp('sample'), 'crash_runs', requests)
    return dict(zip(CASES, tried, strict=True))


def check(tried, how, least):
    assert len(tried.outcomes) >= least
    for outcome in tried.outcomes:
        where = f'call {outcome.point}, {outcome.kind} {outcome.name}: {outcome.said}'
        if how in (KILL, TEAR):
            assert outcome.status == KILLED, where
        else:
            # An error that does no harm may be passed over; any other one names a file.
            assert outcome.status in (0, 1), where
            assert outcome.status == 0 or 'FOLDER' in outcome.said, where
            assert outcome.status == 0 or how == BROKEN or 'make room' in outcome.said, where
            assert outcome.status == 1 or outcome.state == tried.new, where
        assert outcome.state in (tried.old, tried.new), where
        assert outcome.content == tried.content, where


@pytest.mark.parametrize(('work', 'how'), CASES)
def test_a_fault_leaves_the_old_state_or_the_new_one_and_a_rerun_completes_it(sample, work, how):
    check(sample[work, how], how, 1)


# (work, what happens, at how many calls, at least); some remove, and hardly write.
MORE = [
    *[(w, h, None, 1 if h == TEAR or w == 'compact_kb' else 5) for w in WORKS for h in SAMPLE],
    *[(work, how, 12, 10) for work in ('index_text', 'change_text') for how in (KILL, FULL)],
]


@pytest.mark.slow
@pytest.mark.parametrize(('work', 'how', 'most', 'least'), MORE)
def test_so_does_a_run_with_a_fault_at_any_call(tmp_path, work, how, most, least):
    (tried,) = system_calls.tried(tmp_path, 'crash_runs', [(work, how, most)])
    check(tried, how, least)


@pytest.mark.parametrize('work', WORKS)
def test_a_file_is_on_the_disk_before_it_gets_its_name(sample, work):
    """So that it is whole after a failure of power, too."""
    calls, written = sample[work, KILL].calls, {}
    for at, (kind, name) in enumerate(calls):
        if kind == 'write':
            written[name] = at
        elif kind == 'fsync':
            written.pop(name, None)
        elif kind == 'rename':
            folder, _, last = name.rpartition('/')
            partial = f'{folder}/.{last}.N.partial'.lstrip('/')
            assert partial not in written, f'{partial} is renamed before it is synchronised'
