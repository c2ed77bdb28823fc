"""The launch scripts, run for real at tiny sizes: what README tells a newcomer to type."""

import json
import os
import pathlib
import subprocess

import pytest

from opql_jax.corpus import synthetic

ROOT = pathlib.Path(__file__).resolve().parents[1]
HOPS = (1, 2, 3)


def run(script, *arguments, **environment):
    """The output of a script; the test fails with it if the script does."""
    done = subprocess.run(
        ['bash', ROOT / 'launch' / script, *arguments],
        env={**os.environ, 'PERCENT': '1', **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def test_demo_ends_with_results_and_evidence_and_runs_again_without_training(tmp_path):
    out = tmp_path / 'with a space'
    first = run('demo.sh', OUT=str(out), DOCUMENTS='60')
    results = json.loads((out / 'results' / 'metrics.json').read_text())
    assert set(results) == {'1-hop/test', '2-hop/test', '3-hop/test', '1-hop/unseen_wording'}
    for name, metrics in results.items():
        assert metrics['questions'] > 0 and metrics['coverage'] == 1.0, name
    assert 'hop 3 (answer)' in first and ', in “' in first

    again = run('demo.sh', OUT=str(out), DOCUMENTS='60')
    assert 'is already prepared' in again and ' steps/s' not in again
    assert json.loads((out / 'results' / 'metrics.json').read_text()) == results


@pytest.fixture(scope='module')
def metaqa_folder(tmp_path_factory):
    """A generated world in the files of MetaQA: passages without links, names, questions."""
    folder = tmp_path_factory.mktemp('metaqa')
    world = synthetic.World(0, 60)
    documents = [{'id': i, 'title': d.title, 'text': d.text} for i, d in enumerate(world.documents())]
    (folder / 'passages.jsonl').write_text('\n'.join(json.dumps(d) for d in documents), encoding='utf-8')
    (folder / 'entities.txt').write_text('\n'.join(world.names), encoding='utf-8')
    for hops in HOPS:
        (folder / f'{hops}-hop').mkdir()
        for split in ('train', 'dev'):
            lines = [synthetic.question_line(world, q) for q in world.questions(split, hops)][:40]
            (folder / f'{hops}-hop' / f'{split}.txt').write_text('\n'.join(lines) + '\n', encoding='utf-8')
    return folder


def test_metaqa_runs_both_systems_from_text_to_results(tmp_path, metaqa_folder):
    run('metaqa.sh', '--data', str(metaqa_folder), f'--out={tmp_path}')
    for results in ('results', 'results_pretrained'):
        metrics = json.loads((tmp_path / results / 'metrics.json').read_text())
        assert set(metrics) == {f'{hops}-hop/dev' for hops in HOPS}
        for hops in HOPS:
            cases = (tmp_path / results / f'{hops}-hop' / 'dev.cases.jsonl').read_text().splitlines()
            assert len(cases) == metrics[f'{hops}-hop/dev']['questions']


def test_metaqa_names_what_its_folder_lacks(tmp_path):
    done = subprocess.run(['bash', ROOT / 'launch' / 'metaqa.sh', '--data', tmp_path], capture_output=True, text=True)
    assert done.returncode == 1 and 'has no passages.jsonl' in done.stderr
