"""What the launch scripts call, told by a stand-in for the environment's interpreter, and what they say of bad arguments."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from opql_jax.recipes import results

import tiny_docred
import tiny_metaqa
from forked_binaries import ROOT, Binaries


@pytest.fixture(scope='module')
def metaqa_folder(tmp_path_factory):
    return tiny_metaqa.write(tmp_path_factory.mktemp('metaqa'))


STAND_IN = """#!{python}
# In place of the environment's interpreter: notes each binary and its flags, and makes what tells that it ended.
import json, os, pathlib, sys
flags = dict(flag.removeprefix('--').removeprefix('gin.').partition('=')[::2] for flag in sys.argv[3:])
if sys.argv[1] != '-m' or not sys.argv[2].startswith('opql_jax.'):
    sys.exit()
here = pathlib.Path(__file__).parent
with open(here / 'log', 'a') as log:
    log.write(json.dumps([sys.argv[2].removeprefix('opql_jax.'), sys.argv[3:]]) + '\\n')
made = {{
    'train': lambda: pathlib.Path(flags['WORKDIR'], 'checkpoints', flags['STEPS'], 'whole'),
    'build_memory': lambda: pathlib.Path(flags['MEMORY_DIR'], 'manifest.json'),
    'eval': lambda: pathlib.Path(flags['OUTPUT_DIR'], 'metrics.json'),
    'fewshot': lambda: pathlib.Path(flags['OUTPUT_DIR'], 'metrics.json'),
    'prepare': lambda: pathlib.Path(flags['PREPARED_DIR'], 'manifest.json'),
    'convert_questions': lambda: pathlib.Path(flags['OUTPUT']),
    'update_memory': lambda: pathlib.Path(flags['MEMORY_DIR'], 'manifest.json'),
}}[sys.argv[2].removeprefix('opql_jax.')]()
if str(made.parent).endswith(os.environ.get('KILLED_AT', 'nowhere')):
    sys.exit(137)
made.parent.mkdir(parents=True, exist_ok=True)
made.touch()
"""


@pytest.fixture
def checkout(tmp_path):
    """A copy of the scripts whose interpreter is STAND_IN; call it to run rows: (exit status, output, [[binary, flags]])."""
    root = tmp_path / 'checkout'
    shutil.copytree(ROOT / 'launch', root / 'launch')
    for name in ('setup.py', 'requirements-lock.txt'):
        shutil.copy(ROOT / name, root)
    python = root / '.venv' / 'bin' / 'python'
    python.parent.mkdir(parents=True)
    python.write_text(STAND_IN.format(python=sys.executable))
    python.chmod(0o755)

    def call(*arguments, script='reproduce.sh', **environment):
        log = python.parent / 'log'
        log.unlink(missing_ok=True)
        done = subprocess.run(
            ['bash', root / 'launch' / script, *arguments],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        commands = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        return done.returncode, done.stdout, commands

    return call


def made_by(commands):
    """The last names of what the commands write, in order."""
    names = ('WORKDIR', 'MEMORY_DIR', 'OUTPUT_DIR', 'PREPARED_DIR')
    writes = dict(train='WORKDIR', build_memory='MEMORY_DIR', eval='OUTPUT_DIR', fewshot='OUTPUT_DIR', prepare='PREPARED_DIR')
    flags = [dict(flag.removeprefix('--gin.').split('=', 1) for flag in flags) for _, flags in commands]
    assert all(set(given) & set(names) for given in flags)
    return [given[writes[binary]].split('/out/')[1] for (binary, _), given in zip(commands, flags)]


# Which step of an ablation is different, and how.
BINDINGS = {
    'follow/no-filter': '--gin.stages.FollowStage.filter=False',
    'follow/one-wt': '--gin.stages.FollowStage.shared_hops=True',
    'memory-mean': '--gin.build_memory.build_memory.mentions=average',
    'pretrained-no-hard-negatives': '--gin.stages.RelationStage.sampler=random',
    'pretrained-no-el': '--gin.stages.RelationStage.entity_weight=0.0',
    'pretrained-paper-groups': '--gin.stages.RelationStage.sampler=groups',
}


def test_all_rows_share_their_steps_and_each_command_is_configured(checkout, tmp_path, metaqa_folder):
    _, listed, _ = checkout('--list')
    *rows, slot_filling, novel_relations = listed.split()
    assert (slot_filling, novel_relations) == ('slot-filling', 'novel-relations')
    assert rows[:2] == ['opql', 'opql-pretrained'] and set(results.ABLATIONS) < set(rows) and len(set(rows)) == len(rows)
    where = ['--data', str(metaqa_folder), '--out', str(tmp_path / 'out')]
    status, output, commands = checkout(*rows, *where)
    assert status == 0, output
    made = made_by(commands)
    assert len(set(made)) == len(made)
    assert made[:7] == ['prepared', 'entities', 'pretrained', 'aligned', 'memory', 'follow/opql', 'results/opql']
    assert made[7:10] == ['memory-pretrained', 'follow/opql-pretrained', 'results/opql-pretrained']
    assert {name.removeprefix('results/') for name in made if name.startswith('results/')} == {
        *rows,
        'probe-mean',
        'probe-mean-masked',
        'probe-masked',
    }
    flags = dict(zip(made, (' '.join(flags) for _, flags in commands)))
    for where, binding in BINDINGS.items():
        assert [name for name, given in flags.items() if binding in given.split()] == [where]
    words = [name for name, given in flags.items() if 'gin/models/bag_of_words.gin' in given]
    assert words == ['entities-kv-memory', 'aligned-kv-memory', 'follow/kv-memory']
    assert 'gin/runs/align_mentions.gin' in flags['aligned-drkit']
    marked = [name for name, given in flags.items() if 'gin/runs/align.gin' in given]
    assert marked == ['aligned-marked-pairs', 'aligned-kv-memory']
    for row in ('drkit', 'fae-kb'):
        on = [name for name in flags if f'--gin.PREPARED_DIR={tmp_path}/out/prepared-{row} ' in flags[name] + ' ']
        assert on == [f'prepared-{row}', f'aligned-{row}', f'memory-{row}', f'follow/{row}', f'results/{row}']
    assert [name for name in flags if 'kb.txt' in flags[name]] == ['prepared-drkit', 'prepared-fae-kb']
    seeds = [flags[f'follow/{row}'].split('--gin.SEED=')[-1] for row in ('opql', 'opql-seed1', 'opql-seed2')]
    assert [seed.split()[0] for seed in seeds] == ['0', '1', '2']

    with Binaries() as binaries:
        for (binary, given), name in zip(commands, made):
            if name not in (*made[:7], *BINDINGS):
                continue
            done = binaries(binary, *given, '--dry_run')
            # What is missing is the folders that earlier steps would have made, not a name or a value in the configuration.
            assert done.returncode == 0 or re.match(rf'error: {re.escape(str(tmp_path))}\S+ ', done.stderr), (name, done.stderr)


def test_rows_of_slot_filling_compare_systems_of_one_size_and_budget(checkout, tmp_path, metaqa_folder):
    tiny_docred.write(metaqa_folder.parent / 'redocred', tiny_docred.world(2))
    where = ['--data', str(metaqa_folder), '--out', str(tmp_path / 'out')]
    status, output, commands = checkout('slot-filling', 'novel-relations', *where)
    assert status == 0, output
    made = [name.removeprefix('slot_filling/') for name in made_by(commands)]
    systems = {'opql', 'opql-pretrained', 'drkit'}
    percents = {f'novel-relations/{system}/{percent}' for system in systems for percent in (10, 25, 50, 75)}
    assert {name.removeprefix('results/') for name in made if 'results/' in name} == percents | systems | {'kv-memory'}
    flags = dict(zip(made, (' '.join(flags) for _, flags in commands)))
    values = lambda name, key: re.findall(rf'--gin.{key}=(\S+)', flags[name])
    for key in ('STEPS', 'LEARNING_RATE', 'PAIRS'):
        assert len({tuple(values(name, key)) for name in ('opql', 'drkit', 'drkit-without50')}) == 1
    assert len({tuple(values(f'follow/{name}', 'STEPS')) for name in systems}) == 1
    assert 'align_mentions.gin' in flags['drkit'] and 'bag_of_words.gin' in flags['follow/kv-memory']


def test_open_questions_over_wikispeedia_ask_a_memory_before_and_after_an_injection(checkout, tmp_path):
    (tmp_path / 'openqa').mkdir()
    lines = [json.dumps({'id': i}) for i in range(10)]
    (tmp_path / 'openqa/webqsp_train.jsonl').write_text('\n'.join(lines) + '\n')
    out = tmp_path / 'out'
    where = ['--data', str(tmp_path), f'--out={out}']
    status, output, commands = checkout('webqsp', 'opql-lm', 'eae', *where, script='open_questions.sh')
    assert status == 0, output
    parts = {name: (out / f'parts/{name}.jsonl').read_text().splitlines() for name in ('train', 'dev')}
    assert parts == {'train': lines[:4] + lines[5:9], 'dev': [lines[4], lines[9]]}
    flags = lambda of: [
        dict(flag.removeprefix('--gin.').split('=', 1) for flag in given) for binary, given in commands if binary == of
    ]
    assert [given['QUESTIONS'] for given in flags('update_memory')] == [f"('{out}/questions/dev.jsonl',)"]
    asked = [(given['OUTPUT_DIR'], given['MEMORY_DIR']) for given in flags('eval')]
    assert asked == [
        (f'{out}/results/opql-lm/memory', f'{out}/memory'),
        (f'{out}/results/opql-lm/memory-injected', f'{out}/memory-injected'),
        (f'{out}/results/eae/memory', ''),
    ]
    memories = {given['WORKDIR'].removeprefix(f'{out}/'): given.get('MEMORY_DIR') for given in flags('train')}
    assert memories['opql-lm'] == memories['opql-lm-pretrained'] == f'{out}/memory' and memories['eae'] == ''
    # The memory is aligned with the questions that are trained on, not those that are asked.
    (aligned,) = (given for given in flags('train') if given['WORKDIR'] == f'{out}/aligned')
    assert aligned['passage_stages.PassageAlignStage.split'] == f'{out}/questions/train.jsonl'
    assert {given['MODEL_DIR'] for given in (*flags('build_memory'), *flags('update_memory'))} == {f'{out}/aligned'}
    with Binaries() as binaries:
        for binary, given in commands:
            done = binaries(binary, *given, '--dry_run')
            assert done.returncode == 0 or re.match(rf'error: {re.escape(str(tmp_path))}\S+', done.stderr), (given, done.stderr)
    for arguments, said in (
        ((), 'name a data set'),
        (('webqsp', 'opq'), 'unknown argument opq'),
        (('metaqa', '--data=/no'), 'no folder /no'),
        (('webqsp', 'fae'), 'fae: there is no knowledge base'),
    ):
        status, output, commands = checkout(*arguments, script='open_questions.sh')
        assert status == 1 and said in output and not commands


def test_fae_is_asked_over_triples_and_the_others_over_text(checkout, tmp_path, metaqa_folder):
    (tmp_path / 'metaqa').symlink_to(metaqa_folder)
    out, rows = tmp_path / 'out', tmp_path / 'rows'
    where = ['--data', str(tmp_path), '--out', str(out), '--rows', str(rows)]
    status, output, commands = checkout('metaqa', 'fae', 'opql-lm', *where, script='open_questions.sh')
    assert status == 0, output
    for system, row, of in (('opql-lm', 'opql', ''), ('fae', 'fae-kb', '-fae-kb')):
        given = {f'PREPARED_DIR={rows}/prepared{of}', f'MEMORY_DIR={rows}/memory{of}'}
        trained = {
            'WORKDIR': [f'{out}/names{of}', f'{out}/{system}'],
            'INIT_FROM': [f'{rows}/follow/{row}', f'{out}/names{of}'],
        }
        for i in range(2):
            wanted = (
                given
                | {f'{key}={values[i]}' for key, values in trained.items()}
                | {f'QUESTIONS={out}/questions/2-hop-train{of}.jsonl'}
            )
            assert sum(binary == 'train' and wanted <= plain(flags) for binary, flags in commands) == 1, wanted
        wanted = given | {f"QUESTIONS=('{out}/questions/2-hop-dev{of}.jsonl', )", f'OUTPUT_DIR={out}/results/{system}/all'}
        assert sum(binary == 'eval' and wanted <= plain(flags) for binary, flags in commands) == 1, wanted


def plain(flags):
    return {flag.removeprefix('--gin.') for flag in flags}


def test_a_killed_row_goes_on_where_it_was_stopped(checkout, tmp_path, metaqa_folder):
    where = ['opql', '--data', str(metaqa_folder), '--out', str(tmp_path / 'out')]
    status, output, commands = checkout(*where, KILLED_AT='/memory')
    assert status == 137 and 'is done' not in output
    assert made_by(commands) == ['prepared', 'entities', 'pretrained', 'aligned', 'memory']
    status, output, commands = checkout(*where)
    assert status == 0 and made_by(commands) == ['prepared', 'memory', 'follow/opql', 'results/opql']
    status, output, commands = checkout(*where)
    assert status == 0 and output == f'[opql_jax] opql is done: {tmp_path}/out/results/opql\n' and not commands
    times = [line.split('\t') for line in (tmp_path / 'out' / 'seconds.tsv').read_text().splitlines()]
    assert [name for name, _ in times].count('memory') == 1 and all(seconds.isdigit() for _, seconds in times)


def test_a_folder_has_one_setting(checkout, tmp_path, metaqa_folder):
    where = ['--data', str(metaqa_folder), '--out', str(tmp_path / 'out')]
    assert checkout('opql', *where, PERCENT='10')[0] == 0
    for other in ({'PERCENT': '20'}, {'PERCENT': '10', 'SEED': '1'}):
        status, output, commands = checkout('no-filter', *where, **other)
        assert status == 1 and 'was made with SEED=0 PERCENT=10' in output and not commands
    status, _, commands = checkout('no-filter', *where, PERCENT='10')
    assert status == 0 and made_by(commands) == ['prepared', 'follow/no-filter', 'results/no-filter']
    assert '--gin.STEPS=600' in commands[1][1]


def test_reproduce_names_what_it_lacks(checkout, tmp_path):
    for arguments, complaint in {
        ('opql', '--data', str(tmp_path)): 'has no passages.jsonl',
        ('opql', '--data=/nowhere'): 'no folder /nowhere',
        ('opql', '--data'): '--data needs a folder',
        ('opq',): 'no row opq; ',
        (): 'name at least one row',
        ('opql', '--seed=1'): 'unknown argument --seed=1',
    }.items():
        status, output, commands = checkout(f'--out={tmp_path / "out"}', *arguments)
        assert status == 1 and complaint in output and not commands, arguments
    assert not (tmp_path / 'out').exists()


def test_slot_filling_names_what_is_not_there(tmp_path):
    for flags in (
        ['--documents', str(tmp_path / 'no.json')],
        [f'--documents={tiny_docred.write(tmp_path, [])}', '--test=no.json'],
    ):
        done = subprocess.run(['bash', ROOT / 'launch' / 'slot_filling.sh', *flags], capture_output=True, text=True)
        assert done.returncode == 1 and 'no.json; name the documents with --documents' in done.stderr
