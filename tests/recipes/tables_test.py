"""The tables of the pages: written from published runs, and no older than these."""

import json
import pathlib

import numpy as np
import pytest

from opql_jax.core.checkout import GIN_ROOT
from opql_jax.recipes import record, tables
from opql_jax.recipes.recipe import Recipe, run_json_of
from opql_jax.recipes.step import Options, Step

from examples import examples


def write_run(folder, group, row, seed=0, **fields):
    path = folder / f'{group}.json'
    rows = json.loads(path.read_text()) if path.exists() else {}
    base = {'command': 'c', 'commit': 'abc', 'metrics': {}, 'percent': 100}
    base |= {'seed': seed, 'seconds': 60.0}
    rows.setdefault(row, {})[str(seed)] = base | fields
    path.write_text(json.dumps(rows))


def test_pages_show_each_published_run_as_it_is():
    pages = {name: (record.ROOT / name).read_text(encoding='utf-8') for name in tables.FILES}
    for name, text in pages.items():
        assert tables.with_tables(text) == text, f'{name}: python -m opql_jax.recipes tables'
    groups = {path.stem for path in (record.ROOT / 'results').glob('*.json')}
    shown = {group for group in groups if f'<!-- table: {group} -->' in ''.join(pages.values())}
    # That of the injection, one run, is told in words.
    assert groups - shown == {'webqsp-injection-30-percent'} and len(shown) > 1


# Models as the page and the paper name them: the group, row, and memory and questions published.
OF_PAPER = """
    KVMem | metaqa-30-percent | kv-memory | 2-hop/dev 3-hop/dev
    DrKIT | metaqa-30-percent | drkit | 2-hop/dev 3-hop/dev
    OPQL-pretrained | metaqa | opql-pretrained | 2-hop/dev 3-hop/dev
    OPQL | metaqa | opql | 2-hop/dev 3-hop/dev
    OPQL, pairs marked and masked as in the paper | metaqa | marked-pairs | 2-hop/dev 3-hop/dev
    EaE | webqsp-30-percent | eae | dev
    OPQL-follow | webqsp-30-percent | opql-follow | memory/dev
    OPQL-LM | webqsp-30-percent | opql-lm | memory/dev
    OPQL-LM, with the question's pairs injected | webqsp-30-percent | opql-lm | memory-injected/dev
"""


@pytest.mark.parametrize('model, group, row, asked', examples(OF_PAPER))
def test_figures_beside_the_paper_are_those_of_published_runs(model, group, row, asked):
    lines = (record.ROOT / 'docs/explanation/paper.md').read_text(encoding='utf-8').splitlines()
    line = next(line for line in lines if line.startswith(f'| {model} |'))
    shown = [cell.strip() for cell in line.strip('| ').split('|')]
    asked, runs = asked.split(), tables.read_rows(group, tables.RESULTS)[row]
    for split, cell in zip(asked, shown[-len(asked) :], strict=True):
        mean = lambda of, split=split: np.mean([run['metrics'][split][of] for run in runs])
        written = f'{mean("hits@1"):.3f}'.removeprefix('0')
        share = f' ({100 * mean("hits@1") / mean("coverage"):.0f}%)' if len(asked) > 1 else ''
        assert cell.startswith(f'{written}{share}')


def test_seeds_of_a_row_are_one_line_with_their_spread(tmp_path):
    for seed, hits, coverage in ((0, 0.8, 0.92), (1, 0.9, 0.88)):
        scores = {'hits@1': hits, 'coverage': coverage}
        write_run(tmp_path, 'g', 'a', seed, metrics={'1-hop/dev': scores}, seconds=60 * seed)
    write_run(tmp_path, 'g', 'b', metrics={'2-hop/dev': {'hits@1': 0.5}}, seconds=None)
    write_run(tmp_path, 'g', 'c', metrics={'2-hop/dev': {'hits@1': 0.0, 'coverage': 0.0}})
    lines = tables.table('g', tmp_path).splitlines()
    assert lines[0] == '|  | 1-hop/dev | 2-hop/dev | seeds | commit |'
    assert lines[2] == '| a | 0.850 ± 0.050 (94%) | – | 2 | abc |'
    assert lines[3] == '| b | – | 0.500 | 1 | abc |'
    assert lines[4] == '| c | – | 0.000 | 1 | abc |'


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
