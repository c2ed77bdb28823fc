"""Results that are kept on disk: bad ones are made again, and nothing but results is removed."""

import hashlib

import pyarrow as pa
import pytest

from opql_jax.core import batch_cache
from opql_jax.core.errors import InputError

SCHEMA = pa.schema([('text', pa.string())])
batch_of = lambda *texts: pa.RecordBatch.from_pydict({'text': texts}, schema=SCHEMA)
BATCHES = [batch_of('ab', 'AB'), batch_of('cd', 'CD')]


def doubled(batch):
    texts = [2 * text for text in batch['text'].to_pylist()]
    return pa.RecordBatch.from_pydict({'text': texts}, schema=SCHEMA)


RIGHT = [doubled(batch).to_pylist() for batch in BATCHES]


def run(mapped, folder):
    made = []

    def stage(batch):
        made.append(batch)
        return doubled(batch)

    found = [batch.to_pylist() for batch in mapped(map, stage, SCHEMA, folder, BATCHES)]
    return found, len(made)


def signed(content):
    return hashlib.sha256(content).digest() + content


def arrow(batch):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


NUMBERS = pa.RecordBatch.from_pydict({'text': [1, 2], 'key': [1, 2]})
NO_TEXT = arrow(doubled(BATCHES[0])).replace(b'abab', b'\xff' * 4)
FORGED = {
    'nothing': lambda content: b'',
    'cut short': lambda content: content[:-9],
    'no Arrow file, with a digest that fits': lambda content: signed(b'of somebody else'),
    'nothing, with a digest that fits': lambda content: signed(b''),
    'cut short, with a digest that fits': lambda content: signed(content[32:-40]),
    'another schema, with a digest that fits': lambda content: signed(arrow(NUMBERS)),
    'text that is none, with a digest that fits': lambda content: signed(NO_TEXT),
}


@pytest.mark.parametrize(
    'mapped', [batch_cache.map_cached, batch_cache.map_rows_cached], ids=['batches', 'rows']
)
@pytest.mark.parametrize(
    'forge', [*FORGED.values(), *(lambda c, at=at: flip_at(c, at) for at in range(0, 300, 23))]
)
def test_a_damaged_or_forged_result_is_made_again(tmp_path, mapped, forge):
    assert run(mapped, tmp_path) == (RIGHT, 2)
    assert run(mapped, tmp_path) == (RIGHT, 0)
    for file in tmp_path.iterdir():
        content = file.read_bytes()
        file.write_bytes(forge(content))
        found, made = run(mapped, tmp_path)
        assert found == RIGHT and made == 1


def flip_at(content, at):
    changed = bytearray(content)
    changed[at % len(changed)] ^= 1
    return bytes(changed)


def test_only_results_are_removed(tmp_path, caplog):
    folder = tmp_path / 'cache' / 'a' / 'b'
    folder.mkdir(parents=True)
    run(batch_cache.map_cached, folder)
    (folder / f'.{"0" * 64}.arrow.17.partial').touch()
    size = sum(path.stat().st_size for path in folder.iterdir())
    others = [f'{"1" * 64}.arrow', 'notes.txt', '.notes.txt.17.partial']
    (tmp_path / 'cache' / 'mine').mkdir()
    for name in others:
        content = signed(b'precious') if len(name) < 70 else b'precious'
        (tmp_path / 'cache' / 'mine' / name).write_bytes(content)
    assert batch_cache.remove(tmp_path, 'cache') == size
    assert sorted(path.name for path in tmp_path.rglob('*')) == sorted([*others, 'mine', 'cache'])
    assert f'{"1" * 64}.arrow was left' in caplog.text
    (tmp_path / 'link').symlink_to('cache')
    with pytest.raises(InputError, match='link is a link'):
        batch_cache.remove(tmp_path, 'link')
