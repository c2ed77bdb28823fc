"""RESULTS.md's generated part: tables of handwritten metrics, what was run, markers."""

import dataclasses
import json

import pytest

from opql_jax.core.errors import InputError
from opql_jax.memory.format import Memory
from opql_jax.recipes import results
from opql_jax.training import stages

import tiny_training


def metrics(hits, ceiling=0.8):
    return {'hits@1': hits, 'coverage': ceiling, 'questions': 100}


def sets(split, *hits, ceiling=0.8):
    return {f'{hop}-hop/{split}': metrics(value, ceiling) for hop, value in enumerate(hits, 1)}


ROWS = {
    'opql': sets('dev', 0.7, 0.6, 0.64),
    'opql-seed1': sets('dev', 0.72, 0.58, 0.64),
    'opql-seed2': sets('dev', 0.74, 0.62, 0.64),
    'opql-pretrained': sets('dev', 0.5, 0.4, 0.3),
    'no-filter': sets('dev', 0.1, 0.65),
    'no-el': sets('dev', 0.45, 0.41, 0.3),
    'fae-kb': sets('dev', 0.9, 0.95, 0.98, ceiling=1.0),
}


def lines_of(table):
    """{first cell: the others}."""
    return {cells[0]: cells[1:] for line in table.splitlines() for cells in [line.strip('| ').split(' | ')]}


def write(folder, rows):
    for row, found in rows.items():
        (folder / 'results' / row).mkdir(parents=True)
        (folder / 'results' / row / 'metrics.json').write_text(json.dumps(found))
    return folder


def test_the_main_table_states_shares_ceilings_and_the_paper():
    lines = lines_of(results.hits_table(ROWS, 'dev', paper=True))
    assert lines['Hits@1 (share of the ceiling)'] == ['1 hop', '2 hops', '3 hops']
    assert lines['opql'] == ['0.700 (87.5%)', '0.600 (75.0%)', '0.640 (80.0%)']
    assert lines['ceiling of opql, opql-pretrained'] == ['0.800'] * 3 and lines['ceiling of fae-kb'] == ['1.000'] * 3
    assert lines['OPQL in the paper (MetaQA test, other text)'] == ['–', '–', '0.871']
    assert not lines.keys() & {'no-filter', 'no-el', 'opql-seed1'}
    assert list(lines)[2:5] == ['opql', 'opql-pretrained', 'fae-kb']


def test_a_set_that_was_not_asked_is_a_dash():
    assert (
        lines_of(results.hits_table({'opql': sets('dev', 0.7), 'b': sets('dev', 0.1, 0.2)}, 'dev', paper=False))['opql'][1]
        == '–'
    )
    assert 'paper' not in results.hits_table(ROWS, 'dev', paper=False)


def test_seeds_have_a_mean_a_deviation_and_a_range():
    (line,) = [cells for name, cells in lines_of(results.seeds_table(ROWS, 'dev')).items() if name == 'opql, 3 seeds']
    assert line[:2] == ['0.720 ± 0.020 (0.700 to 0.740)', '0.600 ± 0.020 (0.580 to 0.620)']
    assert results.seeds_table({'opql': ROWS['opql']}, 'dev') == ''


def test_an_ablation_is_compared_with_what_it_is_one_of():
    lines = lines_of(results.ablations_table(ROWS, 'dev'))
    assert lines['no-filter'][1:] == ['opql', '0.100 (-0.600)', '0.650 (+0.050)', '–']
    assert lines['no-el'][1:] == ['opql-pretrained', '0.450 (-0.050)', '0.410 (+0.010)', '0.300 (+0.000)']
    assert len(lines) == 4
    assert lines_of(results.ablations_table({'no-el': ROWS['no-el']}, 'dev'))['no-el'][2] == '0.450'  # its row is not done


@pytest.fixture(scope='module')
def finished(tmp_path_factory):
    """A folder as launch/reproduce.sh leaves it, with untrained models and handwritten metrics and times."""
    folder = tmp_path_factory.mktemp('root') / 'metaqa'
    prepared = tiny_training.write_prepared(folder / 'prepared')
    tiny_training.write_untrained(prepared, folder / 'pretrained', seed=3)
    memory = tiny_training.write_memory(prepared, folder / 'pretrained', folder / 'memory')
    stage = stages.FollowStage(memory_dir=str(memory), splits=('2-hop/train',), questions=8, k=8)
    tiny_training.write_untrained(prepared, folder / 'follow' / 'opql', stage, init_from=folder / 'pretrained')
    write(folder, ROWS)
    (folder / 'seconds.tsv').write_text('prepared\t60\nmemory\t100\nmemory\t20\nresults/opql\t3600\nfollow/opql\t1\n')
    for system, shares in {'opql': (0, 50), 'drkit': (0, 25, 50)}.items():
        for percent in shares:
            write(folder / 'results' / 'novel-relations' / system / str(percent), {})
            path = folder / 'results' / 'novel-relations' / system / str(percent) / 'metrics.json'
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(sets('dev', 0.5 - percent / 1000, 0.4)))
    return folder


def test_a_row_rests_on_the_steps_that_its_checkpoints_name(finished):
    runs = results.read_runs(finished)
    assert list(runs.trained) == ['follow/opql', 'pretrained']
    assert runs.memories == {Memory.open(finished / 'memory').hash(): 'memory'}
    assert runs.steps_of('opql') == ['prepared', 'pretrained', 'memory', 'follow/opql', 'results/opql']
    assert runs.steps_of('fae-kb') == ['prepared']  # it left no checkpoint here
    assert runs.time_of('memory') == 120
    assert runs.time_of('follow/opql') == 2.5  # of the checkpoint, with what was killed
    lines = lines_of(results.runs_table(runs))
    assert lines['pretrained'][:4] == ['RelationStage', '', '1', '3']
    assert lines['follow/opql'][:4] == ['FollowStage', 'pretrained', '1', '0']
    assert lines['opql'] == ['prepared, pretrained, memory, follow/opql, results/opql', '1 h 03 min']
    assert results._clock(59) == '1.0 min' and results._clock(3600 + 61) == '1 h 01 min'
    assert runs.trained['pretrained']['hardware'] in results.runs_table(runs)


def test_a_run_that_changed_no_parameter_is_not_followed_back_to_itself():
    trained = {'follow/opql': {'params_hash': 'a', 'lineage': {'init_hash': 'a'}}}
    runs = results.Runs(rows={}, novel={}, probes={}, trained=trained, memories={}, seconds={})
    assert runs.steps_of('opql') == ['follow/opql']
    # In the order in which runs are read: what the row itself is, last.
    trained = {'pretrained': {'params_hash': 'a', 'lineage': {'init_hash': None}}, **trained}
    runs = dataclasses.replace(runs, trained=trained)
    assert runs.steps_of('opql') == ['pretrained', 'follow/opql']


def test_gin_is_shown_without_paths_of_this_machine(finished):
    text = results.gin_of(results.read_runs(finished))
    assert '<summary>gin of pretrained</summary>' in text and "WORKDIR = '…/pretrained'" in text and str(finished) not in text


def test_the_file_changes_between_its_markers_only_and_twice_is_once(finished, tmp_path, capsys):
    output = tmp_path / 'RESULTS.md'
    written = dict(runs=(str(finished),), output=str(output))
    results.write_results(**written, dry_run=True)
    assert not list(tmp_path.iterdir()) and 'metaqa: ' in (printed := capsys.readouterr().out) and 'no-filter' in printed
    results.write_results(**written)
    output.write_text('# By hand\n\n' + output.read_text() + '\nMore by hand.\n')
    results.write_results(**written)
    first = output.read_text()
    assert first.startswith('# By hand\n\n<!--') and first.endswith('-->\n\nMore by hand.\n')
    figures = {path.name: path.read_bytes() for path in (tmp_path / 'figures').iterdir()}
    assert figures.keys() == {'metaqa-dev.png', 'metaqa-novel-dev.png'}
    assert all(data.startswith(b'\x89PNG') and f'(figures/{name})' in first for name, data in figures.items())
    results.write_results(**written)
    assert output.read_text() == first
    assert {path.name: path.read_bytes() for path in (tmp_path / 'figures').iterdir()} == figures
    other = tmp_path / 'other'
    write(other, {'opql': ROWS['opql']})
    results.write_results(runs=(str(other),), output=str(output))
    both = output.read_text()
    assert (
        both.startswith(first[: first.index(results.END)].rstrip('\n'))
        and '\n## other\n' in both
        and both.endswith('-->\n\nMore by hand.\n')
    )
    results.write_results(**written)
    assert output.read_text() == both
    novel = lines_of(first[first.index('### Novel') : first.index('### What was run')])
    assert novel['drkit'][0] == '50 %' and novel['opql'] == ['50 %', '0.450 (56.2%)', '0.400 (50.0%)']


def test_the_plots_show_what_the_metrics_say(finished, tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(results, '_save', lambda figure, path: figures.append(figure))
    runs = results.read_runs(finished)
    results.plot_novel(runs.novel, 'dev', tmp_path / 'a.png')
    results.plot_hits(runs.rows, 'dev', tmp_path / 'b.png')
    one_hop, two_hops = figures[0].axes
    lines = {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in one_hop.lines}
    assert lines == {'drkit': ([0, 25, 50], [0.5, 0.475, 0.45]), 'opql': ([0, 50], [0.5, 0.45])}
    assert [list(line.get_ydata()) for line in two_hops.lines] == [[0.4] * 3, [0.4] * 2]
    bars = {c.get_label(): [bar.get_height() for bar in c] for c in figures[1].axes[0].containers}
    assert bars == {'opql': [0.7, 0.6, 0.64], 'opql-pretrained': [0.5, 0.4, 0.3], 'fae-kb': [0.9, 0.95, 0.98]}


@pytest.mark.parametrize(
    'files, complaint',
    [
        ({}, 'holds no results/<row>/metrics.json'),
        (
            {'results/opql/metrics.json': '{"1-hop/dev": {"hits@1": 1}}'},
            r'opql/metrics\.json is not what eval or probe writes .*coverage',
        ),
        ({'results/opql/metrics.json': '{'}, 'is not what eval or probe writes'),
        ({'results/novel-relations/opql/half/metrics.json': '{}'}, 'half must be the percentage'),
        ({'results/opql/metrics.json': '{}', 'seconds.tsv': 'a\t1\nb\tx\n'}, r'seconds\.tsv, line 2: not a name'),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, files, complaint):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=complaint):
        results.read_runs(tmp_path)


def test_probes_have_a_table_of_their_own(tmp_path):
    probe = dict(accuracy=0.8, standard_error=0.004, ways=5, shots=1, relations=83, sentences=1200, embedding='relation')
    write(tmp_path, {'opql': ROWS['opql'], 'probe': probe, 'probe-mean': probe | {'embedding': 'mean', 'accuracy': 0.62}})
    runs = results.read_runs(tmp_path)
    assert set(runs.rows) == {'opql'}
    assert lines_of(results.probes_table(runs.probes))['probe-mean'] == ['mean', '5-way 1-shot', '0.620 ± 0.004', '83', '1,200']
    text = results.generated(tmp_path, runs, tmp_path / 'figures')
    assert '| probe | relation | 5-way 1-shot | 0.800 ± 0.004 | 83 | 1,200 |' in text


def test_a_file_without_markers_is_left_alone(tmp_path):
    write(tmp_path / 'runs', {'opql': ROWS['opql']})
    (tmp_path / 'RESULTS.md').write_text('# Mine\n')
    with pytest.raises(InputError, match='must hold the lines'):
        results.write_results(runs=(str(tmp_path / 'runs'),), output=str(tmp_path / 'RESULTS.md'))
    assert (tmp_path / 'RESULTS.md').read_text() == '# Mine\n'
    with pytest.raises(InputError, match='write a tuple'):
        results.write_results(runs='runs', output='x')
