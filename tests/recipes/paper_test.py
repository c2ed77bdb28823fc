"""The recipe at the paper's size tells what it takes without having it."""

import re

import pytest

from opql_jax.recipes import __main__ as recipes_main


def test_a_dry_run_without_data_tells_the_commands_the_files_and_the_machines(tmp_path, capsys):
    (tmp_path / 'wikipedia').mkdir()
    where = ['--data', str(tmp_path), '--out', str(tmp_path / 'out')]
    recipes_main.main(['run', 'paper/webqsp', '--dry-run', *where])
    said = capsys.readouterr().out
    binaries = re.findall(r'^python -m opql_jax\.(\w+)', said, re.M)
    convert = 'convert_questions ' * 2
    expected = f'prepare train train build_memory train {convert} update_memory train eval eval'
    assert binaries == expected.split()
    for name in ('webqsp/WebQSP.train.json', 'webqsp/WebQSP.test.json', 'bert-base-uncased'):
        assert f'# data {tmp_path}/{name}: missing; ' in said, name
    assert f'# data {tmp_path}/wikipedia: there\n' in said
    for machine in ('v5e-16', 'v4-128', '8-H100'):
        (line,) = re.findall(rf'^# {machine} .*', said, re.M)
        total, each = re.search(r': ([\d.]+) hours \((.+)\), [\d,]+ dollars at ', line).groups()
        hours = dict(stage.split() for stage in each.split(', '))
        assert [*hours] == ['entities', 'relations', 'opql-lm-pretrained', 'opql-lm-webqsp']
        assert float(total) == pytest.approx(sum(map(float, hours.values())), abs=0.3)
    assert list(tmp_path.iterdir()) == [tmp_path / 'wikipedia']
