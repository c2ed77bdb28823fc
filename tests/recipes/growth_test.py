"""Rows with fewer training questions, or fewer entries, have some of the official ones, and all else is as it was."""

import pytest

from opql_jax.datasets.metaqa import MetaQA
from opql_jax.recipes.growth import fewer_questions

import tiny_metaqa


@pytest.mark.parametrize('count', [7, 1000])
def test_some_training_questions_are_drawn_and_the_rest_is_the_same(count, tmp_path):
    source = tiny_metaqa.write(tmp_path / 'metaqa')
    folder, again, other = (tmp_path / name for name in ('folder', 'again', 'other'))
    for written, seed in ((folder, 0), (again, 0), (other, 1)):
        fewer_questions(str(source), str(written), count, seed)
    lines = lambda where, hops: (where / f'{hops}-hop/train.txt').read_text(encoding='utf-8').splitlines()
    for hops in tiny_metaqa.HOPS:
        every, drawn = lines(source, hops), lines(folder, hops)
        assert len(drawn) == min(count, len(every)) and drawn == lines(again, hops)
        assert drawn == [line for line in every if line in drawn]
    assert any(lines(folder, hops) != lines(other, hops) for hops in tiny_metaqa.HOPS) == (count == 7)
    for path in ('passages.jsonl', 'entities.txt', '1-hop/dev.txt', '3-hop/dev.txt'):
        assert (folder / path).read_bytes() == (source / path).read_bytes()
    assert not list(folder.rglob('*.partial'))
    assert MetaQA(str(folder)).files().keys() == MetaQA(str(source)).files().keys()
