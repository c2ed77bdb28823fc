"""Files damaged, or forged and signed, by machine: what is read is valid, or an error names one."""

import forge
import forged_folders
import pytest

from own_process import own_process


@pytest.fixture(scope='module')
def call():
    with own_process() as call:
        yield call


# CI tries one forgery in so many, fewer of what takes a second to read; `-m slow` tries all.
SOME = dict.fromkeys(forged_folders.KINDS, 94) | {'plain_text': 500, 'model': 22, 'kb': 5}


@pytest.mark.parametrize('tried', ['some', pytest.param('all', marks=pytest.mark.slow)])
@pytest.mark.parametrize('kind', SOME)
def test_a_forged_file_is_read_as_something_valid_or_told(call, tmp_path, kind, tried):
    found = call(forged_folders.survey, kind, tmp_path, SOME[kind] if tried == 'some' else 1)
    assert forge.broken(found) == {}
    assert list(found.values()).count('told') > len(found) / 4


CHECKED = 'prepared_whole memory question_map encoder model kb'.split()


@pytest.mark.parametrize('every', [5, pytest.param(1, id='all', marks=pytest.mark.slow)])
@pytest.mark.parametrize('kind', CHECKED)
def test_a_damaged_file_is_read_as_it_was_or_told(call, tmp_path, kind, every):
    found = call(forged_folders.survey, kind, tmp_path, every, signed=False)
    assert 'told' in found.values()
    assert forge.broken(found, fine=('same', 'told')) == {}
