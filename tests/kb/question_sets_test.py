"""Question files and question sets, answered and scored from folders to tables."""

import json

import numpy as np
import pytest

from opql_jax.core.errors import InputError
from opql_jax.corpus.questions import to_record, write_questions
from opql_jax.evaluation.evaluate import evaluate_predictions
from opql_jax.evaluation.predictions import PredictionError, read_predictions
from opql_jax.kb.open_kb import open_kb
from opql_jax.kb.trained.question_sets import evaluate, infer
from opql_jax.memory import ann_build
from opql_jax.memory.ann import ScannIndex

from ann_memories import with_scann

SPLITS = ('1-hop/dev', '2-hop/dev')


@pytest.fixture(scope='module')
def folder(world):
    return dict(kb=str(world))


@pytest.fixture(scope='module')
def kb(folder):
    return open_kb(**folder, k=16)


@with_scann
def test_an_index_finds_what_a_search_of_the_whole_memory_finds(folder, kb, tmp_path, monkeypatch):
    monkeypatch.setattr(ann_build, 'MIN_ENTRIES', 100)
    monkeypatch.setattr(ann_build, 'NUM_QUERIES', 64)
    index = str(tmp_path / 'index')
    built = ann_build.build_index(index, kb.memory, kb.entity_table, k=16, recall=0.9)
    assert isinstance(built, ScannIndex)
    whole, by_index = open_kb(**folder, k=16, filter=False), open_kb(**folder, k=16, index=index)
    questions = kb.prepared.questions('2-hop/dev')[:20]
    pairs = zip(whole.answer(questions), by_index.answer(questions))
    same = [one.entities[0] == other.entities[0] for one, other in pairs]
    assert np.mean(same) >= 0.9 and whole.identity != by_index.identity
    with pytest.raises(InputError, match='rows of known topics alone: leave out the index'):
        open_kb(**folder, index=index, filter=True)


def test_every_split_is_scored_and_its_files_are_left(folder, kb, tmp_path):
    results = evaluate(**folder, output_dir=str(tmp_path), questions=SPLITS, k=16)
    names = [f'{split}.{kind}.jsonl' for split in SPLITS for kind in ('cases', 'predictions')]
    files = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob('*.json*')}
    assert files == {*names, 'metrics.json'}
    assert json.loads((tmp_path / 'metrics.json').read_text()) == results
    assert list(results) == list(SPLITS)
    for split in SPLITS:
        questions, found = kb.prepared.questions(split), dict(results[split])
        records = read_predictions(tmp_path / f'{split}.predictions.jsonl')
        wanted = evaluate_predictions(questions, records, kb.vocab, kb.memory)
        by_type = (each.pop('hits@1_by_type') for each in (found, wanted))
        assert next(by_type) == pytest.approx(next(by_type)) and found == pytest.approx(wanted)
        assert found['questions'] == len(questions) == 40
        # Every fact of this world is in its text, and an untrained model finds few of them.
        assert found['coverage'] == 1.0 and found['hits@1'] < 0.9
        right = [case['right'] for case in read_predictions(tmp_path / f'{split}.cases.jsonl')]
        assert right == sorted(right) and sum(right) == round(found['hits@1'] * 40)


def test_predictions_that_do_not_fit_the_questions_are_refused(folder, kb, tmp_path):
    path, asked = tmp_path / 'out.jsonl', tmp_path / 'mine.jsonl'
    questions = kb.prepared.questions('2-hop/dev')[:12]
    write_questions(asked, [to_record(question, kb.vocab) for question in questions])
    options = dict(**folder, questions=str(asked))
    infer(**options, output=str(path), k=16)
    lines = path.read_text('utf-8').split('\n')
    for changed, said in (
        ([*lines[:5], *lines[6:]], 'out.jsonl holds 11 predictions for 12 questions'),
        ([lines[0].replace('question": "', 'question": "not '), *lines[1:]], 'line 1 answers'),
        ([*lines[:4], lines[4][:50], *lines[5:]], 'out.jsonl, line 5: not a prediction'),
    ):
        path.write_text('\n'.join(changed), encoding='utf-8')
        with pytest.raises(PredictionError, match=said):
            evaluate(**options, output_dir=str(tmp_path), predictions=str(path))
