"""Small runs of all that writes a folder, for `system_calls`, and what must be found afterwards."""

import contextlib
import hashlib
import types

import numpy as np
import two_versions

from opql_jax.core.errors import InputError
from opql_jax.core.hashing import params_hash
from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.prepared import Prepared
from opql_jax.kb.open_kb import open_kb
from opql_jax.kb.text.change_text import add_text
from opql_jax.kb.text.change_text import compact as compact_text
from opql_jax.kb.text.index_text import index_text as index
from opql_jax.kb.trained.question_sets import write_answers
from opql_jax.memory.format import Memory
from opql_jax.training.checkpoints import Checkpoints

import prepare_by_parts
import tiny_memories
from graph_kb import QUESTIONS, ring
from tiny_memories import digest_of_tree
from trios import TRIOS

NOTHING = None


def _work(run, state, before=lambda folder: None, content=digest_of_tree):
    return types.SimpleNamespace(before=before, run=run, state=state, content=content)


def _file_digests(folder, manifest):
    for name, stated in manifest.files.items():
        data = (folder / name).read_bytes()
        assert (stated.bytes, stated.sha256) == (len(data), hashlib.sha256(data).hexdigest()), name


def _prepared_state(folder):
    try:
        prepared = Prepared(folder)
    except InputError:
        return NOTHING
    assert len(prepared.passages) and len(prepared.pairs['topic']) and len(prepared.vocab)
    _file_digests(folder, prepared.manifest)
    return prepared.hash()


_prepare = lambda folder: prepare_by_parts.run(folder, folder.parent / 'corpus.jsonl')
_corpus = lambda before: prepare_by_parts.write_corpus(before.parent)
prepare = _work(_prepare, _prepared_state, _corpus)

_TEXTS = TRIOS['engine'].documents
_DOCUMENTS = [{'id': title, 'title': title, 'text': text} for title, text in _TEXTS.items()]


def _text_state(folder):
    try:
        kb = open_kb(folder)
    except InputError:
        return NOTHING
    with kb:
        _file_digests(kb.prepared.directory, kb.prepared.manifest)
        _file_digests(kb.memory.directory, kb.memory.manifest)
        return [kb.identity, kb.prepared.passages['text'].to_pylist()]


_index = lambda folder, documents=_DOCUMENTS: index(documents, folder, processes=1)
_add = lambda folder: add_text(folder, _DOCUMENTS[:1], processes=1)
index_text = _work(_index, _text_state, content=_text_state)
change_text = _work(_add, _text_state, lambda f: _index(f, _DOCUMENTS[1:]), _text_state)


def _answering_state(folder):
    parts = KBFolder(folder).read()
    return [digest_of_tree(folder / parts[kind]) for kind in parts if kind != 'model']


compact_kb = _work(compact_text, _answering_state, two_versions.write)


def _memory_state(folder):
    try:
        memory = Memory.open(folder)
    except InputError:
        return NOTHING
    with contextlib.closing(memory):
        _file_digests(folder, memory.manifest)
        entries = repr(tiny_memories.entries_of(memory))
        return [memory.hash(), hashlib.sha256(entries.encode()).hexdigest()]


def _memory(before):
    tiny_memories.make(before).close()
    tiny_memories.add(before, tiny_memories.make_table(10, seed=1)).close()
    tiny_memories.delete(before, entities=[0])


_halves = lambda folder: tiny_memories.make(folder, None, tiny_memories.halves_of(), relation_dim=4)
build = _work(_halves, _memory_state)
inject, delete, compact = (
    _work(tiny_memories.UPDATES[name], _memory_state, _memory)
    for name in ('inject', 'delete', 'compact')
)


def _params(step):
    kernel = np.arange(12.0, dtype=np.float32).reshape(3, 4) * step
    return {'encoder': {'kernel': kernel}, 'bias': np.full(5, step, np.float32)}


def _save(folder, step):
    with Checkpoints(folder, keep=1) as checkpoints:
        if checkpoints.latest_step() != step:
            checkpoints.save(step, _params(step), {'mu': _params(step + 10)}, {'step': step})


def _checkpoint_state(folder):
    with Checkpoints(folder, read_only=True) as checkpoints:
        for step in checkpoints.steps():
            params, opt_state, meta = checkpoints.restore(_params(0), {'mu': _params(0)}, step)
            assert meta['step'] == step
    return [step, params_hash(params), params_hash(opt_state)]


def _checkpoint_content(folder):
    # Files hold times and random names; the step before may stay if it was about to be removed.
    names = [path.name for path in (folder / 'checkpoints').iterdir()]
    return [_checkpoint_state(folder), [name for name in names if not name.isdigit()]]


checkpoint = _work(
    lambda folder: _save(folder, 2), _checkpoint_state, lambda f: _save(f, 1), _checkpoint_content
)


def _predictions_state(folder):
    path = folder / 'a.jsonl'
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else NOTHING


_predict = lambda folder: write_answers(ring(), QUESTIONS, folder / 'a.jsonl')
predictions = _work(_predict, _predictions_state)


_kb_state = lambda folder: KBFolder(folder).read()
_answer = lambda model, memory: lambda f: KBFolder(f).write(text='text', model=model, memory=memory)
kb_manifest = _work(_answer('language', None), _kb_state, _answer('follow', 'memory'), _kb_state)
