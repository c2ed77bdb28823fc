"""Slow clients, on loopback: they are not waited for, and others are answered meanwhile."""

import contextlib
import socket
import threading
import time
import urllib.request

import pytest

from pages import served

pytest.importorskip('starlette', reason='the extra app is not installed')
pytest.importorskip('uvicorn', reason='uvicorn is not installed')

from opql_jax.explorer import app, connections
from opql_jax.explorer.connections import CONNECTIONS, Connection

HEAD = b'GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: '
LARGE = b'x' * (1 << 26)


async def answers(scope, receive, send):
    """A large page at /large, else the body of the request."""
    body, more = b'', True
    while more:
        message = await receive()
        if message['type'] == 'http.disconnect':
            return
        body, more = body + message.get('body', b''), message.get('more_body', False)
    await send({'type': 'http.response.start', 'status': 200, 'headers': []})
    await send({'type': 'http.response.body', 'body': LARGE if scope['path'] == '/large' else body})


def serving(application):
    return served(application, http=Connection, lifespan='off')


@pytest.fixture
def seconds(monkeypatch):
    return lambda what, value: monkeypatch.setitem(connections.SECONDS, what, value)


def ask(port):
    with urllib.request.urlopen(f'http://127.0.0.1:{port}/', timeout=60) as answer:
        return answer.status


def is_closed(connection, timeout):
    connection.settimeout(timeout)
    try:
        while connection.recv(1 << 20):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


def test_unfinished_heads_hold_up_nobody_and_are_closed_in_time(seconds):
    seconds('head', 3.0)
    with serving(answers) as port, contextlib.ExitStack() as opened:
        connect = lambda: opened.enter_context(socket.create_connection(('127.0.0.1', port)))
        clients = [connect() for _ in range(CONNECTIONS + 20)]
        for client in clients:
            client.sendall(HEAD)
        began = time.monotonic()
        assert ask(port) == 200
        # Nobody waited for a head: the oldest made room.
        assert time.monotonic() - began < 2.5
        assert all(is_closed(client, 30) for client in clients[:20])
        for client in clients[-20:]:
            with contextlib.suppress(ConnectionError):
                client.sendall(b'drip')  # which gains no time
        assert all(is_closed(client, 30) for client in clients)
        assert ask(port) == 200


def test_the_oldest_that_waits_makes_room_and_not_who_is_being_answered(seconds):
    seconds('head', 600.0)
    begun, goes_on = threading.Event(), threading.Event()

    async def slow(scope, receive, send):
        import asyncio

        begun.set()
        await asyncio.to_thread(goes_on.wait, 60)
        await answers(scope, receive, send)

    with serving(slow) as port, contextlib.ExitStack() as opened:
        connect = lambda: opened.enter_context(socket.create_connection(('127.0.0.1', port)))
        first = connect()
        first.sendall(HEAD + b'x\r\nConnection: close\r\n\r\n')
        assert begun.wait(60)
        others = [connect() for _ in range(CONNECTIONS + 5)]
        assert is_closed(others[0], 30) and not is_closed(others[-1], 0.2)
        goes_on.set()
        first.settimeout(60)
        assert first.recv(100).startswith(b'HTTP/1.1 200')


def test_a_body_that_does_not_come_is_not_waited_for(seconds):
    seconds('body', 1.0)
    with serving(answers) as port, socket.create_connection(('127.0.0.1', port)) as client:
        client.sendall(b'POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nabc')
        assert is_closed(client, 30)


def test_a_response_that_is_not_taken_is_not_kept(seconds):
    seconds('response', 1.0)
    with serving(answers) as port, socket.create_connection(('127.0.0.1', port)) as client:
        client.sendall(b'GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n')
        time.sleep(3)
        taken = 0
        with contextlib.suppress(ConnectionError):
            while part := client.recv(1 << 20):
                taken += len(part)
        assert taken < len(LARGE)


def test_a_thread_ends_soon_after_its_client_is_gone():
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Route

    begun, ended = threading.Event(), threading.Event()

    def page(request):
        begun.set()
        while not app.time_limit.passed():
            time.sleep(0.01)
        ended.set()
        return Response('late')

    with serving(Starlette(routes=[Route('/', app.in_thread(page))])) as port:
        with socket.create_connection(('127.0.0.1', port)) as client:
            client.sendall(HEAD + b'x\r\n\r\n')
            assert begun.wait(60) and not ended.is_set()
        assert ended.wait(60)  # long before its time is over
