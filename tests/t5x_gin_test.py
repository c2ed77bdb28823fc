"""The files of gin/t5x, read as t5x reads them, over the recorded interface of t5x."""

import importlib.util
import pathlib

import numpy as np
import pytest
import t5x_interface

from opql_jax.core.errors import InputError

from examples import table
from own_process import own_process

ROOT = pathlib.Path(__file__).resolve().parent.parent
STEPS = 20
REQUIRED = ("KB = 'films.kb'", "MODEL_DIR = '/films.kb/t5x'", f'STEPS = {STEPS}')


@pytest.fixture(scope='module')
def call():
    with own_process() as call:
        yield call


def files(binary):
    return ['gin/models/tiny.gin', 'gin/runs/relations.gin', f'gin/t5x/{binary}.gin']


@pytest.mark.skipif(
    importlib.util.find_spec('t5x') is None, reason='t5x is not installed; it is not on PyPI'
)
def test_the_record_is_that_of_the_installed_t5x():
    with own_process() as call:  # in which nothing stands in
        assert call(t5x_interface.installed) == t5x_interface.recorded()


CONFIG = 'trainer.TrainConfig'


@table(f"""
    settings | at | peak
    | 10 | 5e-4
    {CONFIG}.warmup_steps = 4; LEARNING_RATE = 0.1 | 4 | 0.1
    {CONFIG}.learning_rate = 0.2; {CONFIG}.num_steps = 8 | 4 | 0.2
""")
def test_the_learning_rate_that_t5x_logs_is_the_one_that_acts(call, settings, at, peak):
    given = [*REQUIRED, *filter(None, settings.split('; '))]
    acts, logged = call(t5x_interface.learning_rates, str(ROOT), files('train'), given, STEPS)
    np.testing.assert_allclose(acts, logged, rtol=1e-3)
    assert (int(np.argmax(logged)), max(logged)) == pytest.approx((int(at), float(peak)))


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
