"""Recipes run like make: what is done is skipped, what was interrupted is run again, what has
changed is refused.
"""

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
from opql_jax.recipes.options import Options
from opql_jax.recipes.recipe import Recipe, run, run_json_of, state_of
from opql_jax.recipes.step import Function, Output, Stage, Step, reads_of, stage, train


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


def test_a_step_that_was_run_with_another_command_is_refused_before_anything_runs(options):
    run([step('two', number=1)], options)
    message = r'step two was run with .*number=1.* now .*number=2.*: give another --out'
    with pytest.raises(InputError, match=message):
        run([step('one'), step('two', number=2)], options)
    assert not (options.out / 'one').exists()


@pytest.fixture
def gin_step(options, tmp_path):
    """A step that was done with a gin file that includes another."""
    (tmp_path / 'base.gin').write_text('STEPS = 400  # as long as it takes\n')
    (tmp_path / 'own.gin').write_text(f"include '{tmp_path}/base.gin'\n\nRATE = 3e-4\n")
    done = Step('one', 'train', (f'{tmp_path}/own.gin',), {}, 'one')
    digests = record.gin_digests(done.gin, record.ROOT)
    stated = dict(command=done.command(str(options.out)), seconds=1, gin_files=digests)
    record.write(run_json_of(done, options.out), **stated)
    (options.out / 'one').mkdir()
    return done


@pytest.mark.parametrize(
    ('name', 'text'), [('own.gin', 'RATE = 3e-5\n'), ('base.gin', 'STEPS = 500\n')]
)
def test_a_step_whose_gin_files_say_something_else_is_refused_before_anything_runs(
    options, gin_step, tmp_path, name, text
):
    (tmp_path / 'base.gin').write_text('# Settings.\n\nSTEPS = 400\n')
    assert state_of(gin_step, [gin_step], options.out) == 'done'
    included = f"include '{tmp_path}/base.gin'\n" if name == 'own.gin' else ''
    (tmp_path / name).write_text(included + text)
    out = options.out
    error = f'step one was run before {tmp_path}/{name} changed: give another --out, or remove '
    with pytest.raises(InputError, match=re.escape(f'{error}{out}/steps/one and {out}/one')):
        run([step('two'), gin_step], options)
    assert not (out / 'two').exists() and (out / 'one').exists()


def copy(source, target):
    files = sorted(pathlib.Path(source).rglob('*.txt'))
    pathlib.Path(target).write_text(''.join(file.read_text() for file in files))


@pytest.fixture(params=['', 'a.txt'])
def copy_step(options, tmp_path, request):
    """A step that read a folder of data, or a file of it."""
    data = tmp_path / 'set'
    (data / 'more').mkdir(parents=True)
    (data / 'a.txt').write_text('a')
    (data / 'more/b.txt').write_text('b')
    arguments = {'source': options.file(f'set/{request.param}'), 'target': Output('copied')}
    copied = Function('copied', copy, arguments, 'copied')
    run([copied], options)
    return copied


def test_a_step_whose_data_have_changed_since_is_refused_before_anything_runs(
    options, copy_step, tmp_path
):
    (tmp_path / 'set/a.txt').write_text('a')
    assert state_of(copy_step, [copy_step], options.out) == 'done'
    (tmp_path / 'set/a.txt').write_text('another')
    out = options.out
    error = f'step copied was run before {tmp_path}/set/a.txt changed: give another --out, or '
    with pytest.raises(InputError, match=re.escape(f'{error}remove {out}/steps/copied and')):
        run([step('one'), copy_step], options)
    assert not (out / 'one').exists()
    (out / 'steps/copied/data.json').unlink()
    assert state_of(copy_step, [copy_step], out) == 'to do'


def test_a_dry_run_prints_commands_and_writes_nothing(options, capsys):
    binary = Step('e', 'train', ('a.gin',), {'KB': Output(), 'HELD_OUT': ('P1',)}, 'e')
    run([step('one'), binary], options, dry_run=True)
    assert not options.out.exists()
    command = f'python -m opql_jax.train --gin_file=a.gin --gin.KB={options.out} '
    assert command + "'--gin.HELD_OUT=('\"'\"'P1'\"'\"',)'" in capsys.readouterr().out


def test_a_damaged_record_is_named(options):
    run([step('one')], options)
    (options.out / 'steps/one/run.json').write_text('{"command": ')
    message = r'steps/one/run.json is damaged .*: remove it to run the step again'
    with pytest.raises(InputError, match=message):
        run([step('one')], options)


@pytest.mark.parametrize(
    'code, error',
    [(Preempted.CODE, Preempted), (-signal.SIGTERM, Preempted)]
    + [(preemption.INTERRUPTED, SystemExit), (1, InputError)],
)
def test_how_a_binary_ends_is_how_its_step_ends(options, monkeypatch, code, error):
    monkeypatch.setattr(preemption, 'run_binary', lambda command, cwd: code)
    steps = [Step('one', 'train', (), {}, 'one'), step('two')]
    with pytest.raises(error) as raised:
        run(steps, options)
    if error is SystemExit:
        assert raised.value.code == 130
    else:
        assert getattr(raised.value, 'message', str(raised.value)).startswith('step one ')
    assert [state_of(s, steps, options.out) for s in steps] == ['to do', 'to do']


def test_a_folder_that_cannot_be_written_is_told_in_one_line(options, capsys, monkeypatch):
    options.out.write_text('a file')
    monkeypatch.setitem(catalog.RECIPES, 'g/a', Recipe('g/a', '', lambda options: [step('one')]))
    with pytest.raises(SystemExit, match=f'^error: .*{options.out}'):
        recipes_main(['run', 'g/a', '--out', str(options.out), '--data', str(options.data)])


def make_of(path, reads):
    """Makes a file of what another one says."""
    pathlib.Path(path).write_text(f'of {pathlib.Path(reads).read_text()}')


def chain(data):
    """Three steps of which each reads the one before, and the first a file of data."""
    reads = {'a': str(data), 'b': Output('a'), 'c': Output('b')}.items()
    return [
        Function(name, make_of, {'path': Output(name), 'reads': of}, name) for name, of in reads
    ]


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


def test_an_interrupted_step_does_not_go_on_from_another_input(options, tmp_path):
    (tmp_path / 'data').write_text('old')
    steps, out = chain(tmp_path / 'data')[:2], options.out
    run(steps, options)
    (out / 'steps/b/run.json').unlink()  # as if it had been killed
    run(steps, options)
    (out / 'steps/b/run.json').unlink()
    (tmp_path / 'data').write_text('new')
    shutil.rmtree(out / 'steps/a')
    run(steps[:1], options)
    message = f'step b was run before step a changed: .*, or remove {out}/steps/b and'
    with pytest.raises(InputError, match=message):
        run(steps, options)
    (out / 'steps/b/inputs.json').write_text('{')
    message = f'inputs.json is damaged .*: remove {out}/steps/b to run the step again'
    with pytest.raises(InputError, match=message):
        run(steps, options)


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


def test_percent_scales_the_steps_of_the_gin_file_but_leaves_enough_to_learn_something(options):
    own, default = stage('tiny', 'align', 700, 1e-3), Stage(('gin/runs/align.gin',))
    for percent, steps, by_default in ((100, 700, None), (50, 350, 1000), (0, 2, 2)):
        chosen = Options(options.out, options.data, percent=percent)
        assert train('align', own, chosen).bindings['STEPS'] == steps
        assert train('align', default, chosen).bindings.get('STEPS') == by_default


def test_a_recipe_takes_the_options_that_it_has_with_the_values_that_they_may_have(options):
    build = lambda chosen: [step(f'{chosen.system}-{chosen.share}')]
    grid = Recipe('g', '', build, {'system': ('a', 'b'), 'share': (0, 50)})
    steps = lambda **chosen: grid.steps(dataclasses.replace(options, **chosen))
    names = lambda **chosen: [one.name for one in steps(**chosen)]
    assert names() == ['a-0'] and names(system='b', share=50) == ['b-50']
    for chosen, error in (
        ({'system': 'c'}, r'g has no --system c: give one of a, b'),
        ({'share': 1}, r'g has no --share 1: give one of 0, 50'),
        ({'hops': 2}, r'g has no --hops: its options are --system a, b; --share 0, 50'),
    ):
        with pytest.raises(InputError, match=error):
            names(**chosen)
    with pytest.raises(InputError, match='demo has no --hops: it has no such options'):
        catalog.find('demo').steps(dataclasses.replace(options, hops=2))


def test_a_number_that_cannot_be_is_told(tmp_path):
    for bad in f'percent=nan percent=inf percent=-5 seed=-1 world-seed={"9" * 20}'.split():
        message = f'^error: {bad.replace("world-", "world_")}.*: give a number of 0 to '
        with pytest.raises(SystemExit, match=message):
            recipes_main(['run', 'demo', '--dry-run', '--out', str(tmp_path), f'--{bad}'])


def test_unknown_recipes_and_missing_data_are_named(options):
    with pytest.raises(InputError, match='no recipe metaqa/opq; similar: metaqa/opql'):
        catalog.find('metaqa/opq')
    with pytest.raises(InputError, match='lacks metaqa/passages.jsonl, .* sets with --data'):
        catalog.build(catalog.find('metaqa/opql'), options)
    (options.data / 'redocred').mkdir(parents=True)
    (options.data / 'redocred/documents.json').touch()
    with pytest.raises(InputError, match='lacks redocred/rel_info.json, which slot-filling reads'):
        catalog.build(catalog.find('slot-filling'), options)


def test_docs_tell_of_each_data_set():
    docs = (record.ROOT / 'docs/how-to/experiments.md').read_text(encoding='utf-8')
    read = {
        catalog.data_set(file)
        for recipe in catalog.RECIPES.values()
        for file in catalog.data_files_of(recipe)
    }
    assert read == catalog.SOURCES.keys() and all(f'`{name}' in docs for name in read)


# A signal is passed on to the step.

# A recipe of a binary and a function. At `sys.argv[2]` it gets the signal `sys.argv[1]`; in the
# file `sys.argv[3]` it keeps the number of the process of its step.
SIGNALLED = """
import os, pathlib, subprocess, sys, types
from opql_jax.core import preemption
if __name__ == '__main__':
    preemption.exit_on_signals()
    from opql_jax.recipes import __main__, catalog
    from opql_jax.recipes.recipe import Recipe
    from opql_jax.recipes.step import Function, Output, prepare
    (number, moment, child), sys.argv[1:] = sys.argv[1:4], sys.argv[4:]
    kill = lambda: os.kill(os.getpid(), int(number))

    class Popen(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            pathlib.Path(child).write_text(str(self.pid))
            if moment == 'started':
                kill()

        def wait(self, *arguments):
            status = super().wait(*arguments)
            if moment == 'ended':
                kill()
                while preemption._status_of_passed == 0:
                    pass
            return status

    preemption.subprocess = types.SimpleNamespace(Popen=Popen)
    last = Function('last', pathlib.Path.touch, {'self': Output('last')}, 'last')
    settings = {'DOCUMENTS': 60, 'prepare.prepare.wordpieces': 300}
    catalog.RECIPES['two'] = Recipe('two', '', lambda options: [prepare('text', 'gin/data/synthetic.gin', **settings), last])
    __main__.main()
"""  # noqa: E501


def signalled(tmp_path, number, moment):
    (tmp_path / 'recipe.py').write_text(SIGNALLED)
    child = tmp_path / 'child'
    command = [tmp_path / 'recipe.py', str(int(number)), moment, child]
    command += ['run', 'two', '--out', tmp_path / 'out']
    environment = os.environ | {'JAX_PLATFORMS': 'cpu', 'PYTHONPATH': str(record.ROOT)}
    options = dict(capture_output=True, text=True, timeout=120, env=environment, cwd=tmp_path)
    done = subprocess.run([sys.executable, *map(str, command)], **options)
    return done, int(child.read_text()) if child.exists() else None


def is_running(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ('number', 'moment', 'status', 'words'),
    [
        (signal.SIGTERM, 'started', 75, 'asked to stop: run the same command again'),
        (signal.SIGINT, 'ended', 130, 'interrupted'),
    ],
    ids=['SIGTERM', 'SIGINT'],
)
def test_a_signal_to_the_recipe_alone_ends_its_step_and_then_the_recipe(
    tmp_path, number, moment, status, words
):
    done, child = signalled(tmp_path, number, moment)
    assert done.returncode == status and 'Traceback' not in done.stderr, done.stderr
    assert words in done.stderr or moment == 'ended'
    assert not is_running(child) and not (tmp_path / 'out' / 'last').exists()
    assert (tmp_path / 'out' / 'text' / 'manifest.json').exists() == (moment == 'ended')
    again, _ = signalled(tmp_path, number, 'never')
    assert again.returncode == 0 and (tmp_path / 'out' / 'last').exists(), again.stderr
    assert ('text: done before' in again.stderr) == (moment == 'ended')
