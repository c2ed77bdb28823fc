"""Recipes run like make: what is done is skipped, what has changed is refused."""

import contextlib
import dataclasses
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import pytest

from opql_jax.core import preemption
from opql_jax.core.errors import InputError, Preempted
from opql_jax.recipes import catalog, record, tables
from opql_jax.recipes.__main__ import main as recipes_main
from opql_jax.recipes.recipe import Recipe, run, run_json_of, state_of
from opql_jax.recipes.step import Function, Options, Output, Step, reads_of


def write_number(path, number=0):
    pathlib.Path(path).write_text(str(number))


def step(name, **arguments):
    return Function(name, write_number, {'path': Output(name), **arguments}, name)


@pytest.fixture
def options(tmp_path):
    return Options(out=tmp_path / 'out', data=tmp_path)


def test_a_step_is_done_once_it_has_an_output_and_a_record_of_the_same_command(options):
    def text_after_running():
        run([step('one')], options)
        return (options.out / 'one').read_text()

    assert text_after_running() == '0'
    (options.out / 'one').write_text('kept')
    assert text_after_running() == 'kept'
    (options.out / 'one').unlink()
    assert text_after_running() == '0'
    # Without a record an output is of an interrupted step.
    (options.out / 'one').write_text('half')
    (options.out / 'steps/one/run.json').unlink()
    assert text_after_running() == '0'


def check_refused(steps, options, name, changed):
    out = options.out
    error = f'give another --out, or remove {out}/steps/{name} and {out}/{name} to run it again'
    with pytest.raises(InputError, match=f'step {name} was {changed}: {re.escape(error)}'):
        run([step('first'), *steps], options)
    assert not (out / 'first').exists() and (out / name).exists()


def test_a_step_that_was_run_with_another_command_is_refused(options):
    run([step('two', number=1)], options)
    check_refused([step('two', number=2)], options, 'two', 'run with .*number=1.* now .*number=2.*')


@pytest.mark.parametrize('name', ['own.gin', 'base.gin'])
def test_a_step_whose_gin_files_say_something_else_is_refused(options, tmp_path, name):
    own = f"include '{tmp_path}/base.gin'\n\nRATE = 3e-4\n"
    texts = {'base.gin': 'STEPS = 400\n', 'own.gin': own}
    for file, text in texts.items():
        (tmp_path / file).write_text(text)
    done = Step('one', 'train', (f'{tmp_path}/own.gin',), {}, 'one')
    stated = dict(seconds=1, gin_files=record.gin_digests(done.gin, record.ROOT))
    record.write(run_json_of(done, options.out), command=done.command(str(options.out)), **stated)
    (options.out / 'one').mkdir()
    commented = texts[name].replace('\n', '  # as long as it takes\n')
    (tmp_path / name).write_text(f'# Settings.\n\n{commented}')
    assert state_of(done, [done], options.out) == 'done'
    (tmp_path / name).write_text(f'{texts[name]}\nMORE = 1')
    check_refused([done], options, 'one', f'run before {tmp_path}/{name} changed')


def copy(source, target):
    files = sorted(pathlib.Path(source).rglob('*.txt'))
    pathlib.Path(target).write_text(''.join(file.read_text() for file in files))


@pytest.mark.parametrize('named', ['', 'a.txt'])
def test_a_step_whose_data_have_changed_since_is_refused(options, tmp_path, named):
    (tmp_path / 'set/more').mkdir(parents=True)
    (tmp_path / 'set/a.txt').write_text('a')
    (tmp_path / 'set/more/b.txt').write_text('b')
    arguments = {'source': options.file(f'set/{named}'), 'target': Output('copied')}
    copied = Function('copied', copy, arguments, 'copied')
    run([copied], options)
    (tmp_path / 'set/a.txt').write_text('a')
    assert state_of(copied, [copied], options.out) == 'done'
    (tmp_path / 'set/a.txt').write_text('another')
    check_refused([copied], options, 'copied', f'run before {tmp_path}/set/a.txt changed')
    (options.out / 'steps/copied/data.json').unlink()
    assert state_of(copied, [copied], options.out) == 'to do'


def test_a_damaged_record_is_named(options):
    run([step('one')], options)
    (options.out / 'steps/one/run.json').write_text('{"command": ')
    message = r'steps/one/run.json is damaged .*: remove it to run the step again'
    with pytest.raises(InputError, match=message):
        run([step('one')], options)


@pytest.mark.parametrize(
    'code, ends, said',
    [
        (Preempted.CODE, 75, 'step one was asked to stop'),
        (-signal.SIGTERM, 75, 'step one was asked to stop'),
        (preemption.INTERRUPTED, 130, ''),
        (1, 'error: step one failed with status 1', ''),
    ],
)
def test_a_recipe_ends_as_its_binary(options, monkeypatch, capsys, tmp_path, code, ends, said):
    monkeypatch.setattr(preemption, 'run_binary', lambda command, cwd: code)
    steps = [Step('one', 'train', (), {}, 'one'), step('two')]
    monkeypatch.setitem(catalog.RECIPES, 'g/a', Recipe('g/a', '', lambda options: steps))
    with pytest.raises(SystemExit) as raised:
        recipes_main(['run', 'g/a', '--out', str(options.out), '--data', str(tmp_path)])
    assert raised.value.code == ends and said in capsys.readouterr().err
    assert [state_of(s, steps, options.out) for s in steps] == ['to do', 'to do']


def make_of(path, reads):
    pathlib.Path(path).write_text(f'of {pathlib.Path(reads).read_text()}')


def chain(data):
    """Three steps of which each reads the one before, and the first a file of data."""
    reads = {'a': str(data), 'b': Output('a'), 'c': Output('b')}.items()
    return [Function(name, make_of, {'path': Output(name), 'reads': x}, name) for name, x in reads]


@pytest.mark.parametrize('gone', ['a', 'steps/a', 'both'])
def test_steps_whose_input_is_made_again_are_refused_all_at_once(options, tmp_path, gone):
    """Also where the input is made by the same command: what it read may have changed."""
    (tmp_path / 'data').write_text('old')
    steps = chain(tmp_path / 'data')
    out = options.out
    recipe = Recipe('g/a', '', lambda options: chain(tmp_path / 'data'))
    run(steps, options)
    assert tables.publish(recipe, options, tmp_path / 'results').exists()
    (tmp_path / 'data').write_text('new')
    if gone != 'steps/a':
        (out / 'a').unlink()
    if gone != 'a':
        shutil.rmtree(out / 'steps/a')
    remove = ' and '.join(f'{out}/steps/{name} and {out}/{name}' for name in 'bc')
    error = f'before step a changed: give another --out, or remove {remove} to run it again'
    for _ in range(2):  # before the input is made again, and after
        with pytest.raises(InputError, match=re.escape(f'step b was run {error}')):
            run(steps, options)
        run(steps[:1], options)
    message = 'step b was run before step a was run again: run it again, too'
    with pytest.raises(InputError, match=message):
        tables.publish(recipe, options, tmp_path / 'results')
    for name in 'bc':
        shutil.rmtree(out / f'steps/{name}')
        (out / name).unlink()
    run(steps, options)
    assert (out / 'c').read_text() == 'of of of new'
    assert tables.publish(recipe, options, tmp_path / 'results').exists()


def test_what_a_step_names_below_the_output_is_an_output():
    options = Options(pathlib.Path('out'), pathlib.Path('/data'))
    for recipe in catalog.RECIPES.values():
        if recipe.group == 'slot-filling':  # reads its data to tell its steps
            continue
        steps = recipe.steps(options)
        # Which only prepare reads.
        outputs = [*(step.output for step in steps), 'articles']
        for path in (path for step in steps for path in reads_of(step) if str(path) != '.'):
            assert any(path.is_relative_to(output) for output in outputs), path


def test_a_recipe_takes_the_options_that_it_has_with_the_values_that_they_may_have(options):
    build = lambda chosen: [step(f'{chosen.system}-{chosen.share}')]
    grid = Recipe('g', '', build, {'system': ('a', 'b'), 'share': (0, 50)})
    steps = lambda **chosen: grid.steps(dataclasses.replace(options, **chosen))
    names = lambda **chosen: [one.name for one in steps(**chosen)]
    assert names() == ['a-0'] and names(system='b', share=50) == ['b-50']
    for chosen, error in (
        ({'system': 'c'}, r'g has no --system c: give one of a, b'),
        ({'hops': 2}, r'g has no --hops: its options are --system a, b; --share 0, 50'),
    ):
        with pytest.raises(InputError, match=error):
            names(**chosen)


def test_unknown_recipes_and_missing_data_are_named(options):
    with pytest.raises(InputError, match='no recipe metaqa/opq; similar: metaqa/opql'):
        catalog.find('metaqa/opq')
    with pytest.raises(InputError, match='lacks metaqa/passages.jsonl, .* sets with --data'):
        catalog.build(catalog.find('metaqa/opql'), options)


# A signal to a recipe is passed on to its step, here one that sleeps.
WAITS = """
from opql_jax.core import preemption
preemption.exit_on_signals()
step = 'import time; from opql_jax.core import preemption; preemption.exit_on_signals(); '
step += 'print("ready", flush=True); time.sleep(600)'
print(preemption.run_binary(['-c', step], '.'))
"""


@pytest.mark.parametrize('number, status', [(signal.SIGTERM, 75), (signal.SIGINT, 130)])
def test_a_signal_to_a_recipe_alone_ends_its_step_with_the_status_of_both(number, status):
    environment = os.environ | {'PYTHONPATH': str(record.ROOT)}
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    command = [sys.executable, '-c', WAITS]
    with subprocess.Popen(command, **pipes, start_new_session=True) as process:
        try:
            assert process.stdout.readline() == 'ready\n'
            process.send_signal(number)
            # The end of what it prints is also that of the step.
            assert process.communicate(timeout=60)[0] == f'{status}\n'
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def test_a_dry_run_without_data_tells_the_commands_the_files_and_the_machines(tmp_path, capsys):
    (tmp_path / 'wikipedia').mkdir()
    where = ['--data', str(tmp_path), '--out', str(tmp_path / 'out')]
    recipes_main(['run', 'paper/webqsp', '--dry-run', *where])
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
