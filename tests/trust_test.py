"""The claims of docs/explanation/trust.md: no code from data, no network, no reading elsewhere."""

import ast
import base64
import hashlib
import json
import pathlib
import shutil

import jax.numpy as jnp
import numpy as np
import pytest
import tensorstore

import opql_jax
from opql_jax.data.tokenizer import TokenizerError, load_tokenizer
from opql_jax.training.checkpoints import CheckpointError, Checkpoints

from examples import table

PACKAGE = pathlib.Path(opql_jax.__file__).parent
SOURCES = sorted([*PACKAGE.rglob('*.py'), *(PACKAGE.parent / 'tasks').rglob('*.py')])

CALLS = {'eval', 'exec', 'compile', '__import__', 'system', 'popen', 'import_module'}


def calls(tree):
    """(last name, keywords) of every call, but `np.load` whole; methods `compile` are left out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = node.func
            if isinstance(function, ast.Name):
                yield function.id, node.keywords
            elif (
                isinstance(function, ast.Attribute) and function.attr != 'compile'
            ):  # of regular expressions and jitted functions
                whole = ast.unparse(function)
                yield whole if whole in ('np.load', 'numpy.load') else function.attr, node.keywords


def unsafe(text):
    """What in a source could run code that it reads, or a shell; imports: see layers_test."""
    found = []
    for name, keywords in calls(ast.parse(text)):
        given = {keyword.arg: getattr(keyword.value, 'value', None) for keyword in keywords}
        pickles = given.get('allow_pickle', name.endswith('.load')) is not False
        if name in CALLS or given.get('shell') or pickles:
            found.append(name)
    return found


def test_no_source_runs_what_it_reads():
    for source in SOURCES:
        assert unsafe(source.read_text(encoding='utf-8')) == [], source


UNSAFE = ['eval(x)', 'os.system(x)', 'np.load(x)', 'subprocess.run(x, shell=True)']
UNSAFE += ['np.load(x, allow_pickle=True)', 'importlib.import_module(x)']


@pytest.mark.parametrize('text', UNSAFE)
def test_unsafe_sources_are_seen(text):
    assert unsafe(text)


@pytest.fixture
def run(tmp_path):
    with Checkpoints(tmp_path / 'run') as checkpoints:
        checkpoints.save(1, {'layer': {'w': jnp.zeros((2, 3))}}, {'m': jnp.zeros(3)}, {'step': 1})
    return tmp_path / 'run'


def rename_parameter(run, name, *, ocdbt, value_type='jax.Array'):
    """Renames a checkpoint's only parameter for Orbax, with the hash of another array."""
    params = run / 'checkpoints' / '1' / 'params'
    metadata = json.loads((params / '_METADATA').read_text())
    (entry,) = metadata['tree_metadata'].values()
    entry['key_metadata'] = [{'key': name, 'key_type': 2}]
    entry['value_metadata']['value_type'] = value_type
    metadata |= {'tree_metadata': {str((name,)): entry}, 'use_ocdbt': ocdbt}
    (params / '_METADATA').write_text(json.dumps(metadata))
    (sharding,) = json.loads((params / '_sharding').read_text()).values()
    encoded = base64.b64encode(name.encode()).decode()
    (params / '_sharding').write_text(json.dumps({encoded: sharding}))
    shutil.rmtree(params / 'array_metadatas')
    digest = hashlib.sha256(np.full((2, 3), 7, np.float32).tobytes()).hexdigest()
    file = run / 'checkpoints' / '1' / 'digests' / '0.json'
    others = [row for row in json.loads(file.read_text()) if row[0] != 'params']
    row = ['params', name, 'float32', [2, 3], [0, 0], [2, 3], digest]
    file.write_text(json.dumps([*others, row]))


@table("""
    name | ocdbt | reason
    {elsewhere} | | is a path
    ../../../../elsewhere | yes | in OCDBT database
""")
def test_a_checkpoint_that_names_an_array_elsewhere_is_refused(run, tmp_path, name, ocdbt, reason):
    elsewhere = tmp_path / 'elsewhere'
    spec = {'driver': 'zarr', 'kvstore': {'driver': 'file', 'path': str(elsewhere)}}
    array = {'dtype': tensorstore.float32, 'shape': [2, 3], 'fill_value': 7}
    tensorstore.open(spec, create=True, **array).result()
    rename_parameter(run, name.format(elsewhere=elsewhere), ocdbt=bool(ocdbt))
    with Checkpoints(run, read_only=True) as checkpoints, pytest.raises(CheckpointError) as caught:
        checkpoints.load(1)
    assert reason in str(caught.value.__cause__ or caught.value)


def test_a_checkpoint_that_names_a_type_of_python_is_refused(run):
    rename_parameter(run, 'w', ocdbt=True, value_type='os.system')
    refused = pytest.raises(CheckpointError, match='Unknown type: .*os.system')
    with Checkpoints(run, read_only=True) as checkpoints, refused:
        checkpoints.load(1)


def test_a_checkpoint_that_names_an_array_much_larger_than_its_files_is_told_before_it_is_read(run):
    params = run / 'checkpoints' / '1' / 'params'
    store = tensorstore.KvStore.open({'driver': 'ocdbt', 'base': f'file://{params}/'}).result()
    stated = json.loads(store['layer.w/.zarray'])
    store['layer.w/.zarray'] = json.dumps(stated | {'shape': [1 << 34, 3]})
    with Checkpoints(run, read_only=True) as checkpoints, pytest.raises(CheckpointError) as caught:
        checkpoints.load(1)
    assert 'names parameters of 206158430208 bytes, and has files of' in str(caught.value)


NO_TOKENIZERS = ['', '[]', '{"version": "1.0"}', '{"model": {"type": "__reduce__"}}']
NO_TOKENIZERS += ['[' * 100_000, '\x80\x04cos\nsystem\n(Vtrue\ntR.']


@pytest.mark.parametrize('content', NO_TOKENIZERS)
def test_a_tokenizer_file_that_is_none_is_told(tmp_path, content):
    (tmp_path / 'tokenizer.json').write_text(content, encoding='utf-8')
    with pytest.raises(TokenizerError, match='not a tokenizer file'):
        load_tokenizer(tmp_path)
