"""Bad folders, settings and questions: each binary says what is wrong in a line, with status 1."""

import json
import re
import shutil

import pytest

from opql_jax.data.prepared import Prepared

import records
from examples import table
from forked_binaries import ENCODER, ROOT
from records import documents, question_record

GIN = {'prepare': 'data/jsonl', 'train': 'runs/entities', 'build_memory': 'runs/build_memory'}
GIN |= {'eval': 'runs/eval', 'infer': 'runs/infer'}
PROGRESS = re.compile(r'\d\d:\d\d:\d\d ')


def complaint(done) -> str:
    """The one line on stderr, apart from progress, of a command that fails for bad input."""
    assert 'Traceback' not in done.stderr, done.stderr
    lines = [line for line in done.stderr.splitlines() if not PROGRESS.match(line)]
    assert done.returncode == 1 and len(lines) == 1, done.stderr
    assert lines[0].startswith('error: ')
    return lines[0]


def least(binary):
    """A binary's flags without any of the folders it needs."""
    return [binary, f'--gin_file=gin/{GIN[binary]}.gin', *(ENCODER if binary == 'train' else [])]


@pytest.fixture
def run(binaries, world, tmp_path):
    kb = shutil.copytree(world, tmp_path / 'kb')
    asked = [question_record('q', f'who made [{Prepared(kb / "text").vocab.names[0]}]')]
    (kb / 'asked.jsonl').write_text(json.dumps(asked[0]))
    given = {
        'prepare': {'TEXT': 'new'},
        'train': {'MODEL': 'new', 'STEPS': 1, 'INIT_FROM': None},
        'build_memory': {'MODEL': 'align', 'MEMORY': 'new'},
        'eval': {'OUTPUT_DIR': kb / 'new'},
        'infer': {'QUESTIONS': kb / 'asked.jsonl', 'OUTPUT': kb / 'new/x'},
    }

    def run(binary, **settings):
        settings = {'KB': kb} | given[binary] | settings
        flags = [f'--gin.{name}={value}' for name, value in settings.items()]
        return binaries(*least(binary), *flags)

    run.kb = kb
    return run


def test_building_anew_repairs_a_truncated_memory_as_the_message_advises(run):
    def rebuilt():
        shutil.rmtree(run.kb / 'memory')
        done = run('build_memory', MEMORY='memory')
        assert done.returncode == 0, done.stderr
        return path.read_bytes()

    part = 'segment-00000/relations-00000.npy'
    path = run.kb / 'memory' / part
    whole = rebuilt()
    path.write_bytes(whole[:200])
    for done in (run('infer'), run('build_memory', MEMORY='memory')):
        line = complaint(done)
        assert f'{part}: ' in line
        assert 'restore the folder from a copy, or delete it and run build_memory again' in line
    assert rebuilt() == whole


@table("""
    binary | setting | value | said
    infer | TEXT | /none | no such file; /none is not a prepared
    infer | KB | 2024 | infer.kb is 2024, expected str; text that looks like a number is quoted
    build_memory | MEMORY | /sys/new | ed: '/sys/new'
    prepare | TEXT | /sys/new | ed: '/sys/new'
""")
def test_what_does_not_fit_together_is_named(run, tmp_path, binary, setting, value, said):
    corpus = records.write(tmp_path / 'corpus.jsonl', documents())
    more = {'CORPUS': corpus} if binary == 'prepare' else {}
    line = complaint(run(binary, **more | {setting: value}))
    assert re.search(said, line), line
    written = {path.name for path in (run.kb / 'new').rglob('*')}
    assert not written & {'manifest.json', 'metrics.json', 'x'}
    assert not list((run.kb / 'new').rglob('checkpoints/*'))


@pytest.mark.parametrize('binary', GIN)
def test_a_binary_without_its_folders_asks_for_one(binaries, binary):
    line = complaint(binaries(*least(binary)))
    missing, given = re.fullmatch(
        r'error: ([A-Z_]+) has no value: give --gin\.\1=\.\.\. \(see (.+)\)', line
    ).groups()
    assert given.split(', ')[0] == f'gin/{GIN[binary]}.gin'
    file = 'gin/train.gin' if binary == 'train' else f'gin/{GIN[binary]}.gin'
    assert f'\n{missing} = %gin.REQUIRED\n' in (ROOT / file).read_text()


@table("""
    flag | said
    --gin.TEXTS=x | error: --gin.TEXTS='x': no gin file given defines a macro named TEXTS$
    --gin.nothing.here=1 | error: .*nothing
    --dryrun | FATAL Flags parsing error: Unknown command line flag 'dryrun'. Did you mean: dry_run
""")
def test_a_misspelt_flag_or_binding_is_named(binaries, flag, said):
    done = binaries(*least('eval'), flag)
    assert done.returncode == 1 and 'Traceback' not in done.stderr
    assert re.match(said, done.stderr, re.MULTILINE), done.stderr
