"""Reads files as plain text, and what was rejected of them; writes PDF files object by object."""

import json

from opql_jax.datasets.plain_text import PlainText


def read(tmp_path, *sources, max_reject_fraction=0.01):
    """The documents of sources; bad ones are listed in `rejected.jsonl`."""
    reader = PlainText(tuple(map(str, sources)), max_reject_fraction=max_reject_fraction)
    return reader.documents(tmp_path / 'rejected.jsonl')


def rejected(tmp_path):
    """{file: the reason} of what was rejected."""
    rows = map(json.loads, (tmp_path / 'rejected.jsonl').read_text().splitlines())
    return {row['file']: row['reason'] for row in rows}


def pdf(*objects, trailer=''):
    """The bytes of a file of these objects, numbered from 1, of which the first is the catalog."""
    data, table = b'%PDF-1.4\n', f'xref\n0 {len(objects) + 1}\n0000000000 65535 f \n'
    for number, content in enumerate(objects, 1):
        table += f'{len(data):010d} 00000 n \n'
        content = content if isinstance(content, bytes) else content.encode()
        data += b'%d 0 obj\n%s\nendobj\n' % (number, content)
    end = f'trailer\n<< /Size {len(objects) + 1} /Root 1 0 R {trailer} >>\nstartxref\n{len(data)}'
    return data + f'{table}{end}\n%%EOF\n'.encode()
