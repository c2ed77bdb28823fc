"""The house rules that a machine can check, on this repository and on small trees made for it."""

import ast
import fnmatch
import graphlib
import json
import os
import pathlib
import runpy
import subprocess
import sys
from collections.abc import Iterable

from examples import examples, table

REPO = pathlib.Path(__file__).resolve().parent.parent

# Rooms, packages or modules atop, by their height: each imports itself and lower ones only.
# `evaluation` opens what training saved.
ROOMS = (
    'core / corpus / datasets / data / parallel / memory / models / training retrieval / '
    'evaluation / kb / integrations explorer recipes / tasks / t5x_model / binaries'
).split(' / ')
HEIGHT = {room: height for height, rooms in enumerate(ROOMS) for room in rooms.split()}
# SeqIO tasks are thin: of the lower rooms they see these.
TASKS_MAY_IMPORT = {'tasks', 'core', 'corpus', 'datasets', 'data'}
# The modules at the top of the package; only they know gin.
EDGE = (
    'prepare train build_memory update_memory eval convert_questions infer fewshot gin_utils '
    'verify release import_t5x cli'
).split()

TENSORFLOW = 'tensorflow tensorflow_text tensorflow_datasets seqio'
# Parts of clu that import TensorFlow.
CLU = 'clu.metric_writers clu.periodic_actions clu.checkpoint'
# Packages, the modules that may import them (the explorer only listens), and why others may not.
RESTRICTED = examples(f"""
    tasks | | the tasks are installed as opql_jax_tasks
    gin | {' '.join(f'opql_jax.{name}' for name in EDGE)} | only the binaries and gin_utils know gin
    {TENSORFLOW} | opql_jax_tasks opql_jax_tasks.* | only tasks import seqio and TensorFlow
    {CLU} | | this part of clu imports TensorFlow
    tensorboardX | opql_jax.training.tensorboard | elsewhere it would import torch
    t5x torch transformers | | not a dependency of the package
    scann | opql_jax.memory.ann | only memory/ann.py imports scann
    pyspark | opql_jax.corpus.spark | only corpus/spark.py imports pyspark
    pickle cPickle _pickle cloudpickle dill marshal shelve joblib | | it runs code that it reads
    yaml runpy code | | it runs code that it reads
    urllib.request http requests httpx aiohttp ftplib smtplib | | it opens connections
    huggingface_hub socketserver | | it opens connections
    socket | opql_jax.core.locks opql_jax.explorer.app | it opens connections
""")
ABSENT = (
    f'{TENSORFLOW} {CLU} gin jinja2 langchain_core lark llama_index matplotlib mcp '
    'mwparserfromhell pandas pypdf pyspark scann spacy starlette t5x torch transformers typer '
    'uvicorn'
).split()


def source_files(root: pathlib.Path) -> list[pathlib.Path]:
    return [file for name in ('opql_jax', 'tasks') for file in sorted((root / name).rglob('*.py'))]


def module_name(path: pathlib.Path) -> str:
    """Dotted name under which the file `path` (relative to the checkout) is imported."""
    parts = list(path.with_suffix('').parts)
    if parts[0] == 'tasks':
        parts[0] = 'opql_jax_tasks'
    return '.'.join(parts[:-1] if parts[-1] == '__init__' else parts)


def room_of(module: str) -> str | None:
    """The room a dotted name belongs to; None for other packages and for the bare `opql_jax`."""
    package, _, rest = module.partition('.')
    if package == 'opql_jax_tasks':
        return 'tasks'
    if package != 'opql_jax' or not rest:
        return None
    first = rest.partition('.')[0]
    return first if first in HEIGHT else 'binaries'


def is_below(module: str, names: Iterable[str]) -> bool:
    return any(module == name or module.startswith(name + '.') for name in names)


def imports(path: pathlib.Path) -> list[tuple[int, str]]:
    """All imports of a file, also in functions: (line, name), of `from a import b` `a.b`."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [(node.lineno, f'{node.module}.{alias.name}') for alias in node.names]
    return found


def import_error(module: str, imported: str) -> str | None:
    """Why `module` may not import `imported`, or None when it may."""
    room, target = room_of(module), room_of(imported)
    for names, may, reason in RESTRICTED:
        allowed = any(fnmatch.fnmatch(module, pattern) for pattern in may.split())
        if is_below(imported, names.split()) and not allowed:
            return reason
    if target is not None and room is not None:
        if room == 'tasks' and target not in TASKS_MAY_IMPORT:
            return f'tasks import {", ".join(sorted(TASKS_MAY_IMPORT))} only, not {target}'
        if room != target and HEIGHT[room] <= HEIGHT[target]:
            return f'{room} may not import {target}: imports point downward'
    return None


def violations(root: pathlib.Path) -> list[str]:
    """One line `file:line: reason` for each broken rule in the checkout at `root`."""
    found = []
    if (root / 'gin' / '__init__.py').exists():
        found.append('gin/__init__.py: shadows the gin library; remove it')
    for path in source_files(root):
        relative = path.relative_to(root)
        module = module_name(relative)
        for line, imported in imports(path):
            if reason := import_error(module, imported):
                found.append(f'{relative}:{line}: imports {imported}: {reason}')
    return found


def circle(root: pathlib.Path) -> list[str]:
    """A circle of imports, from one module back to itself, or []; imports in functions count."""
    sources = {module_name(path.relative_to(root)): path for path in source_files(root)}
    graph: dict[str, set[str]] = {}
    for module, path in sources.items():
        graph[module] = set()
        for _, imported in imports(path):
            target = imported if imported in sources else imported.rpartition('.')[0]
            if target in sources and room_of(target) == room_of(module) and target != module:
                graph[module].add(target)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1][::-1]
    return []


IMPORT_ALL = """
import importlib, json, sys
from importlib.machinery import PathFinder

modules, absent = json.loads(sys.argv[1])
find_spec = PathFinder.find_spec

def without_absent(cls, name, path=None, target=None):
    if any(name == gone or name.startswith(gone + '.') for gone in absent):
        return None
    return find_spec(name, path, target)

# Finding nothing, rather than raising, is what an absent package looks like to code that asks first.
PathFinder.find_spec = classmethod(without_absent)
errors = []
for module in modules:
    try:
        importlib.import_module(module)
    except Exception as error:
        errors.append(f'{module}: {type(error).__name__}: {error}')
print(json.dumps(errors))
"""  # noqa: E501


def test_the_repository_keeps_the_house_rules():
    assert violations(REPO) == [] == circle(REPO)


def test_core_imports_without_the_optional_packages():
    """All modules but the edge, rooms that are extras, and the one that needs SeqIO."""
    rooms = ('explorer', 'integrations', 't5x_model', *EDGE)
    left_out = ('opql_jax_tasks', *(f'opql_jax.{name}' for name in rooms))
    names = [module_name(path.relative_to(REPO)) for path in source_files(REPO)]
    modules = [name for name in names if not is_below(name, left_out)]
    assert modules, 'no core modules were found'
    command = [sys.executable, '-c', IMPORT_ALL, json.dumps([modules, ABSENT])]
    env = {**os.environ, 'PYTHONPATH': str(REPO), 'JAX_PLATFORMS': 'cpu'}
    result = subprocess.run(command, env=env, cwd=REPO, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout.splitlines()[-1]) == []


def test_setup_lists_every_package():
    listed = runpy.run_path(str(REPO / 'setup.py'), run_name='setup')['PACKAGES']
    folders = {path.parent for path in source_files(REPO)}
    assert set(listed) == {module_name(folder.relative_to(REPO)) for folder in folders}
    without_init = [folder for folder in folders if not (folder / '__init__.py').exists()]
    assert without_init == [], 'an __init__.py is missing'


@table("""
    module | imported | reason
    opql_jax.memory.build | opql_jax.models.encoder | downward
    opql_jax.train | tasks.metaqa | installed as opql_jax_tasks
    opql_jax_tasks.metaqa | opql_jax.memory.store | tasks import core, corpus, data
    opql_jax.core.net | http.client | opens connections
""")
def test_what_is_forbidden(module, imported, reason):
    assert reason in import_error(module, imported)


def test_imports_in_functions_count_and_a_circle_is_found(tmp_path):
    for name, source in {
        'paths': 'from opql_jax.kb import door',
        'door': 'def open():\n    from opql_jax.kb.paths import Path\n    import pickle',
        '__init__': '',
    }.items():
        (tmp_path / 'opql_jax/kb').mkdir(parents=True, exist_ok=True)
        (tmp_path / f'opql_jax/kb/{name}.py').write_text(source)
    assert set(circle(tmp_path)) == {'opql_jax.kb.door', 'opql_jax.kb.paths'}
    assert [line.partition(': ')[0] for line in violations(tmp_path)] == ['opql_jax/kb/door.py:3']
