"""Forgeries of every array, table and JSON file of a folder, signed so that they are believed: each
array, column and field is set to its extremes, one at a time.
"""

import contextlib
import io
import json
import pathlib
import re
import resource
import traceback
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import safetensors.numpy

from opql_jax.core.errors import InputError
from opql_jax.core.manifest import sealed

# Bytes of addresses that a reader may take; threads reserve many that they do not use.
HEADROOM = 3 << 30
_LONG = 'x' * 1_000_000
_DEEP: list = []
for _ in range(500):
    _DEEP = [_DEEP]

Forgery = tuple[str, bytes | None]


def of_array(content: bytes) -> Iterator[Forgery]:
    array = np.load(io.BytesIO(content))
    for name, forged in _of_array(array):
        out = io.BytesIO()
        np.save(out, forged, allow_pickle=False)
        yield name, out.getvalue()
    before, shape, after = re.split(rb'(?<=.shape.: \()([\d, ]*)', content, maxsplit=1)
    for rows in (b'4611686018427387904,', b'-1,', b'1099511627776,'):
        blank = b' ' * max(0, len(rows) - len(shape))
        yield f'shape {rows.decode()}', before + rows + after.replace(blank + b'\n', b'\n', 1)
    yield 'object', content.replace(array.dtype.str.encode(), b'|O', 1)
    yield 'text', b'no array'
    yield 'nothing', b''


def _of_array(array: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    values: list[float] = [0, -1, len(array), len(array) + 1]
    if array.dtype.kind == 'f':
        values += [np.nan, np.inf, -np.inf, float(np.finfo(array.dtype).max)]
    else:
        values += [int(np.iinfo(array.dtype).max), int(np.iinfo(array.dtype).min)]
    for value in values:
        with contextlib.suppress(OverflowError):
            for place in sorted({0, len(array) // 2, len(array) - 1}) if len(array) else ():
                forged = array.copy()
                forged[place] = value
                yield f'{value} at {place}', forged
            yield f'all {value}', np.full_like(array, value)
    yield 'reversed', array[::-1]
    yield 'transposed', array.T.copy() if array.ndim > 1 else array[:, None]
    yield 'rolled', np.roll(array, 1, 0)
    for dtype in ('float64', 'int64', 'int8', 'bool', 'U3', 'complex64', 'V7'):
        if array.dtype != dtype:
            yield dtype, np.zeros(array.shape, dtype) if dtype == 'V7' else array.astype(dtype)
    yield 'big-endian', array.astype(array.dtype.newbyteorder('>'))
    yield 'more dimensions', array[None]
    yield 'no dimension', np.array(array.flat[0])
    yield 'empty', array[:0]
    yield 'one row less', array[:-1]
    yield 'one row more', np.concatenate([array, array[-1:]])
    yield 'twice', np.concatenate([array, array])
    yield 'wider', np.concatenate([array, array], -1)


def of_tensors(content: bytes) -> Iterator[Forgery]:
    """Of the content of a safetensors file; of each tensor some, as there are many."""
    tensors = safetensors.numpy.load(content)
    for name, tensor in tensors.items():
        rows = np.atleast_1d(tensor)
        for change, value in _of_array(rows):
            is_written = value.dtype.kind in 'fiu' and value.dtype.isnative
            if is_written and not (change.endswith('at 0') and rows.size > 1):
                shape = () if tensor.ndim == 0 and value.size == 1 else value.shape
                forged = tensors | {name: np.ascontiguousarray(value).reshape(shape)}
                yield f'{name}: {change}', safetensors.numpy.save(forged)
        others = {n: t for n, t in tensors.items() if n != name}
        yield f'{name}: away', safetensors.numpy.save(others)
    yield 'more', safetensors.numpy.save(tensors | {'more': np.zeros(3, np.float32)})
    yield 'long header', (1 << 62).to_bytes(8, 'little') + content[8:]
    yield 'nothing', b''


def of_table(content: bytes) -> Iterator[Forgery]:
    table = pq.read_table(io.BytesIO(content))

    def written(forged: pa.Table, **options) -> bytes:
        out = io.BytesIO()
        pq.write_table(forged, out, **options)
        return out.getvalue()

    rows = table.to_pylist()
    count = len(rows)
    for field in table.schema:
        columns = {
            'all null': pa.nulls(count, field.type),
            'another type': pa.array([b'\xff'] * count),
            'numbers': pa.array([2.5] * count),
            'the first everywhere': pa.array([rows[0][field.name]] * count, field.type),
        }
        for place in sorted({0, count - 1}):
            for name, value in _of_cell(rows[place][field.name], field.type, count):
                cells = [row[field.name] for row in rows]
                cells[place] = value
                columns[f'{name} at {place}'] = pa.array(cells, field.type)
        if pa.types.is_string(field.type):
            places, bytes_ = np.arange(count + 1, dtype=np.int32), b'\xff' * count
            buffers = pa.py_buffer(places), pa.py_buffer(bytes_)
            columns['no UTF-8'] = pa.StringArray.from_buffers(count, *buffers)
            # A megabyte a row, of a small table some gigabytes, which takes little room on disk.
            many = pa.concat_tables([table] * -(-4000 // count))
            long = pa.DictionaryArray.from_arrays(np.zeros(len(many), np.int32), [_LONG])
            content = written(_with(many, field.name, long), compression='zstd')
            yield f'{field.name}: long everywhere', content
        for name, column in columns.items():
            yield f'{field.name}: {name}', written(_with(table, field.name, column))
        yield f'{field.name}: away', written(table.drop_columns([field.name]))
    yield 'reversed', written(table.take(np.arange(len(rows))[::-1]))
    yield 'one row less', written(table.slice(1))
    yield 'one row more', written(pa.concat_tables([table, table.slice(0, 1)]))
    yield 'no row', written(table.slice(0, 0))
    yield 'a million rows', written(table.take(np.zeros(1_000_000, np.int64)))
    yield 'text', b'no table'
    yield 'nothing', b''


def _with(table: pa.Table, name: str, column) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, column)


def _of_cell(value, type: pa.DataType, rows: int) -> Iterator[tuple[str, object]]:
    if value is not None:
        yield 'null', None
    if pa.types.is_list(type):
        item = type.value_type
        if value:
            yield 'empty', []
            yield 'twice', value + value
            yield 'reversed', value[::-1]
            for name, other in _of_cell(value[0], item, rows):
                yield f'first {name}', [other, *value[1:]]
            for name, other in _of_cell(value[-1], item, rows):
                yield f'last {name}', [*value[:-1], other]
    elif pa.types.is_struct(type):
        for field in type:
            for name, other in _of_cell((value or {}).get(field.name), field.type, rows):
                yield f'{field.name} {name}', {**(value or {}), field.name: other}
    elif pa.types.is_boolean(type):
        yield 'other', not value
    elif pa.types.is_integer(type):
        most = 2 ** (type.bit_width - 1)
        for number in dict.fromkeys((0, -1, -2, rows, rows + 1, most - 1, -most)):
            yield str(number), number
    elif pa.types.is_string(type):
        yield from {'empty': '', 'long': _LONG, 'NUL': '\0', 'lines': 'a\nb\x1b[2J'}.items()


def of_json(content: bytes, seal: Callable[[dict], bytes] = sealed) -> Iterator[Forgery]:
    """Of a JSON file; `seal` gives its content with a checksum that fits, as of a manifest."""
    stated = json.loads(content)

    def written(forged) -> bytes:
        if not isinstance(forged, dict):
            return json.dumps(forged).encode()
        return seal({name: forged[name] for name in forged if name not in signs})

    signs = ('checksum', 'meta_hash')
    for path in _paths(stated):
        if path[0] not in (*signs, 'files'):
            for value in _ODD:
                name = f'{".".join(map(str, path))}: {repr(value)[:20]}'
                yield name, written(_replaced(stated, path, value))
    yield 'deep', b'[' * 100_000
    yield 'nothing', b''


_AWAY = object()
_ODD = [None, _AWAY, 0, -1, 2**31 - 1, 2**31, 2**63 - 1, 10**30, 1.5, 1e999, float('nan')]
_ODD += [True, 'x', '', 'x' * 100_000, '../text', [], _DEEP, {}]


def _paths(value, path=()) -> Iterator[tuple]:
    if path:
        yield path
    if isinstance(value, list):
        value = dict(enumerate(value))
    for key, inner in value.items() if isinstance(value, dict) else ():
        yield from _paths(inner, (*path, key))


def _replaced(value, path, new):
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    if len(path) == 1 and new is _AWAY:
        del copy[path[0]]
    else:
        copy[path[0]] = _replaced(value[path[0]], path[1:], new)
    return copy


def of_bytes(content: bytes, tries: int, seed: int = 0) -> Iterator[Forgery]:
    """Bits that are flipped, and content that is cut short, at places that are drawn."""
    rng = np.random.default_rng(seed)
    for at in rng.integers(len(content), size=tries).tolist():
        changed = bytearray(content)
        changed[at] ^= 1 << int(rng.integers(8))
        yield f'byte {at}', bytes(changed)
    for at in rng.integers(len(content), size=tries // 2).tolist():
        yield f'cut at {at}', content[:at]
    yield 'nothing', b''


def of_damage(content: bytes, other: bytes, seed: int) -> Iterator[Forgery]:
    """What may become of a file, or of one that changed places with another; None is no file."""
    yield from of_bytes(content, 6, seed)
    yield 'removed', None
    yield 'exchanged', other


SUFFIXES = {'.npy': of_array, '.parquet': of_table, '.json': of_json, '.safetensors': of_tensors}


def outcome(folder: pathlib.Path, read: Callable[[], object], whole) -> str:
    """'same' or 'other' of what is read, 'told' of a line that names the folder, or a fault."""
    try:
        return 'same' if read() == whole else 'other'
    except InputError as error:
        said, cause = str(error), error
        while cause is not None:
            if isinstance(cause, MemoryError):
                return f'asked for more memory than there may be: {said}'
            cause = cause.__cause__ or cause.__context__
        if str(folder) not in said or '\n' in said or len(said) > 2000:
            return f'no one line that names the file: {said[:2000]!r}'
        return 'told'
    except BaseException as error:
        return ''.join(traceback.format_exception(error))[-2000:]


@contextlib.contextmanager
def limited_memory(headroom: int = HEADROOM) -> Iterator[None]:
    pages = int(pathlib.Path('/proc/self/statm').read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + headroom, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def broken(found: dict[str, str], fine=('same', 'other', 'told')) -> dict[str, str]:
    return {name: kind for name, kind in found.items() if kind not in fine}
