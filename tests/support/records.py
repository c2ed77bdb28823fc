"""JSON Lines, written and read."""

import json
import pathlib


def write(path: pathlib.Path, records) -> pathlib.Path:
    """Writes a file of records, in a folder that is made if need be; returns it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(''.join(f'{json.dumps(record)}\n' for record in records), encoding='utf-8')
    return path


def read(path: pathlib.Path) -> list:
    lines = path.read_text(encoding='utf-8').split('\n')
    return [json.loads(line) for line in lines if line]
