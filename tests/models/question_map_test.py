"""What was learnt from questions is stored whole, is for one encoder, and damage is found."""

import numpy as np
import pytest

from opql_jax.core.errors import InputError
from opql_jax.core.manifest import ManifestError
from opql_jax.models.question_map import QuestionMap


def example(seed: int = 0) -> QuestionMap:
    change = np.random.default_rng(seed).normal(0, 0.1, (4, 4)).astype(np.float32)
    return QuestionMap(change, 1.25, 0.5, -0.125, 1.5)


def test_a_map_is_read_as_it_was_written(tmp_path):
    example().write(tmp_path / 'map', 'hash', 3)
    read = QuestionMap.read(tmp_path / 'map', 'hash')
    np.testing.assert_array_equal(read.change, example().change)
    weights = read.cosine_weight, read.added_weight, read.longer, read.log_odds
    assert weights == (1.25, 0.5, -0.125, 1.5)
    assert read.hash() == example().hash() != example(1).hash()
    with pytest.raises(ManifestError, match='another encoder'):
        QuestionMap.read(tmp_path / 'map', 'other')


def test_relations_have_unit_length_and_untrained_ones_stay_as_they_are():
    relations = np.eye(4, dtype=np.float32)
    np.testing.assert_array_equal(QuestionMap.untrained(4)(relations), relations)
    changed = example()(relations)
    np.testing.assert_allclose(np.linalg.norm(changed, axis=1), 1, rtol=1e-6)
    unscaled = relations + example().change
    lengths = np.linalg.norm(unscaled, axis=1, keepdims=True)
    np.testing.assert_allclose(changed, unscaled / lengths, rtol=1e-6)


def test_killed_before_the_manifest_the_map_that_was_there_stays(tmp_path, monkeypatch):
    example().write(tmp_path / 'map', 'hash', 3)

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr('opql_jax.models.question_map.manifest.write_manifest', killed)
        with pytest.raises(KeyboardInterrupt):
            example(1).write(tmp_path / 'map', 'hash', 4)
        with pytest.raises(KeyboardInterrupt):
            example().write(tmp_path / 'first', 'hash', 3)
    assert QuestionMap.read(tmp_path / 'map').hash() == example().hash()
    with pytest.raises(ManifestError, match='no such file'):
        QuestionMap.read(tmp_path / 'first')
    example().write(tmp_path / 'first', 'hash', 3)
    assert QuestionMap.read(tmp_path / 'first').hash() == example().hash()


def test_other_files_are_not_written_over_and_diverged_maps_not_written(tmp_path):
    (tmp_path / 'notes').mkdir()
    (tmp_path / 'notes' / 'mine.txt').write_text('mine')
    with pytest.raises(InputError, match='other files'):
        example().write(tmp_path / 'notes', 'hash', 3)
    with pytest.raises(InputError, match='not finite'):
        QuestionMap(np.full((4, 4), np.nan, np.float32)).write(tmp_path / 'map', 'hash', 3)
    assert not (tmp_path / 'map').exists()
