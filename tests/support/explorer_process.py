"""`opql explore` as a process of its own, and a client of it."""

import pathlib
import re
import subprocess
import sys
import time
from http.client import HTTPConnection, HTTPException
from urllib.parse import parse_qs, urlencode, urlsplit

# Of a request, in seconds: a change takes a minute where other programs are busy.
TIMEOUT = 600


class Server:
    """`opql explore` in a process of its own, until the end of a `with`.

    Attributes:
        seconds: that it took to start.
    """

    def __init__(self, kb: pathlib.Path):
        started = time.monotonic()
        command = [sys.executable, '-m', 'opql_jax.cli', 'explore', str(kb), '--port', '0', '--writable']
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        address = urlsplit(self._process.stdout.readline().strip())
        if not address.port:
            self.kill()
            raise RuntimeError('the server did not start: it says why above')
        self._port, self.seconds = address.port, time.monotonic() - started

    def __enter__(self) -> 'Server':
        return self

    def __exit__(self, *_) -> None:
        self.kill()
        self._process.stdout.close()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def client(self) -> 'Client':
        return Client(self._port)

    def memory(self) -> dict[str, float]:
        """Resident memory in GB: VmRSS now, and VmHWM at its highest."""
        status = pathlib.Path(f'/proc/{self._process.pid}/status').read_text()
        return {name: int(re.findall(rf'{name}:\s+(\d+)', status)[0]) / 1e6 for name in ('VmRSS', 'VmHWM')}


class Client:
    """A connection to the server that is kept open, as that of a browser.

    Attributes:
        retries: requests that were sent once more.
    """

    def __init__(self, port: int):
        self.retries = 0
        self._connection = HTTPConnection('127.0.0.1', port, timeout=TIMEOUT)

    def get(self, path: str) -> tuple[int, str]:
        """The status and text of a page; status 0 if nothing came.

        The server closes connections that were idle for five seconds, maybe just when a request is on its way: as a browser does, this then
        sends it once more over a new connection.
        """
        try:
            status, text, _ = self._send('GET', path)
            return status, text
        except ConnectionError:
            self.retries += 1
            self._connection.close()
            return self._try('GET', path)[:2]
        except (OSError, HTTPException):
            self._connection.close()
            return 0, ''

    def add(self, title: str, text: str) -> str:
        """Adds a text; returns the id of its document, '' if nothing came."""
        status, _, address = self._change('/documents', '/add', title=title, text=text)
        return parse_qs(urlsplit(address).query)['id'][0] if status else ''

    def forget(self, document: str) -> None:
        self._change(f'/document?{urlencode({"id": document})}', '/forget')

    def _change(self, page: str, action: str, **fields: str) -> tuple[int, str, str]:
        """Sends a form of a page, with its hidden fields and others."""
        form = re.findall(rf'<form action="{action}" method="post">(.*?)</form>', self.get(page)[1], re.S)
        if not form:
            return 0, '', ''
        hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form[0]))
        headers = {'Content-Type': 'application/x-www-form-urlencoded'}
        sent = self._try('POST', action, urlencode({**hidden, **fields}), headers)
        assert sent[0] in (0, 303), sent
        return sent

    def _try(self, *request) -> tuple[int, str, str]:
        try:
            return self._send(*request)
        except (OSError, HTTPException):
            self._connection.close()
            return 0, '', ''

    def _send(self, *request) -> tuple[int, str, str]:
        self._connection.request(*request)
        response = self._connection.getresponse()
        return response.status, response.read().decode(), response.headers.get('Location', '')
