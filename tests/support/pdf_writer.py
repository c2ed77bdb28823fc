"""Writes PDF files object by object."""


def pdf(*objects, trailer=''):
    """The bytes of a file of these objects, numbered from 1, of which the first is the catalog."""
    data, starts = b'%PDF-1.4\n', []
    for number, content in enumerate(objects, 1):
        starts.append(len(data))
        data += b'%d 0 obj\n%s\nendobj\n' % (
            number,
            content if isinstance(content, bytes) else content.encode(),
        )
    table = f'xref\n0 {len(objects) + 1}\n0000000000 65535 f \n' + ''.join(
        f'{start:010d} 00000 n \n' for start in starts
    )
    end = (
        f'trailer\n<< /Size {len(objects) + 1} /Root 1 0 R {trailer} >>\n'
        f'startxref\n{len(data)}\n%%EOF\n'
    )
    return data + (table + end).encode()
