"""The explorer: pages for people, which need no JavaScript, and `/api/…` for programs."""

import asyncio
import contextlib
import errno
import os
import pathlib
import re
import threading
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import Any, TypeVar
from urllib.parse import urlencode

import anyio.to_thread
import jinja2
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from opql_jax.core import time_limit
from opql_jax.core.errors import InputError, NotFound, error_message, is_full
from opql_jax.core.manifest import MANIFEST
from opql_jax.explorer import entity_graph, guard, views
from opql_jax.explorer.changes import Changes
from opql_jax.explorer.openapi import OPENAPI
from opql_jax.explorer.suggestions import suggest
from opql_jax.kb.current import Current
from opql_jax.kb.virtual_kb import VirtualKB

# Pages that are made at a time; others wait. Python runs one thread at a time, so more of them are
# no faster, and each change, which is one thread, too, would take that much longer.
PAGES_AT_ONCE = 2 * (os.cpu_count() or 1)
# Changes that may wait for each other.
CHANGES_AT_ONCE = 64

# Seconds that requests have to end in once the server is to stop.
_GRACE = 5
# What shows one entity or document, by its name or id.
_OF_ONE = '/entity', '/document', '/api/document'
# The status of a response that nobody takes, as nginx logs it.
_CLIENT_CLOSED = 499
_ALL_ADDRESSES = ('0.0.0.0', '::')
# Of templates, and of what pages load.
_FOLDER = pathlib.Path(__file__).parent

T = TypeVar('T')


class Explorer:
    """The pages of a knowledge base, and the forms by which it is changed if it is `writable`."""

    def __init__(self, folder: str | os.PathLike, writable: bool = False, local: bool = True):
        self._current = Current(folder)
        _ = self._current.kb().text_answerer  # says that a trained model has no pages
        self._changes = Changes(folder) if writable else None
        # Changes take no place of a page, however many wait for each other.
        self._changing = anyio.CapacityLimiter(CHANGES_AT_ONCE)
        # A version, which this does not keep open, and what was made once of it.
        self._made: tuple[Callable[[], VirtualKB | None], dict[Callable, Any]] = (lambda: None), {}
        self._folder = pathlib.Path(os.path.abspath(folder))
        self._title, self._local = self._folder.name, local
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(_FOLDER / 'templates'),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        shared = {'title': self._title, 'link': _link, 'changes': self._changes}
        self._templates.globals |= shared

    def routes(self) -> list[Route | Mount]:
        pages = {
            '/': self.ask,
            '/entities': self.entities,
            '/entity': self.entity,
            '/documents': self.documents,
            '/document': self.document,
            '/map': self.map,
            '/api/ask': self.api_ask,
            '/api/retrieve': self.api_retrieve,
            '/api/document': self.api_document,
            '/openapi.json': self.openapi,
            '/docs': self.docs,
            '/health': self.health,
        }
        forms = {
            '/add': self.add,
            '/forget': self.forget,
            '/forget-sentence': self.forget_sentence,
            '/undo': self.undo,
        }
        return [
            *(Route(path, in_thread(page), methods=['GET']) for path, page in pages.items()),
            *(Route(path, form, methods=['POST']) for path, form in forms.items() if self._changes),
            Mount('/static', StaticFiles(directory=_FOLDER / 'static')),
        ]

    def _kb(self) -> VirtualKB:
        """The newest version; HTTPException if it cannot be opened, no fault of the request."""
        try:
            return self._current.kb()
        except InputError as error:
            said = str(error)
            if not self._local:  # clients elsewhere are not told where it lies
                said = said.replace(os.fspath(self._folder), self._title)
            raise HTTPException(503, said) from error

    def _once(self, kb: VirtualKB, make: Callable[[VirtualKB], T]) -> T:
        """What is made of a version, the first time that it is asked for."""
        version, made = self._made
        if version() is not kb:
            self._made = version, made = weakref.ref(kb), {}
        if make not in made:
            made[make] = make(kb)
        return made[make]

    # ---- Pages: each runs in a thread, see `in_thread` ----

    def ask(self, request: Request) -> Response:
        kb, text = self._kb(), request.query_params.get('q', '').strip()
        if text:
            return self._page('ask.html', question=text, answered=views.ask(kb, text))
        self._once(kb, suggest)
        counts, most_read = kb.prepared.manifest.counts, self._once(kb, views.most_read)
        return self._page('ask.html', question='', counts=counts, most_read=most_read)

    def entity(self, request: Request) -> Response:
        page = _number(request, 'page', 0, 0, 10**6)
        found = views.entity(self._kb(), _text(request, 'name'), page)
        more = (page + 1) * views.FACTS < found['num_facts']
        return self._page('entity.html', entity=found, page=page, more=more)

    def entities(self, request: Request) -> Response:
        page, kb = _number(request, 'page', 0, 0, 10**6), self._kb()
        text, kind = request.query_params.get('text', ''), request.query_params.get('kind', '')
        found, total = views.entities(kb, text, kind, page)
        more = (page + 1) * views.ENTITIES < total
        kinds = sorted(set(kb.vocab.kinds))
        asked: dict[str, Any] = {'text': text, 'kind': kind, 'kinds': kinds, 'total': total}
        return self._page('entities.html', entities=found, page=page, more=more, **asked)

    def document(self, request: Request) -> Response:
        start, end = (_number(request, name, 0, 0, 10**9) for name in ('start', 'end'))
        found = views.document(self._kb(), _text(request, 'id'), (start, end))
        return self._page('document.html', document=found)

    def documents(self, request: Request) -> Response:
        page, text = _number(request, 'page', 0, 0, 10**6), request.query_params.get('text', '')
        found, total = views.documents(self._kb(), text, page)
        more = (page + 1) * views.DOCUMENTS < total
        made = time.gmtime(os.stat(self._folder / MANIFEST).st_mtime)
        changed = time.strftime('%Y-%m-%d %H:%M UTC', made)
        shown: dict[str, Any] = {'total': total, 'text': text, 'page': page, 'more': more}
        return self._page('documents.html', documents=found, changed=changed, **shown)

    def map(self, request: Request) -> Response:
        return self._page('map.html', map=self._once(self._kb(), entity_graph.draw_map))

    # ---- Forms ----

    async def add(self, request: Request) -> Response:
        changes, form = await self._posted(request)
        document = await self._change(changes.add, form.get('title', ''), form.get('text', ''))
        return RedirectResponse(_link('/document', id=document), 303)

    async def forget(self, request: Request) -> Response:
        changes, form = await self._posted(request)
        await self._change(changes.forget, form.get('id', ''), form.get('digest', ''))
        return RedirectResponse('/documents', 303)

    async def forget_sentence(self, request: Request) -> Response:
        """Forgets a sentence, and shows again the question or document of its page."""
        changes, form = await self._posted(request)
        await self._change(changes.forget_sentence, form.get('sentence', ''))
        if 'q' in form:
            return RedirectResponse(_link('/', q=form['q']), 303)
        document = form.get('id', '')
        left = views.passages_of(self._kb().prepared, document)
        return RedirectResponse(_link('/document', id=document) if left else '/documents', 303)

    async def undo(self, request: Request) -> Response:
        changes, form = await self._posted(request)
        await self._change(changes.undo, form.get('change', ''))
        return RedirectResponse('/documents', 303)

    async def _posted(self, request: Request) -> tuple[Changes, dict[str, str]]:
        """What makes changes, and the fields of a form."""
        assert self._changes is not None  # else there is no such route
        return self._changes, await self._changes.form(request)

    async def _change(self, function: Callable[..., T], *arguments) -> T:
        """The result of a change, once the new version is open, so that the next page shows it."""
        try:
            result = await anyio.to_thread.run_sync(function, *arguments, limiter=self._changing)
        except OSError as error:
            no_room = is_full(error) or error.errno == errno.EFBIG
            raise HTTPException(507 if no_room else 500, error_message(error)) from error
        try:
            await anyio.to_thread.run_sync(self._current.newest, limiter=self._changing)
        except (InputError, OSError) as error:
            said = 'The change was made, but the new version cannot be opened: '
            raise HTTPException(503, said + error_message(error)) from error
        return result

    # ---- For programs ----

    def api_ask(self, request: Request) -> Response:
        top = _number(request, 'top', 5, 1, 100)
        return JSONResponse(views.members(self._kb(), _text(request, 'q')).to_record(top))

    def api_retrieve(self, request: Request) -> Response:
        k = _number(request, 'k', 5, 1, 100)
        read = bool(_number(request, 'read', 1, 0, 1))
        found = self._kb().retrieve(_text(request, 'q'), k, read=read)
        return JSONResponse(found.to_record())

    def api_document(self, request: Request) -> Response:
        name = _text(request, 'id')
        return JSONResponse({'document': name, 'text': self._kb().prepared.document_text(name)})

    def openapi(self, request: Request) -> Response:
        return JSONResponse(OPENAPI)

    def docs(self, request: Request) -> Response:
        return self._page('docs.html', api=OPENAPI)

    def health(self, request: Request) -> Response:
        version, passages = OPENAPI['info']['version'], len(self._kb().prepared.passages)
        return JSONResponse({'status': 'ok', 'version': version, 'passages': passages})

    # ---- What goes wrong ----

    def refused(self, request: Request, error: Exception) -> Response:
        """A request that cannot be answered, or for what is not there: the words of InputError."""
        is_missing = isinstance(error, NotFound) and request.url.path in _OF_ONE
        return self._error(request, str(error), 404 if is_missing else 400)

    def unable(self, request: Request, error: Exception) -> Response:
        """A file that cannot be read, for one: no fault of the request."""
        assert isinstance(error, OSError)
        elsewhere = error.strerror or type(error).__name__
        return self._error(request, error_message(error) if self._local else elsewhere, 503)

    def failed(self, request: Request, error: Exception) -> Response:
        """A page that is not there, or a method that it does not have."""
        assert isinstance(error, HTTPException)
        said = error.detail
        if error.status_code == 404 and not _is_for_programs(request):
            said = f'{request.url.path} leads nowhere. The pages are named above.'
        return self._error(request, said, error.status_code)

    def gone(self, request: Request, error: Exception) -> Response:
        """A client that did not wait, and takes no response."""
        return Response(status_code=_CLIENT_CLOSED)

    def _error(self, request: Request, message: str, status: int) -> Response:
        if _is_for_programs(request):
            return JSONResponse({'error': message}, status)
        if status == 404:
            heading = 'This is not there'
        elif request.method == 'POST' and status in (400, 507):
            heading = 'Nothing was changed'
        elif request.method == 'POST' and status == 503:
            heading = 'The new version cannot be shown'
        else:
            heading = 'That could not be answered'
        said = {'heading': heading, 'message': message}
        return self._page('error.html', status, question=request.query_params.get('q', ''), **said)

    def _page(self, template: str, status: int = 200, **values) -> Response:
        suggested = self._made[1].get(suggest)
        page = self._templates.get_template(template).render(suggested=suggested, **values)
        return HTMLResponse(page, status)


def make_app(
    folder: str | os.PathLike,
    hosts: Collection[str] | None = guard.LOOPBACK,
    token: str | None = None,
    rate: float | None = None,
    writable: bool = False,
    origins: Collection[str] = (),
) -> Callable:
    """The application (ASGI) of a folder's knowledge base, with its guard (see `guard.Guard`).

    `writable`: whether pages may change it. InputError: no knowledge base of plain text is there,
    or one of `origins` is not an origin.
    """
    local = hosts is not None and set(hosts) <= set(guard.LOOPBACK)
    explorer = Explorer(folder, writable, local)
    handlers = {
        InputError: explorer.refused,
        HTTPException: explorer.failed,
        OSError: explorer.unable,
        ClientDisconnect: explorer.gone,
    }
    app = Starlette(routes=explorer.routes(), exception_handlers=handlers, lifespan=limited_pages)  # type: ignore[arg-type]
    return guard.Guard(app, hosts, token, rate, origins)


@contextlib.asynccontextmanager
async def limited_pages(app: Starlette) -> AsyncIterator[None]:
    """Limits the threads that make pages to `PAGES_AT_ONCE` while the application runs."""
    anyio.to_thread.current_default_thread_limiter().total_tokens = PAGES_AT_ONCE
    yield


def serve(
    folder: str | os.PathLike,
    host: str,
    port: int,
    token: str | None,
    writable: bool = False,
    origins: Collection[str] = (),
) -> None:
    """Serves the explorer until it is interrupted; see `make_app` for the other arguments.

    `host` is the address to listen at; any but loopback needs a token. Port 0 takes a free one.
    InputError: a token is missing, an origin is wrong, or the port is in use.
    """
    import socket

    import uvicorn

    from opql_jax.explorer.connections import Connection

    local = host in guard.LOOPBACK
    if not local and not token:
        reached = f'{host} can be reached from other machines'
        raise InputError(f'{reached}: give a token, --token or OPQL_TOKEN')
    # A machine has names that it does not know itself: where all of its addresses are listened at,
    # the token guards it.
    hosts = None if host in _ALL_ADDRESSES else {host, *guard.LOOPBACK}
    app = make_app(folder, hosts, token, None if local else 10.0, writable, origins)
    listening = socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()  # so that who reads the address below can use it at once
    except OSError as error:
        give = 'give another --port, or 0 for a free one'
        raise InputError(
            f'{host}:{port} cannot be listened at ({error.strerror}): {give}'
        ) from None
    shown = socket.gethostname() if host in _ALL_ADDRESSES else f'[{host}]' if ':' in host else host
    query = f'?{urlencode({"token": token})}' if token else ''
    print(f'http://{shown}:{listening.getsockname()[1]}/{query}', flush=True)
    config = uvicorn.Config(
        app, http=Connection, ws='none', log_level='warning', timeout_graceful_shutdown=_GRACE
    )
    uvicorn.Server(config).run(sockets=[listening])


def in_thread(page: Callable[[Request], Response]) -> Callable[[Request], Awaitable[Response]]:
    """Makes a page in a thread; ends after `time_limit.SERVED` seconds, or as the client leaves."""

    async def answer(request: Request) -> Response:
        gone = threading.Event()

        def make() -> Response:
            if gone.is_set():  # while this waited for a thread
                return Response(status_code=_CLIENT_CLOSED)
            with time_limit.limited(time_limit.SERVED, gone):
                return page(request)

        async def watch() -> None:
            while (await request.receive())['type'] != 'http.disconnect':
                pass  # the body, of which a page makes no use
            gone.set()

        watching = asyncio.create_task(watch())
        try:
            return await anyio.to_thread.run_sync(make)
        finally:
            watching.cancel()

    return answer


def _is_for_programs(request: Request) -> bool:
    return request.url.path.startswith('/api/') or request.url.path == '/health'


def _link(path: str, **parameters) -> str:
    """The address of a page."""
    return f'{path}?{urlencode(parameters)}'


def _text(request: Request, name: str) -> str:
    """A parameter that must be there, as text."""
    value = request.query_params.get(name, '')
    if not value.strip():
        raise InputError(f'{name}: missing')
    return value


def _number(request: Request, name: str, default: int, least: int, most: int) -> int:
    value = request.query_params.get(name, str(default))
    if not re.fullmatch('[0-9]{1,9}', value) or not least <= int(value) <= most:
        raise InputError(f'{name}: expected a number from {least} to {most}')
    return int(value)
