"""Bad folders, settings and questions: each binary says what is wrong in a line, with status 1."""

import json
import re
import shutil

import pytest

from opql_jax.data import markup
from opql_jax.data.prepared import Prepared
from opql_jax.training.objectives import Follow

import records
import tiny_training
from documents_of import documents
from examples import table
from forked_binaries import ENCODER, ROOT
from question_records import question_record

GIN = {
    'prepare': 'data/jsonl',
    'train': 'runs/relations',
    'build_memory': 'runs/build_memory',
    'eval': 'runs/eval',
    'infer': 'runs/infer',
}


PROGRESS = re.compile(r'\d\d:\d\d:\d\d ')


def complaint(done) -> str:
    """The one line on stderr, apart from progress, of a command that fails for bad input."""
    assert 'Traceback' not in done.stderr, done.stderr
    lines = [line for line in done.stderr.splitlines() if not PROGRESS.match(line)]
    assert done.returncode == 1 and len(lines) == 1, done.stderr
    assert lines[0].startswith('error: ')
    return lines[0]


def cases(**rows):
    """Parametrises a test by (what makes the command, a pattern for its complaint), with ids."""
    params = [pytest.param(*row, id=name.replace('_', ' ')) for name, row in rows.items()]
    return pytest.mark.parametrize('command, said', params)


def parts(**names):
    return [f'--gin.{part.upper()}={name}' for part, name in names.items()]


class World:
    """A prepared world with untrained models and memories, and commands that use them."""

    def __init__(self, root, binaries):
        self.root, self.binaries = root, binaries
        self.text, self.model, self.memory = root / 'text', root / 'model', root / 'memory'
        self.follow, self.new = root / 'follow', root / 'new'
        self.succeed(*self.prepare('text'))
        tiny_training.write_untrained(self.text, self.model)
        self.succeed(*self.build(model=self.model, memory=self.memory))
        tiny_training.write_untrained(self.text, self.follow, Follow(memory_dir=str(self.memory)))
        self.topic = Prepared(self.text).vocab.names[0]

    def succeed(self, *command):
        done = self.binaries(*command)
        assert done.returncode == 0, done.stderr

    def prepare(self, text):
        flags = ['--gin.DOCUMENTS=60', '--gin.prepare.prepare.wordpieces=300']
        files = ['--gin_file=gin/data/synthetic.gin']
        return ['prepare', *files, *flags, *parts(kb=self.root, text=text)]

    def small(self, max_tokens=128):
        """A prepared folder in which no pair is mentioned twice, with one page of 150 words."""
        first, *others = documents()
        folder = self.root / f'small{max_tokens}'
        lines = [{**first, 'text': first['text'] + ' and' * 150}, *others]
        path = records.write(self.root / 'small.jsonl', lines)
        flags = ['--gin_file=gin/data/jsonl.gin', f'--gin.prepare.prepare.max_tokens={max_tokens}']
        flags += parts(kb=self.root, text=folder.name, corpus=path)
        self.succeed('prepare', *flags)
        return folder

    def train(self, stage, *flags, text=None, model=None, encoder=ENCODER):
        paths = parts(kb=self.root, text=text or 'text', model=model or 'new', init_from='None')
        files = [*encoder, f'--gin_file=gin/runs/{stage}.gin']
        return ['train', *files, '--gin.STEPS=1', *paths, *flags]

    def build(self, *flags, text=None, model=None, memory=None):
        made = {'text': text, 'model': model or 'model', 'memory': memory or 'new'}
        return self.open('build_memory', *flags, **made)

    def open(self, binary, *flags, text=None, model=None, memory=None):
        named = {'text': text or 'text', 'model': model or 'follow', 'memory': memory or 'memory'}
        paths = parts(kb=self.root, **named)
        return [binary, f'--gin_file=gin/runs/{binary}.gin', *paths, *flags]

    def infer(self, *questions, flags=(), **paths):
        """Answers a file of these questions; one that has no brackets is a whole line."""
        lines = [
            json.dumps(question_record(f'q{i}', question.format(self.topic)))
            if '[' in question
            else question
            for i, question in enumerate(questions or ['who made [{}]'], 1)
        ]
        (self.root / 'mine.jsonl').write_text('\n'.join(lines))
        files = f'--gin.QUESTIONS={self.root}/mine.jsonl', f'--gin.OUTPUT={self.new}/x'
        return self.open('infer', *files, *flags, **paths)

    def eval(self, *flags):
        return self.open('eval', f'--gin.OUTPUT_DIR={self.new}', *flags)


@pytest.fixture(scope='module')
def opened(tmp_path_factory, binaries):
    return World(tmp_path_factory.mktemp('world'), binaries)


@pytest.fixture
def world(opened):
    """The world; what a command makes is in `world.new`."""
    yield opened
    shutil.rmtree(opened.new, ignore_errors=True)


# Damaged folders, and those that cannot be written.


def test_building_anew_repairs_a_truncated_memory_as_the_message_advises(world, tmp_path):
    part = 'segment-00000/relations-00000.npy'
    memory = shutil.copytree(world.memory, tmp_path / 'memory')
    (memory / part).write_bytes((memory / part).read_bytes()[:200])
    for command in (world.infer(memory=memory), world.build(memory=memory)):
        line = complaint(world.binaries(*command))
        assert f'{part}: ' in line
        assert 'restore the folder from a copy, or delete it and run build_memory again' in line
    shutil.rmtree(memory)
    world.succeed(*world.build(memory=memory))
    assert (memory / part).read_bytes() == (world.memory / part).read_bytes()


@pytest.mark.parametrize('binary', ['prepare', 'build_memory'])
def test_a_folder_that_cannot_be_written_is_named(world, binary):
    """Of full disks and broken ones see crash_test.py."""
    folder = '/sys/new'
    command = world.prepare(folder) if binary == 'prepare' else world.build(memory=folder)
    said = complaint(world.binaries(*command))
    assert folder in said and re.search('not permitted|denied', said)


# What does not fit together, and some of what library functions refuse, as the tests of each say.


@cases(
    no_prepared_folder=(lambda w: w.infer(text='/none'), 'no such file; /none is not a prepared'),
    folders_that_are_swapped=(
        lambda w: w.infer(text=w.memory, memory=w.text),
        'memory/manifest.json: not the manifest of',
    ),
    no_such_split=(lambda w: w.eval("--gin.QUESTIONS=('9-hop/dev',)"), "no questions '9-hop/dev'"),
    nothing_to_evaluate=(lambda w: w.eval(), 'QUESTIONS has no value: give --gin.QUESTIONS='),
    no_pair_twice=(
        lambda w: w.train(
            'relations', '--gin.objectives.Relations.entity_weight=0.0', text=w.small()
        ),
        'no two passages mention the same pair .* with entity_weight=0 nothing is learnt',
    ),
    no_model_file=(lambda w: w.train('entities', encoder=[]), 'no gin file given defines ENCODER'),
    no_number=(
        lambda w: w.train('entities', '--gin.STEPS=many'),
        "num_steps is 'many', expected int",
    ),
    # Questions.
    no_entries=(
        lambda w: w.infer(flags=['--gin.question_sets.infer.k=0']),
        'k=0: give a number of entries of at least 1',
    ),
    a_knowledge_base_named_by_a_number=(
        lambda w: w.infer(flags=['--gin.KB=2024']),
        'infer.kb is 2024, expected str; text that looks like a number is quoted twice: --gin',
    ),
)
def test_what_does_not_fit_together_is_named(world, command, said):
    line = complaint(world.binaries(*command(world)))
    assert re.search(said, line), line
    written = {path.name for path in world.new.rglob('*')}
    assert not written & {'manifest.json', 'metrics.json', 'x'}
    assert not list(world.new.rglob('checkpoints/*'))


def test_the_longest_passages_that_prepare_allows_can_be_trained_on(world):
    prepared = world.small(max_tokens=136)
    longest = max(len(record.tokens) for record in Prepared(prepared).records)
    assert longest == 136 - markup.MARKUP_ROOM
    world.succeed(*world.train('entities', text=prepared))


# Flags.


def least(binary):
    """A binary's flags without any of the folders it needs."""
    return [binary, f'--gin_file=gin/{GIN[binary]}.gin', *(ENCODER if binary == 'train' else [])]


@pytest.mark.parametrize('binary', GIN)
def test_a_binary_without_its_folders_asks_for_one(world, binary):
    line = complaint(world.binaries(*least(binary)))
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
    --gin_file=gin/none.gin | error: Unable to open file: gin/none.gin
    --gin.CORPUS | error: --gin.CORPUS: write --gin.NAME=VALUE$
""")
def test_a_misspelt_flag_or_binding_is_named(world, flag, said):
    done = world.binaries(*least('eval'), flag)
    assert done.returncode == 1 and 'Traceback' not in done.stderr
    assert re.match(said, done.stderr, re.MULTILINE), done.stderr
