"""Any manifest, `model.json` or `run.json` is read as what was written, or refused in words that name the file.

Fields are changed to odd values, or bytes to other bytes, of a whole folder of each kind. Cases that were once found are kept as
examples.
"""

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from opql_jax.core.errors import InputError
from opql_jax.core.manifest import sealed
from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.prepared import Prepared
from opql_jax.memory import ann_build
from opql_jax.memory.ann import open_index
from opql_jax.memory.ann_build import build_index
from opql_jax.memory.format import Memory
from opql_jax.memory.update import delete
from opql_jax.recipes import recipe, record
from opql_jax.training import model_config

import ann_memories
import tiny_prepared
import tiny_training
import tiny_updates

KINDS = ['prepared', 'memory', 'index', 'model', 'kb', 'run']
MOST = 2000  # characters of a message
STEP = recipe.Step('step', 'train', (), {}, 'output')


def values(thing):
    """Arrays as lists, for `==`."""
    if isinstance(thing, (list, tuple)):
        return [values(item) for item in thing]
    return thing.tolist() if isinstance(thing, np.ndarray) else thing


def read_prepared(folder):
    """Which sets of questions it lists is believed."""
    prepared = Prepared(folder)
    prepared.check()
    return prepared.vocab.keys, prepared.passages.to_pylist(), values([*prepared.pairs.values()])


def read_memory(folder):
    memory = Memory.open(folder)
    columns = memory.topic, memory.target, memory.ids, memory.entity_rows, memory.relations()
    return values(columns), memory.provenance(memory.ids), memory.read_from([3, 4]).tolist()


def read_index(memory):
    """The settings of its search are believed, so that what is found is not compared."""
    queries = ann_memories.queries_near(memory, 3)

    def read(folder):
        scores, ids = open_index(folder, memory, ann_memories.TABLE).search(*queries, 4)
        assert scores.shape == ids.shape == (3, 4) and ids.max() < len(memory) and not np.isnan(scores).any()

    return read


def read_model(folder):
    """Fields that the shapes of the parameters do not show, such as the number of heads, are believed."""
    encoder, params, config, _ = model_config.load(folder)
    assert type(encoder).__name__ == config.encoder_class and len(params['entity_table']) == config.num_entities


def read_kb(folder):
    """Which folders it names is believed, but not that they are elsewhere."""
    for name in filter(None, KBFolder(folder).read().values()):
        assert (folder / name).resolve().parent == folder.resolve()


def read_run(folder):
    """What is recorded is believed."""
    assert recipe.state_of(STEP, [STEP], folder) == 'done' or recipe.state_of(STEP, [STEP], folder).startswith('run with ')


@pytest.fixture(scope='module')
def folders(tmp_path_factory):
    """{kind: (folder, its file that is changed, how it is read, what is read)}."""
    root = tmp_path_factory.mktemp('fuzz')
    prepared = tiny_prepared.write(root / 'prepared', longest=12)
    tiny_updates.make(root / 'memory').close()
    delete(root / 'memory', entries=[3, 5])
    tiny_training.write_untrained(prepared, root / 'model')
    indexed = ann_memories.make_memory(root / 'indexed', 2000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ann_build, 'MIN_ENTRIES', 1000)
        build_index(root / 'index', indexed, ann_memories.TABLE, recall=0.8)
    KBFolder(root / 'kb').write(text='text', model='model', memory='memory')
    run_json = recipe.run_json_of(STEP, root / 'run')
    record.write(run_json, command=STEP.command(str(root / 'run')), seconds=1.5, gin='x = 1', metrics={'dev': {'hits@1': 1.0}})
    (root / 'run' / 'output').touch()
    folders = {
        'prepared': (prepared, prepared / 'manifest.json', read_prepared),
        'memory': (root / 'memory', root / 'memory' / 'manifest.json', read_memory),
        'index': (root / 'index', root / 'index' / 'manifest.json', read_index(indexed)),
        'model': (root / 'model', root / 'model' / 'model.json', read_model),
        'kb': (root / 'kb', root / 'kb' / 'manifest.json', read_kb),
        'run': (root / 'run', run_json, read_run),
    }
    return {kind: (folder, path, read, read(folder)) for kind, (folder, path, read) in folders.items()}


def outcome(folders, kind, content):
    """'right', or 'told' if a file of this content is refused; asserts that it is one of both."""
    folder, path, read, whole = folders[kind]
    before = path.read_bytes()
    path.write_bytes(content)
    try:
        assert read(folder) == whole
        return 'right'
    except InputError as error:
        assert str(folder) in str(error) and '\n' not in str(error) and len(str(error)) < MOST, error
        return 'told'
    finally:
        path.write_bytes(before)


def edited(stated, edits):
    """JSON with some of its values changed.

    Args:
        stated: an object.
        edits: (path, change) each; a path is of keys and numbers, where a number stands for a key, too. A change is ... to
            leave a value out, `(n,)` to add n to a number, or another value.
    """
    stated = json.loads(json.dumps(stated))
    for path, change in edits:
        parent, key, value = None, None, stated
        for at in path:
            if isinstance(value, dict):
                names = sorted(value) or ['x']
                parent, key = value, at if isinstance(at, str) else names[at % len(names)]
            elif isinstance(value, list) and value:
                parent, key = value, at % len(value) if isinstance(at, int) else 0
            else:
                break
            value = parent.get(key) if isinstance(parent, dict) else parent[key]
        if isinstance(change, tuple):
            change = value + change[0] if type(value) is int else list(change)
        if parent is None:
            stated = {} if change is ... else change
        elif change is not ...:
            parent[key] = change
        elif value is not None:
            del parent[key]
    return stated


numbers = st.sampled_from(
    [0, 1, -1, 2, 100, 2**31 - 1, 2**31, 2**62, 2**63, 10**30, 0.5, -1.5, 1e308, float('inf'), float('nan')]
)
texts = st.sampled_from(
    [
        '',
        ' ',
        '.',
        '..',
        '../x',
        '/etc/passwd',
        'a/b',
        'a\\b',
        '\0',
        '\ud800',
        'x' * 3000,
        'float32',
        'manifest.json',
        '\n',
        'é',
    ]
)
leaves = st.none() | st.booleans() | numbers | texts
odd = leaves | st.lists(leaves, max_size=3) | st.dictionaries(texts, leaves, max_size=2)
paths = st.lists(st.integers(0, 20) | st.sampled_from(['x', 'files', 'encoder', 'settings', 'segments']), max_size=4)
edits = st.lists(st.tuples(paths, st.just(...) | st.tuples(st.integers(-2, 2)) | odd), min_size=1, max_size=3)


def check_edits(folders, kind, edits):
    stated = edited(json.loads(folders[kind][1].read_text()), edits)
    return outcome(folders, kind, written(kind, stated))


def written(kind, stated):
    """The file that states this; with a checksum that fits where it has one, so that the fields are what is judged."""
    if kind == 'run' or not isinstance(stated, dict):
        return json.dumps(stated).encode()
    try:
        return sealed({name: value for name, value in stated.items() if name != 'checksum'})
    except UnicodeEncodeError:  # half of a surrogate pair
        return json.dumps(stated).encode()


def check_bytes(folders, kind, at, length, inserted):
    content = folders[kind][1].read_bytes()
    at %= len(content)
    return outcome(folders, kind, content[:at] + inserted + content[at + length :])


given_edits = given(kind=st.sampled_from(KINDS), edits=edits)
given_bytes = given(
    kind=st.sampled_from(KINDS),
    at=st.integers(0, 1 << 16),
    length=st.sampled_from([0, 1, 1, 1, 5, 1 << 20]),
    inserted=st.sampled_from([b'', b'\xff', b'\0', b'"', b'[' * 100_000, b'{"a":' * 5000, b'\xef\xbb\xbf', b'9' * 5000])
    | st.binary(max_size=2),
)
quietly = {'suppress_health_check': list(HealthCheck), 'deadline': None}


@settings(max_examples=100, **quietly)
@given_edits
@example(kind='model', edits=[(['encoder', 'num_layers'], 2**31 - 1)])
@example(kind='run', edits=[(['command'], 3)])
@example(kind='run', edits=[(['seconds'], 'x')])
@example(kind='memory', edits=[(['segments', 0, 'name'], '\0')])
@example(kind='prepared', edits=[(['files', 'questions/1-hop/dev.jsonl'], ...)])
def test_changed_fields_are_read_or_refused_in_words(folders, kind, edits):
    check_edits(folders, kind, edits)


@settings(max_examples=60, **quietly)
@given_bytes
def test_changed_bytes_are_read_or_refused_in_words(folders, kind, at, length, inserted):
    check_bytes(folders, kind, at, length, inserted)


@pytest.mark.slow
@settings(max_examples=10_000, **quietly)
@given_edits
def test_changed_fields_are_read_or_refused_in_words_ten_thousand_times(folders, kind, edits):
    check_edits(folders, kind, edits)


@pytest.mark.slow
@settings(max_examples=10_000, **quietly)
@given_bytes
def test_changed_bytes_are_read_or_refused_in_words_ten_thousand_times(folders, kind, at, length, inserted):
    check_bytes(folders, kind, at, length, inserted)


@pytest.mark.parametrize('kind', KINDS)
def test_what_was_written_is_right_and_what_lacks_any_field_is_told(folders, kind):
    content = folders[kind][1].read_bytes()
    assert outcome(folders, kind, content) == 'right'
    told = [
        outcome(folders, kind, written(kind, {n: v for n, v in json.loads(content).items() if n != name})) == 'told'
        for name in json.loads(content)
    ]
    assert sum(told) >= 2
