"""The tables of README.md, RESULTS.md and the notes: written from published runs, and no older than
these.
"""

import json
import pathlib
import subprocess

import numpy as np
import pytest

from opql_jax.core.checkout import GIN_ROOT
from opql_jax.core.distributed import describe_devices
from opql_jax.core.errors import InputError
from opql_jax.recipes import record, tables
from opql_jax.recipes.options import Options
from opql_jax.recipes.recipe import Recipe, run, run_json_of
from opql_jax.recipes.step import Function, Output, Step


def write_run(folder, group, row, seed=0, **fields):
    path = folder / f'{group}.json'
    rows = json.loads(path.read_text()) if path.exists() else {}
    base = {'command': 'c', 'commit': 'abc', 'metrics': {}, 'percent': 100}
    base |= {'seed': seed, 'seconds': 60.0}
    rows.setdefault(row, {})[str(seed)] = base | fields
    path.write_text(json.dumps(rows))


def test_each_published_run_is_shown_by_a_page():
    pages = ''.join((record.ROOT / name).read_text(encoding='utf-8') for name in tables.FILES)
    groups = {path.stem for path in (record.ROOT / 'results').glob('*.json')}
    # That of the injection, one run, is told in words.
    assert {group for group in groups if f'<!-- table: {group} -->' not in pages} == {
        'webqsp-injection-30-percent'
    }


def test_the_tables_of_the_repository_are_those_of_its_published_runs():
    for name in tables.FILES:
        text = (record.ROOT / name).read_text(encoding='utf-8')
        assert tables.with_tables(text) == text, f'{name}: python -m opql_jax.recipes tables'
    assert '<!-- table: ' in text


# {model, as the docs and the paper name it: the published row and the memory and questions of it},
# over WebQSP.
WEBQSP = {
    'EaE': ('eae', 'dev'),
    'OPQL-follow': ('opql-follow', 'memory/dev'),
    'OPQL-LM': ('opql-lm', 'memory/dev'),
    'pairs injected': ('opql-lm', 'memory-injected/dev'),
}


def cells(line):
    return [cell.strip() for cell in line.strip('| ').split('|')]


def published(group, row, asked, measure='hits@1'):
    """The mean over the seeds of a published row."""
    runs = tables.read_rows(group, tables.RESULTS)[row]
    return np.mean([fields['metrics'][asked][measure] for fields in runs])


def test_figures_of_ours_that_the_docs_have_beside_those_of_the_paper_are_those_of_published_runs():
    lines = (record.ROOT / 'docs/explanation/paper.md').read_text(encoding='utf-8').splitlines()
    cells_of = lambda model: next(cells(line) for line in lines if line.startswith(f'| {model} |'))
    written = lambda value: f'{value:.3f}'.removeprefix('0')
    for model, group, row in (
        ('KVMem', 'metaqa-30-percent', 'kv-memory'),
        ('DrKIT', 'metaqa-30-percent', 'drkit'),
        ('OPQL-pretrained', 'metaqa', 'opql-pretrained'),
        ('OPQL', 'metaqa', 'opql'),
        ('OPQL, pairs marked and masked as in the paper', 'metaqa', 'marked-pairs'),
    ):
        for hops, cell in zip((2, 3), cells_of(model)[-2:], strict=True):
            of = lambda name, of=(group, row, f'{hops}-hop/dev'): published(*of, name)
            hits, coverage = of('hits@1'), of('coverage')
            assert cell.startswith(f'{written(hits)} ({100 * hits / coverage:.0f}%)'), (model, hops)
    for name, asked in WEBQSP.items():
        model = "OPQL-LM, with the question's pairs injected" if name == 'pairs injected' else name
        hits = written(published('webqsp-30-percent', *asked))
        assert cells_of(model)[-1].startswith(hits), model


def test_seeds_of_a_row_are_one_line_with_their_spread(tmp_path):
    for seed, hits, coverage in ((0, 0.8, 0.92), (1, 0.9, 0.88)):
        scores = {'hits@1': hits, 'coverage': coverage}
        write_run(tmp_path, 'g', 'a', seed, metrics={'1-hop/dev': scores}, seconds=60 * seed)
    write_run(tmp_path, 'g', 'b', metrics={'2-hop/dev': {'hits@1': 0.5}}, seconds=None)
    write_run(tmp_path, 'g', 'c', metrics={'2-hop/dev': {'hits@1': 0.0, 'coverage': 0.0}})
    lines = tables.table('g', tmp_path).splitlines()
    assert lines[0] == '|  | 1-hop/dev | 2-hop/dev | seeds | commit |'
    assert lines[2:4] == [
        '| a | 0.850 ± 0.050 (94%) | – | 2 | abc |',
        '| b | – | 0.500 | 1 | abc |',
    ]
    assert lines[4] == '| c | – | 0.000 | 1 | abc |'


def test_a_group_without_runs_and_a_run_without_its_commit_are_named(tmp_path):
    with pytest.raises(InputError, match='g.json does not exist: publish a run of g'):
        tables.table('g', tmp_path)
    (tmp_path / 'g.json').write_text('{"a": {"0": {"command": "c"}}}')
    message = r'g.json is damaged .*required field `commit`.*: publish the run again'
    with pytest.raises(InputError, match=message):
        tables.table('g', tmp_path)


def test_a_field_of_a_published_run_that_is_of_another_type_is_named(tmp_path):
    bad = {'seconds': 'x', r'metrics\[...\]': {'dev': {'hits@1': 'x'}}, 'commit': None}
    for named, value in bad.items():
        write_run(tmp_path, 'g', 'a', **{named.partition('\\')[0]: value})
        message = f'g.json is damaged .*{named}.*: publish the run again'
        with pytest.raises(InputError, match=message):
            tables.table('g', tmp_path)
        (tmp_path / 'g.json').unlink()


def make(path):
    pathlib.Path(path).write_text('made', encoding='utf-8')


def test_a_recipe_is_published_once_it_is_done(tmp_path):
    one = Function('one', make, {'path': Output('one')}, 'one')
    recipe = Recipe('g/a', '', lambda options: [one])
    options = Options(tmp_path / 'out', tmp_path, seed=3, percent=10)
    with pytest.raises(InputError, match='step one is not done in .*: run the recipe first'):
        tables.publish(recipe, options, tmp_path / 'results')
    run(recipe.build(options), options)
    path = tables.publish(recipe, options, tmp_path / 'results')
    assert path == tmp_path / 'results/g-10-percent.json'
    published = json.loads(path.read_text())['a']['3']
    assert published['seed'] == 3
    assert published['commit'] == record.commit()
    assert published['device'] == describe_devices()
    assert published['command'] == 'python -m opql_jax.recipes run g/a --seed 3 --percent 10'


@pytest.mark.parametrize('data', ['data', '.'])
def test_a_published_configuration_names_no_folder_of_this_machine(tmp_path, monkeypatch, data):
    monkeypatch.chdir(tmp_path)
    options = Options(tmp_path / 'out', pathlib.Path(data))
    step = Step('results', 'eval', ('gin/runs/eval.gin',), {}, 'results')
    gin = (
        f"A = '{options.out}/text'\nB = '{options.data.absolute()}/metaqa'\n"
        f"C = '{GIN_ROOT}/gin/experiments/metaqa/wordings.tsv'\nRATE = 0.1  # data\n"
    )
    done = {'command': step.command(str(options.out)), 'metrics': {'dev': {'hits@1': 1}}}
    record.write(run_json_of(step, options.out), seconds=1, gin=gin, **done)
    recipe = Recipe('g/a', '', lambda options: [step])
    path = tables.publish(recipe, options, tmp_path / 'published')
    published = json.loads(path.read_text())['a']['0']['gin']['results'].splitlines()
    assert published[:2] == ["A = 'OUT/text'", "B = 'DATA/metaqa'"]
    assert published[2:] == ["C = 'gin/experiments/metaqa/wordings.tsv'", 'RATE = 0.1  # data']


def test_changed_files_mark_a_commit_but_published_results_do_not(tmp_path, monkeypatch):
    def git(*arguments):
        author = ['-c', 'user.name=a', '-c', 'user.email=a@b']
        return subprocess.run(
            ['git', '-C', tmp_path, *author, *arguments], check=True, capture_output=True, text=True
        ).stdout

    for name in ('code.py', 'results/run.json'):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('before')
    git('init', '-q')
    git('add', '.')
    git('commit', '-qm', 'first')
    commit = git('rev-parse', '--short=10', 'HEAD').strip()
    monkeypatch.setattr(record, 'ROOT', tmp_path)
    monkeypatch.setattr(record, 'IN_CHECKOUT', True)
    assert record.commit() == commit
    (tmp_path / 'results/run.json').write_text('of another row')
    assert record.commit() == commit
    (tmp_path / 'code.py').write_text('after')
    assert record.commit() == f'{commit}+'
