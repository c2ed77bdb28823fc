"""The public entry, `opql_jax.open`."""

import subprocess
import sys

import opql_jax

import tiny_training


def test_a_knowledge_base_is_opened_by_its_folder(tmp_path):
    kb = opql_jax.open(tiny_training.write_world(tmp_path), k=3)
    answer = kb.answer(kb.prepared.questions('1-hop/dev')[:1])[0]
    assert 0 < len(answer.entities) <= 3
    assert kb.memory.directory == tmp_path / 'memory'


def test_importing_the_package_imports_nothing_else():
    code = (
        'import sys, opql_jax; print([name for name in ("jax", "numpy", "pyarrow", "opql_jax.kb") '
        'if name in sys.modules])'
    )
    assert (
        subprocess.run([sys.executable, '-c', code], capture_output=True, text=True).stdout
        == '[]\n'
    )
