"""A small folder of each kind, and how all of it is read; what becomes of it if a file is forged.

`survey` is for a process of its own, whose memory it limits.
"""

import math
import pathlib
import zlib
from collections.abc import Callable

import forge
import numpy as np
from tiny_retrieval import corpus_of, vector_of

from opql_jax.core.arrays import bad_row
from opql_jax.data.prepared import Prepared
from opql_jax.memory.format import Memory
from opql_jax.memory.update import delete
from opql_jax.models import mention_kinds, released
from opql_jax.models.question_map import QuestionMap
from opql_jax.models.text_encoder import TextEncoder
from opql_jax.retrieval import index as retrieval_index
from opql_jax.retrieval.rank import Ranker
from opql_jax.retrieval.view import Question

import tiny_prepared
import tiny_text_encoder
import tiny_updates
from memory_tables import make_table

# What reads a folder.
Read = Callable[[], object]


def prepared(root: pathlib.Path) -> tuple[pathlib.Path, Read]:
    """Prepared text; all but what training alone reads."""
    folder = tiny_prepared.write(root / 'prepared', longest=12)

    def read():
        prepared = Prepared(folder)
        names = prepared.vocab.keys, prepared.vocab.names, prepared.vocab.aliases, prepared.vocab.kinds
        pairs = [column.tolist() for column in prepared.pairs.values()]
        rows = [prepared.pair_rows(kind).tolist() for kind in ('title', 'sentence', 'all')]
        return names, prepared.passages.to_pylist(), pairs, rows, len(prepared.records), prepared.tokenizer.to_str()

    return folder, read


def memory(root: pathlib.Path) -> tuple[pathlib.Path, Read]:
    """A memory of two segments, with injected entities and deleted entries."""
    folder = root / 'memory'
    tiny_updates.make(folder).close()
    tiny_updates.add(folder, make_table(12, seed=1), count=7).close()
    delete(folder, entries=[3, 5])

    def read():
        memory = Memory.open(folder)
        memory.check_vocabulary(tiny_updates.VOCAB)
        relations = memory.relations()
        assert bad_row(relations) is None and bad_row(memory.entity_rows) is None
        columns = memory.topic, memory.target, memory.ids, memory.offsets, memory.entity_rows, relations
        return [column.tolist() for column in columns], memory.provenance(memory.ids), memory.read_from([3, 4]).tolist()

    return folder, read


PASSAGES = {
    'Ada': 'Ada met [Babbage]. He built [Engine]s in [London].',
    'Babbage': 'A man of [London]. [Ada] knew him.',
    'Engine': 'A machine that [Babbage] drew.',
    'London': 'A city.',
}


def retrieval(root: pathlib.Path) -> tuple[pathlib.Path, Read]:
    """An index of passages, and how it ranks them."""
    folder = root / 'retrieval'
    retrieval_index.build(folder, corpus_of(PASSAGES))
    questions = [
        Question(text, entities, vector_of(text))
        for text, entities in (('who built a machine', []), ('which city did Ada know', [0]))
    ]

    def read():
        opened = retrieval_index.IndexFolder(folder)
        index, found = opened.load(), []
        for ranked in Ranker(index).rank_all(questions, 10):
            found.append([(p.passage, p.score, p.reason, index.texts[p.passage]) for p in ranked])
        assert all(math.isfinite(score) for each in found for _, score, *_ in each)
        assert all(len(each) == len(index.ids) for each in found)
        rarity = [math.log1p((len(index.ids) - n) / (n + 1)) for n in opened.passages_with_word.values()]
        sentences = [index.texts[0][slice(*index.sentence(row))] for row in range(len(index.sentence_starts))]
        return found, opened.kinds, rarity, sentences, index.titles

    return folder, read


def encoder(root: pathlib.Path) -> tuple[pathlib.Path, Read]:
    """A released encoder with what tells the kinds of its mentions."""
    tiny, folder = tiny_text_encoder.make(), root / 'encoder'
    released.write(folder, tiny.module, tiny.params, tiny.tokenizer.to_str(), '# Tiny\n')
    size = tiny.module.hidden_size
    rng = np.random.default_rng(0)
    kernel = rng.normal(size=(size, len(mention_kinds.KINDS))).astype(np.float32)
    released.add_kinds(folder, mention_kinds.MentionKinds(kernel, np.zeros(len(mention_kinds.KINDS), np.float32)))

    def read():
        opened = TextEncoder(*released.read(folder))
        kinds = released.read_kinds(folder)
        relations = opened.encode_pairs(['Emma met York.'], [(0, 4)], [(9, 13)])
        assert np.isfinite(relations).all()
        found = kinds and kinds.log_probabilities(np.ones((1, size), np.float32))
        assert found is None or np.isfinite(found).all()
        return relations.tolist(), None if found is None else found.tolist()

    return folder, read


def question_map(root: pathlib.Path) -> tuple[pathlib.Path, Read]:
    """A map of questions, and what it makes of relations and scores."""
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


KINDS = {kind.__name__: kind for kind in (prepared, memory, retrieval, encoder, question_map)}


def survey(kind: str, root: pathlib.Path, every: int) -> dict[str, str]:
    """Forges every file of a folder of a kind, each `every`-th way; what became of it, see `forge.survey`."""
    folder, read = KINDS[kind](root)
    read()
    forge.limit_memory()
    found: dict[str, str] = {}
    for file in sorted(path for path in folder.rglob('*') if path.is_file()):
        name = file.relative_to(folder).as_posix()
        start = zlib.crc32(name.encode()) % every
        if file.suffix in forge.SUFFIXES and name != 'tokenizer.json':
            found |= forge.survey(folder, file, read, every=every, start=start)
        elif file.suffix not in ('.md', '.jsonl'):
            forgeries = forge.of_bytes(file.read_bytes(), tries=30)
            found |= forge.survey(folder, file, read, forgeries=forgeries, every=every, start=start)
    return found
