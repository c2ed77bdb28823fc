"""Writes PDF files object by object."""


def pdf(*objects, trailer=''):
    """The bytes of a file of these objects, numbered from 1, of which the first is the catalog."""
    data, table = b'%PDF-1.4\n', f'xref\n0 {len(objects) + 1}\n0000000000 65535 f \n'
    for number, content in enumerate(objects, 1):
        table += f'{len(data):010d} 00000 n \n'
        content = content if isinstance(content, bytes) else content.encode()
        data += b'%d 0 obj\n%s\nendobj\n' % (number, content)
    end = f'trailer\n<< /Size {len(objects) + 1} /Root 1 0 R {trailer} >>\nstartxref\n{len(data)}'
    return data + f'{table}{end}\n%%EOF\n'.encode()
