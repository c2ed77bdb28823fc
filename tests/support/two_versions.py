"""A knowledge base with all that `compact` removes, made in a moment without an encoder."""

import contextlib
import pathlib
import shutil

import pyarrow as pa
from tiny_retrieval import corpus_of

from opql_jax.core.batch_cache import map_cached
from opql_jax.core.manifest import plan_update, write_manifest
from opql_jax.corpus import tables
from opql_jax.data.kb_folder import KBFolder
from opql_jax.retrieval import index as retrieval_index

import tiny_memories
import tiny_prepared

PASSAGES = {'Ada': 'Ada knew [Charles Babbage].', 'Charles Babbage': 'He lived in [London].'}
ANSWERING = {'text': 'text-2', 'model': 'encoder', 'memory': 'memory-2', 'retrieval': 'retrieval-2'}


def write(kb: pathlib.Path) -> pathlib.Path:
    """Writes two versions, what a killed change left of a third, and a cache."""
    tiny_prepared.write(kb / 'text', longest=12)
    tiny_memories.make(kb / 'memory').close()
    retrieval_index.build(kb / 'retrieval', corpus_of(PASSAGES))
    for part in ('text', 'memory', 'retrieval'):
        shutil.copytree(kb / part, kb / f'{part}-2')
        shutil.copytree(kb / part, kb / f'{part}-3')
        (kb / f'{part}-3' / 'manifest.json').unlink()
    (kb / 'encoder').mkdir()
    KBFolder(kb).write(**ANSWERING)

    splits = ['1-hop/train', '1-hop/dev', '2-hop/train']
    write_manifest(kb / 'text-3', tables.PLAN, {'settings': {}, 'splits': splits})
    write_results(kb / 'text-3' / tables.PARTS / ('0' * 64) / 'passages')
    (kb / 'text-3' / '.passages.parquet.17.partial').touch()
    plan_of_memory(kb / 'memory-3')
    (kb / 'memory-3/segment-00000/.relations-00001.npy.17.partial').touch()
    names = [path.name for path in (kb / 'retrieval-3').iterdir()]
    shutil.rmtree(kb / 'retrieval-3')
    plan_update(kb / 'retrieval-3', retrieval_index.PLAN, (), names)
    shutil.copy(kb / 'retrieval/words.parquet', kb / 'retrieval-3')
    (kb / 'text-4').mkdir()
    (kb / 'text-4/.lock').touch()
    (kb / 'text-4/.plan.json.17.partial').touch()
    for name in ('spans', 'vectors'):
        write_results(kb / 'cache' / ('1' * 64) / name)
    return kb


def plan_of_memory(memory: pathlib.Path) -> None:
    shards = [tiny_memories.relations_of]
    shutil.rmtree(memory)
    with contextlib.suppress(IndexError):
        tiny_memories.make(memory, encode=lambda rows: shards.pop()(rows))


def write_results(folder: pathlib.Path) -> None:
    folder.mkdir(parents=True)
    schema = pa.schema([('text', pa.string())])
    batches = [pa.RecordBatch.from_pydict({'text': [text]}, schema=schema) for text in ('a', 'b')]
    assert len(list(map_cached(map, lambda batch: batch, schema, folder, batches))) == 2
    (folder / f'.{"2" * 64}.arrow.17.partial').touch()
