"""A small folder of each kind, how all of it is read, and what becomes of forged files."""

import fnmatch
import hashlib
import itertools
import json
import math
import pathlib
import zlib
from collections.abc import Callable, Iterator

import damage
import forge
import numpy as np
from flax import traverse_util

import opql_jax
from opql_jax.core.arrays import bad_row
from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.prepared import Prepared
from opql_jax.kb.text.index_text import index_text
from opql_jax.memory.format import Memory
from opql_jax.memory.update import delete
from opql_jax.models import mention_kinds, released
from opql_jax.models.question_map import QuestionMap
from opql_jax.models.text_encoder import TextEncoder
from opql_jax.training import model_config
from opql_jax.training.checkpoints import Checkpoints

import films
import tiny_prepared
import tiny_text_encoder
import tiny_training
from tiny_memories import VOCAB, add, make, make_table

Read = Callable[[], object]


def prepared(root: pathlib.Path) -> tuple[pathlib.Path, Read]:
    """Prepared text; all but what training alone reads."""
    folder = tiny_prepared.write(root / 'prepared', longest=12)

    def read():
        prepared = Prepared(folder)
        vocab = prepared.vocab
        names = vocab.keys, vocab.names, vocab.aliases, vocab.kinds
        pairs = [column.tolist() for column in prepared.pairs.values()]
        rows = [prepared.pair_rows(kind).tolist() for kind in ('title', 'sentence', 'all')]
        texts = prepared.passages.to_pylist(), prepared.tokenizer.to_str()
        return names, texts, pairs, rows, len(prepared.records)

    return folder, read


def memory(root: pathlib.Path) -> tuple[pathlib.Path, Read]:
    folder = root / 'memory'
    make(folder).close()
    add(folder, make_table(12, seed=1), count=7).close()
    delete(folder, entries=[3, 5])

    def read():
        memory = Memory.open(folder)
        memory.check_vocabulary(VOCAB)
        relations = memory.relations()
        assert bad_row(relations) is None and bad_row(memory.entity_rows) is None
        names = ('topic', 'target', 'ids', 'offsets', 'entity_rows')
        columns = [getattr(memory, name).tolist() for name in names]
        facts = memory.provenance(memory.ids), memory.read_from([3, 4]).tolist()
        return columns, relations.tolist(), facts

    return folder, read


def encoder(root: pathlib.Path) -> tuple[pathlib.Path, Read]:
    """A released encoder with what tells the kinds of its mentions."""
    tiny, folder = tiny_text_encoder.make(), root / 'encoder'
    released.write(folder, tiny.module, tiny.params, tiny.tokenizer.to_str(), '# Tiny\n')
    size, kinds = tiny.module.hidden_size, len(mention_kinds.KINDS)
    kernel = np.random.default_rng(0).normal(size=(size, kinds)).astype(np.float32)
    released.add_kinds(folder, mention_kinds.MentionKinds(kernel, np.zeros(kinds, np.float32)))

    def read():
        opened = TextEncoder(*released.read(folder))
        kinds = released.read_kinds(folder)
        tokens = opened.tokenizer.encode('Emma met York.', add_special_tokens=False).ids
        states = tiny_text_encoder.hidden(opened, tokens)
        assert np.isfinite(states).all()
        found = kinds and kinds.log_probabilities(np.ones((1, size), np.float32))
        assert found is None or np.isfinite(found).all()
        return states.tolist(), None if found is None else found.tolist()

    return folder, read


def question_map(root: pathlib.Path) -> tuple[pathlib.Path, Read]:
    folder = root / 'map'
    change = np.random.default_rng(0).normal(0, 0.1, (8, 8)).astype(np.float32)
    QuestionMap(change, 1.1, 0.9, 0.02, 0.3).write(folder, 'encoder', 10)

    def read():
        learnt = QuestionMap.read(folder)
        relations = learnt(np.eye(len(learnt.change), dtype=np.float32))
        worth = learnt.score(np.ones(1), np.ones(1) * 0.6) + (0.08 + learnt.longer) * 3
        assert np.isfinite(relations).all() and np.isfinite(np.exp(20 * (worth - 1))).all()
        return relations.tolist(), worth.tolist(), learnt.log_odds

    return folder, read


def checkpoint(root: pathlib.Path) -> tuple[pathlib.Path, Read]:
    folder = root / 'run'
    weights = np.arange(6, dtype=np.float32).reshape(2, 3)
    params = {'layer': {'w': weights}, 'bias': np.ones(3, np.float32)}
    with Checkpoints(folder) as checkpoints:
        checkpoints.save(1, params, {'m': np.zeros(3, np.float32)}, {'step': 1})

    def read():
        with Checkpoints(folder, read_only=True) as checkpoints:
            params, meta = checkpoints.load(1)
        found = traverse_util.flatten_dict(params, sep='.')
        assert all(np.isfinite(leaf).all() for leaf in found.values())
        return {name: np.asarray(leaf).tolist() for name, leaf in found.items()}, meta

    return folder, read


QUESTIONS = ['Who directed Night Ferry?', 'Where was the director of Night Ferry born?']
QUESTIONS += ['which actress was born in a city that lies on water?']


def plain_text(root: pathlib.Path) -> tuple[pathlib.Path, Read]:
    folder = root / 'films.kb'
    index_text([films.write(root / 'films.jsonl')], folder, processes=1)
    opened = TextEncoder.load(folder / 'encoder')  # which stays open, and need not be read again

    def read():
        assert opened.dim
        with opql_jax.open(folder) as kb:
            answers = []
            for question in QUESTIONS:
                answer = kb.ask(question)
                assert np.isfinite([answer.weights, answer.probabilities]).all()
                explained = answer.explain(*answer.names[:1])
                answers.append((answer.names, answer.weights.tolist(), explained))
            found = kb.retrieve(QUESTIONS, 50)
            assert all(math.isfinite(document.score) for each in found for document in each)
            return repr((answers, found))

    return folder, read


def model(root: pathlib.Path) -> tuple[pathlib.Path, Read]:
    """What a model says of itself; a kind of its own, as its checkpoints are one."""
    prepared, folder = Prepared(tiny_prepared.write(root / 'prepared', longest=12)), root / 'model'
    folder.mkdir()
    encoder = tiny_training.encoder(vocab_size=prepared.tokenizer.get_vocab_size())
    model_config.write(folder, encoder, prepared)
    return folder, lambda: repr(model_config.read(folder))


def kb(root: pathlib.Path) -> tuple[pathlib.Path, Read]:
    folder = root / 'kb'
    KBFolder(folder).write(text='text', model='model', memory='memory')

    def read():
        names = KBFolder(folder).read()
        for name in filter(None, names.values()):
            assert (folder / name).resolve().parent == folder.resolve()
        return names

    return folder, read


_ALL = [prepared, memory, encoder, question_map, checkpoint, plain_text, model, kb]
KINDS = {kind.__name__: kind for kind in _ALL}
# Files that are forged as another kind of folder, or are text for people.
_ELSEWHERE = '*tokenizer.json README.md rejected.jsonl questions/* encoder/* cache/* *.lock .lock*'
_MANIFESTS = ('manifest.json', 'config.json', 'model.json')


def _meta(stated: dict) -> bytes:
    meta_hash = hashlib.sha256(json.dumps(stated, sort_keys=True).encode()).hexdigest()
    return json.dumps({**stated, 'meta_hash': meta_hash}).encode()


def _forgeries(file: pathlib.Path) -> Iterator[forge.Forgery]:
    content = file.read_bytes()
    if file.suffix in forge.SUFFIXES:
        return forge.SUFFIXES[file.suffix](content)
    flipped = forge.of_bytes(content, tries=30) if content else iter(())
    if content[:1] != b'{':
        return flipped
    seal = _meta if b'"meta_hash"' in content else lambda stated: json.dumps(stated).encode()
    return itertools.chain(forge.of_json(content, seal), flipped)


def prepared_whole(root: pathlib.Path) -> tuple[pathlib.Path, Read]:
    folder, read = prepared(root)

    def read_all():
        opened = Prepared(folder)
        records = [[np.asarray(x).tolist() for x in record] for record in opened.records]
        questions = {split: opened.questions(split) for split in opened.splits}
        return read(), records, questions, opened.vocab.aliases

    return folder, read_all


DAMAGED = {'prepared_whole': prepared_whole, **KINDS}


def survey(kind: str, root: pathlib.Path, every: int, signed: bool = True) -> dict[str, str]:
    """{what was forged: 'same', 'other', 'told', or what went wrong} for each so many-th forgery of
    each file, below a manifest that signs it; not `signed`, files are damaged.
    """
    folder, read = DAMAGED[kind](root)
    whole, found = read(), {}  # which compiles, too
    with forge.limited_memory():
        paths = sorted(path for path in folder.rglob('*') if path.is_file() and path.stat().st_size)
        for number, file in enumerate(paths):
            name, before = file.relative_to(folder).as_posix(), file.read_bytes()
            if signed and any(fnmatch.fnmatch(name, pattern) for pattern in _ELSEWHERE.split()):
                continue
            above = [parent for parent in file.parents if parent.is_relative_to(folder)]
            manifests = (parent / of for parent in above for of in _MANIFESTS)
            manifest = next((path for path in manifests if path.exists()), file)
            stated, other = manifest.read_bytes(), paths[number - 1].read_bytes()
            made = _forgeries(file) if signed else forge.of_damage(before, other, number)
            start = zlib.crc32(name.encode()) % every
            for what, content in itertools.islice(made, start, None, every):
                file.unlink() if content is None else file.write_bytes(content)
                if signed and file != manifest:
                    damage.sign(manifest.parent, manifest.name)
                found[f'{name}: {what}'] = forge.outcome(folder, read, whole)
                file.write_bytes(before)
                manifest.write_bytes(stated)
    return found
