"""Language models on questions of a file: how these are split, and what trains the models from the
released encoder.
"""

import pytest

from opql_jax.core.checkout import RELEASED_ENCODER
from opql_jax.recipes import catalog
from opql_jax.recipes.open_questions import split_fifths
from opql_jax.recipes.recipe import Options, Step

# A separator of lines in Unicode, which is none in JSON Lines.
LINES = [f'{{"id": {i}, "question": "a\u2028b"}}\n'.encode() for i in range(11)]


@pytest.fixture
def source(tmp_path):
    path = tmp_path / 'questions.jsonl'
    path.write_bytes(b''.join(LINES))
    return path


@pytest.mark.parametrize('seed', range(7))
def test_every_fifth_line_is_for_evaluation_which_one_is_drawn_by_the_seed(seed, source, tmp_path):
    split_fifths(str(source), str(tmp_path), seed)
    dev, train = ((tmp_path / f'{name}.jsonl').read_bytes() for name in ('dev', 'train'))
    assert dev == b''.join(line for number, line in enumerate(LINES, 1) if number % 5 == seed % 5)
    assert train == b''.join(line for line in LINES if line not in dev)


def test_a_killed_run_is_completed_by_the_next_and_leaves_nothing(source, tmp_path):
    split_fifths(str(source), str(tmp_path / 'whole'), 0)
    parts = tmp_path / 'parts'
    parts.mkdir()
    (parts / 'train.jsonl').write_bytes((tmp_path / 'whole/train.jsonl').read_bytes())
    (parts / '.dev.jsonl.123.partial').write_bytes(b'half')
    split_fifths(str(source), str(parts), 0)
    contents = lambda folder: {path.name: path.read_bytes() for path in folder.iterdir()}
    assert contents(parts) == contents(tmp_path / 'whole')


def test_from_the_released_encoder_every_stage_has_its_size_and_goes_on_from_the_one_before(
    tmp_path,
):
    (tmp_path / 'wikispeedia').mkdir()
    (tmp_path / 'openqa').mkdir()
    (tmp_path / 'openqa/webqsp_train.jsonl').touch()
    steps = {s.name: s for s in catalog.find('webqsp').steps(Options(tmp_path / 'out', tmp_path))}
    for step, binding in (('text', 'TOKENIZER'), ('entities', 'BERT')):
        assert steps[step].bindings[binding] == str(RELEASED_ENCODER)
    stages = [step for step in steps.values() if isinstance(step, Step) and step.binary == 'train']
    names = 'entities align names opql-lm-pretrained opql-lm'.split()
    assert [stage.name for stage in stages] == names
    assert [stage.bindings.get('INIT_FROM') for stage in stages] == [None, *names[:-1]]
    assert steps['memory'].bindings['MODEL'] == 'align'
    assert {stage.gin[0] for stage in stages} == {'gin/models/released.gin'}
