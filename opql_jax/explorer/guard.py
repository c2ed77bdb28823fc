"""A layer around the application: who may ask, how much, and what a page may load."""

import hmac
import re
import time
from collections.abc import Collection
from urllib.parse import unquote_to_bytes, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from opql_jax.core.errors import InputError

LOOPBACK = ('localhost', '127.0.0.1', '::1')
# Nothing is loaded from elsewhere, no script runs that stands in a page, and no other page may show
# this one.
_HEADERS = {
    'Content-Security-Policy': "default-src 'none'; script-src 'self'; style-src 'self'; img-src "
    "'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    'X-Content-Type-Options': 'nosniff',
    # With 'no-referrer' browsers would send forms of ours with the origin 'null', as those of other
    # pages.
    'Referrer-Policy': 'same-origin',
    'Cache-Control': 'no-store',
}
# What a page of an allowed origin is told it may send: no forms, and no cookies.
_PREFLIGHT = {
    'Access-Control-Allow-Methods': 'GET',
    'Access-Control-Allow-Headers': 'Authorization',
}
_COOKIE = 'opql_token'
# What watches a server has no token, and learns nothing of the text.
_HEALTH = '/health'
_ORIGIN = re.compile(r'https?://(\[[0-9a-f:]+\]|[a-z0-9.-]+)(:\d+)?')
_LONGEST_PATH = 8_000
NO_TEXT = 'bytes that are no text in UTF-8, such as half of a surrogate pair'
# Requests that are answered at a time, most of which wait for a thread.
REQUESTS = 100
# Clients whose requests are counted; of more, the ones that were quiet longest are forgotten.
_MOST_CLIENTS = 10_000


class Guard:
    """Refuses hosts that are not ours, requests of other pages or without the token, and too many.

    Adds headers to what is answered. A browser is let in by the address that `opql explore` prints,
    `/?token=…`, which leaves a cookie; a program sends `Authorization: Bearer …`. What a browser
    sends on behalf of another page, such as an image of it, is refused on every address. A person
    may follow a link to the first page, which asks nothing; programs send no headers that tell of a
    page. Scripts of pages of allowed origins may read `/api/…` (CORS).
    """

    def __init__(
        self,
        app: ASGIApp,
        hosts: Collection[str] | None = LOOPBACK,
        token: str | None = None,
        rate: float | None = None,
        origins: Collection[str] = (),
    ):
        """Takes the application, and who may use it; InputError: not an origin.

        `hosts` are names by which it may be called (another is that of a page elsewhere, whose
        owner has made it point here), None for any; `token` is the one that is needed, `rate` the
        requests a second of a client, and `origins` those whose pages may read `/api/…`, such as
        'https://notes.example'.
        """
        for origin in origins:
            if not _ORIGIN.fullmatch(origin):
                known = 'https://notes.example or http://localhost:3000'
                raise InputError(f'{origin!r} is no origin: give one such as {known}')
        self._app, self._token, self._rate, self._origins = app, token, rate, frozenset(origins)
        self._hosts = None if hosts is None else {host.lower() for host in hosts}
        self._allowance: dict[str, tuple[float, float]] = {}
        self._answering = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope['type'] != 'http':
            return await self._app(scope, receive, send)

        is_answered, request, allowed = False, Request(scope), {}
        if self._is_allowed(request):
            allowed = {'Access-Control-Allow-Origin': request.headers['origin']}

        def answered() -> None:
            nonlocal is_answered
            self._answering -= not is_answered
            is_answered = True

        async def with_headers(message: Message) -> None:
            if message['type'] == 'http.response.start':
                answered()  # to take it is up to the client
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS | allowed)
                if self._origins:
                    headers.add_vary_header('Origin')
            await send(message)

        refusal = self._refusal(request)
        self._answering += 1
        try:
            await (refusal or self._app)(scope, receive, with_headers)
        finally:
            answered()

    def _refusal(self, request: Request):
        host = re.sub(r':\d*$', '', request.headers.get('host', '')).strip('[]')
        if self._hosts is not None and host.lower() not in self._hosts:
            return PlainTextResponse('this server is not called that', 421)
        is_allowed = self._is_allowed(request)
        if not is_allowed and _is_of_another_page(request):
            other = 'this was sent by a page of another site'
            return PlainTextResponse(f'{other}: open the first page of this one and ask there', 403)
        if len(request.scope['raw_path']) + len(request.scope['query_string']) > _LONGEST_PATH:
            return PlainTextResponse('the address is too long', 414)
        try:
            unquote_to_bytes(request.scope['query_string']).decode()
        except UnicodeDecodeError:
            return PlainTextResponse(f'the address has {NO_TEXT}', 400)
        later, client = {'Retry-After': '1'}, request.client.host if request.client else ''
        if self._answering >= REQUESTS:
            return PlainTextResponse('too many requests are being answered', 503, later)
        if self._rate is not None and not self._may_ask(client):
            return PlainTextResponse('too many requests', 429, later)
        # Sent by the browser before the request, without the token.
        if is_allowed and request.method == 'OPTIONS':
            return Response(status_code=204, headers=_PREFLIGHT)
        if self._token is not None and request.url.path != _HEALTH:
            return self._without_token(request)
        return None

    def _is_allowed(self, request: Request) -> bool:
        """Whether a page of an allowed origin reads the API."""
        is_reading = request.method in ('GET', 'OPTIONS') and request.url.path.startswith('/api/')
        return is_reading and request.headers.get('origin') in self._origins

    def _without_token(self, request: Request):
        right = lambda given: hmac.compare_digest(given.encode(), str(self._token).encode())
        if request.method == 'GET' and right(request.query_params.get('token', '')):
            answer = RedirectResponse('/', 303)
            answer.set_cookie(_COOKIE, str(self._token), httponly=True, samesite='strict')
            return answer
        header = request.headers.get('authorization', '').encode('latin-1')
        scheme, _, bearer = header.decode(errors='replace').partition(' ')
        is_bearer = scheme.lower() == 'bearer' and right(bearer)
        if is_bearer or right(request.cookies.get(_COOKIE, '')):
            return None
        needed = 'this needs the token that was printed when the server started'
        return PlainTextResponse(needed, 401, {'WWW-Authenticate': 'Bearer'})

    def _may_ask(self, client: str) -> bool:
        """Whether a client asked seldom enough: `rate` times a second, and so many at once."""
        assert self._rate is not None
        now, burst = time.monotonic(), max(1.0, self._rate)
        left, then = self._allowance.pop(client, (burst, now))
        left = min(burst, left + (now - then) * self._rate)
        self._allowance[client] = (max(left - 1, 0.0), now)  # last, as the one that asked last
        if len(self._allowance) > _MOST_CLIENTS:
            del self._allowance[next(iter(self._allowance))]
        return left >= 1


def _is_of_another_page(request: Request) -> bool:
    """Whether a browser sends it for somebody else's page; programs send no such headers."""
    headers, host = request.headers, request.headers.get('host', '')
    if (origin := headers.get('origin')) is not None and _address(origin) != host.lower():
        return True
    if headers.get('sec-fetch-site', 'none') in ('same-origin', 'none'):
        return False
    how = headers.get('sec-fetch-mode'), headers.get('sec-fetch-dest')
    is_link = request.method == 'GET' and how == ('navigate', 'document')
    return not (is_link and request.url.path == '/' and request.query_params.keys() <= {'token'})


def _address(origin: str) -> str | None:
    """The host and port of an origin, None if it has none, as 'null'."""
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None
