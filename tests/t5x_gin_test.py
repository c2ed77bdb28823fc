"""The files of gin/t5x, read as t5x reads them, over the recorded interface of t5x."""

import importlib.util

import pytest
import t5x_interface

from opql_jax.core.errors import InputError

from examples import table
from forked_binaries import ROOT
from own_process import own_process

REQUIRED = ("KB = 'films.kb'", "MODEL_DIR = '/films.kb/t5x'", 'STEPS = 20')


@pytest.fixture(scope='module')
def call():
    with own_process() as call:
        yield call


def files(binary):
    return ['gin/models/tiny.gin', 'gin/runs/relations.gin', f'gin/t5x/{binary}.gin']


@pytest.mark.skipif(not importlib.util.find_spec('t5x'), reason='needs t5x, not on PyPI')
def test_the_record_is_that_of_the_installed_t5x():
    with own_process() as call:  # in which nothing stands in
        assert call(t5x_interface.installed) == t5x_interface.recorded()


CONFIG = 'trainer.TrainConfig'


@pytest.mark.parametrize('binary', ['train', 'infer'])
@table(f"""
    settings | complaint
    {CONFIG}.log_every = 5 | log_every=5 does nothing under t5x: set train.stats_period
    INIT_FROM = 'start'; BERT = 'minilm' | both say where to start: leave out one
    utils.DatasetConfig.no_such = 5 | no_such
""")
def test_what_cannot_act_is_refused(call, binary, settings, complaint):
    given = binary, files(binary), [*REQUIRED, *settings.split('; ')], 'MODEL'
    with pytest.raises(InputError, match=complaint):
        call(t5x_interface.configured, str(ROOT), *given)


@pytest.mark.parametrize('file', sorted(path.name for path in (ROOT / 'gin/t5x').glob('*.gin')))
def test_each_file_sets_only_what_there_is(call, file):
    binary = {'infer.gin': 'infer'}.get(file, 'train')
    runs = [] if file == 'import.gin' else ['gin/models/tiny.gin', 'gin/runs/relations.gin']
    given = binary, [*runs, f'gin/t5x/{file}'], [*REQUIRED[:2]], 'MODEL_DIR'
    call(t5x_interface.configured, str(ROOT), *given)
