"""What tests read from a page of the explorer, and its server."""

import contextlib
import html
import re
import socket
import threading


@contextlib.contextmanager
def served(application, **options):
    """The port of a server of an application, in a thread; `options` are those of uvicorn."""
    import uvicorn

    listening = socket.create_server(('127.0.0.1', 0))
    server = uvicorn.Server(uvicorn.Config(application, log_level='critical', **options))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


def words(page: str) -> str:
    plain = re.sub(r'<[^>]*>', '', re.sub(r'<svg.*?</svg>', '', page, flags=re.S))
    return html.unescape(' '.join(plain.split()))
