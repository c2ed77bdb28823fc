"""The recipe at the paper's size tells what it takes without having it."""

import re

import pytest

from opql_jax.recipes import __main__ as recipes_main
from opql_jax.recipes import catalog
from opql_jax.recipes.step import Options, Output

import tiny_msf


def test_a_dry_run_without_data_tells_the_commands_the_files_and_the_machines(tmp_path, capsys):
    (tmp_path / 'wikipedia').mkdir()
    where = ['--data', str(tmp_path), '--out', str(tmp_path / 'out')]
    recipes_main.main(['run', 'paper/webqsp', '--dry-run', *where])
    said = capsys.readouterr().out
    binaries = re.findall(r'^python -m opql_jax\.(\w+)', said, re.M)
    convert = 'convert_questions ' * 2
    expected = f'prepare train train build_memory train {convert} update_memory train eval eval'
    assert binaries == expected.split()
    for name, where in {
        'webqsp/WebQSP.train.json': 'WebQSP.zip of aka.ms/WebQSP',
        'webqsp/WebQSP.test.json': 'WebQSP.zip of aka.ms/WebQSP',
        'bert-base-uncased': 'google-bert/bert-base-uncased',
    }.items():
        assert re.search(rf'# data {tmp_path}/{name}: missing; .*{where}', said), name
    assert f'# data {tmp_path}/wikipedia: there\n' in said
    assert re.findall(r'--gin\.FORMAT=(\w+)', said) == ['webqsp', 'webqsp']  # the official form
    assert 'main memory on each host' in said
    for machine in ('v5e-16', 'v4-128', '8-H100'):
        (line,) = re.findall(rf'^# {machine} .*', said, re.M)
        total, each = re.search(r': ([\d.]+) hours \((.+)\), [\d,]+ dollars at ', line).groups()
        hours = dict(stage.split() for stage in each.split(', '))
        assert [*hours] == ['entities', 'relations', 'opql-lm-pretrained', 'opql-lm-webqsp']
        assert float(total) == pytest.approx(sum(map(float, hours.values())), abs=0.3)
    assert 'not measured' in said
    assert list(tmp_path.iterdir()) == [tmp_path / 'wikipedia']


def test_new_relations_of_msf_are_held_out_and_asked_apart_also_over_the_encoder_of_wikipedia(
    tmp_path,
):
    tiny_msf.write(tmp_path / 'msf')
    pretrained = 'opql-pretrained'
    for name, suffix in (('msf', ''), ('paper/msf', '-msf')):
        for system, protocol in (('opql', 'novel'), ('drkit', 'without'), (pretrained, 'without')):
            chosen = {'system': system, 'protocol': protocol, 'share': 50}
            options = Options(tmp_path / 'out', tmp_path, **chosen)
            steps = catalog.find(name).steps(options)
            bound = {step.name: step.bindings for step in steps}
            row = bound[f'results/{system}{suffix}-{protocol}-50/3-hop/novel']
            follower = bound[row['MODEL']]
            encoder = bound[follower['INIT_FROM']]
            assert row['NEEDS'] and row['QUESTIONS'] == ('3-hop/test',)
            needs = {True: row['NEEDS'], False: ()}
            assert encoder.get('HELD_OUT', ()) == needs[system != pretrained]
            assert follower.get('HELD_OUT', ()) == needs[protocol == 'without']
            bert = Output('relations') if suffix else None
            assert bound[f'entities{suffix}'].get('BERT') == bert


@pytest.mark.parametrize('name', catalog.RECIPES)
def test_every_recipe_tells_its_steps_without_data(name, tmp_path):
    steps = catalog.find(name).steps(Options(tmp_path / 'out', tmp_path))
    assert len(steps) >= 1 and list(tmp_path.iterdir()) == []
