"""Folders whose files were forged by machine and signed again: what is read is valid, or one error names the file."""

import forge
import forged_folders
import pytest

from own_process import own_process


@pytest.fixture(scope='module')
def call():
    """A process whose memory is limited."""
    with own_process() as call:
        yield call


@pytest.mark.parametrize('every', [pytest.param(23, id='some'), pytest.param(1, id='all', marks=pytest.mark.slow)])
@pytest.mark.parametrize('kind', forged_folders.KINDS)
def test_a_forged_file_is_read_as_something_valid_or_told(call, tmp_path, kind, every):
    found = call(forged_folders.survey, kind, tmp_path, every)
    print(kind, dict(forge.summary(found)))
    assert not forge.broken(found)
    assert forge.summary(found)['told'] > len(found) / 3
