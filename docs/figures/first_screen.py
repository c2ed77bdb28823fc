"""Writes the picture of a terminal in docs/how-to/explore.md, from the sample articles.

PYTHONPATH=. .venv/bin/python docs/figures/first_screen.py

recording.svg is a terminal in which `opql` makes a knowledge base and answers a question: the
commands run in a pseudo-terminal, and what they print there is drawn by rich.
"""

import fcntl
import functools
import io
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios

from rich.console import Console
from rich.text import Text

HERE = pathlib.Path(__file__).resolve().parent
ARTICLES = HERE.parents[1] / 'opql_jax' / 'sample' / 'articles'
QUESTION = 'Where was the painter of Harbour at Dusk born?'
COMMANDS = [
    ('index', 'articles/', '--out', 'sample.kb'),
    ('ask', 'sample.kb', QUESTION, '--top', '1'),
]
COLUMNS = 104
# rich links fonts of a server; any font of fixed width does, as each piece of text states its
# length.
FONTS = 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace'


def printed(arguments: tuple[str, ...], folder: str) -> str:
    """What a command of `opql` prints at a terminal, with its colours, when it runs in a folder."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack('4H', 40, COLUMNS, 0, 0))
    environment = os.environ | {
        'TERM': 'xterm-256color',
        'COLUMNS': str(COLUMNS),
        'PYTHONPATH': str(HERE.parents[1]),
    }
    command = [sys.executable, '-m', 'opql_jax.cli', *arguments]
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdin=follower, stdout=follower, stderr=follower
    )
    os.close(follower)
    out = b''
    try:
        for piece in iter(functools.partial(os.read, leader, 4096), b''):
            out += piece
    except OSError:  # of Linux, when the last process has closed the other end
        pass
    if process.wait():
        sys.exit(out.decode())
    return out.decode().replace('\r\n', '\n')


def draw_terminal(text: str) -> str:
    """Text with ANSI colours as an SVG that loads nothing."""
    console = Console(
        record=True,
        width=COLUMNS,
        file=io.StringIO(),
        force_terminal=True,
        color_system='truecolor',
    )
    console.print(Text.from_ansi(text), soft_wrap=False)
    svg = console.export_svg(title='opql', unique_id='opql')
    svg = re.sub(r'<!--.*?-->\s*', '', svg)
    svg = re.sub(r'@font-face \{.*?\}\s*', '', svg, flags=re.DOTALL)
    return re.sub(r'font-family: [^;]*;', f'font-family: {FONTS};', svg)


def main() -> None:
    """Runs the commands, and draws what they print."""
    shown = ''
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ARTICLES, pathlib.Path(folder, 'articles'))
        for arguments in COMMANDS:
            quoted = ' '.join(
                f'"{argument}"' if ' ' in argument else argument for argument in arguments
            )
            shown += f'\x1b[1m$ opql {quoted}\x1b[0m\n{printed(arguments, folder)}\n'
    (HERE / 'recording.svg').write_text(draw_terminal(shown.rstrip()) + '\n', encoding='utf-8')


if __name__ == '__main__':
    main()
